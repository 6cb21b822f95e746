package capacitycard

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestADeniedPodDelaysNoOther: in a tree allocate runs twice. It leaves to the second run the pods for which their queue
// must borrow, and pods of jobs of lower priority of that queue. Pod denied-0 of priority 1 has a request that the checks
// refuse anyway. So the first run tries it, and does not leave without-0, of priority 0 and without cards, to the second.
func TestADeniedPodDelaysNoOther(t *testing.T) {
	s := newTreeScene(t, tenant+`job denied queue=q min=1 pending=1
		job without queue=q min=1 pending=1`).openSession()
	s.Job("denied").Priority = 1
	s.p.allocation.deservedFirst = &deservedFirst{borrowers: map[api.JobID]bool{}, later: map[api.JobID]bool{}, highestWaiting: map[snapshot.QueueCard]int32{}}

	denied := s.checkInputFor("denied-0", "")
	denied.Request.Names = nil
	denied.Request.Denied = &workload.Refusal{}
	check.That(t, !s.p.allocation.leaveToSecondRun(denied), "the denied pod is left to the second run")

	without := s.checkInputFor("without-0", "")
	without.Request.Names = nil
	without.Request.Count = 0
	check.That(t, !s.p.allocation.leaveToSecondRun(without), "the pod without cards is left to the second run")
}

// TestSecondRunTriesOnlyJobsThatBorrow: in a tree allocate runs twice, first for pods whose queues deserve the cards, then
// for pods with which their queues borrow. The second run has only jobs that may borrow. Otherwise it would search all
// hypernodes (groups of nodes) again for a job with subgroups, and Volcano would lose the reasons of the first run.
//
// Queue x deserves 2 cards, which job full uses. So queue x has to borrow for job borrows. Queue y deserves the 4 cards
// of job topology, which has subgroups. Only 3 cards are free, so topology still waits after the first run.
func TestSecondRunTriesOnlyJobsThatBorrow(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=5
		queue x quota={"A":8} serviceType=training deserved={"A":2}
		queue y quota={"A":8} serviceType=training deserved={"A":4}
		job full queue=x min=1 running=a*2
		job borrows queue=x min=1 pending=3
		job topology queue=y min=4 pending=4`)
	s.changePodGroups(func(g *v1beta1.PodGroup) {
		if g.Name == "topology" {
			g.Spec.SubGroupPolicy = []v1beta1.SubGroupPolicySpec{{Name: "w"}}
		}
	})

	runsWith := map[string]int{}
	s.openSession().pluginForActions().Allocate(func() {
		for _, job := range s.Ssn.Jobs {
			runsWith[job.Name]++
		}
		s.Run(allocate.New())
	})

	check.Equal(t, "runs of allocate that have job topology", 1, runsWith["topology"])
	check.That(t, runsWith["borrows"] > 1, "only the first run of allocate has job borrows")
}

// TestFlatQueuesNeedNoSecondRun: a flat queue deserves its quota, so no pod borrows, and allocate runs once. Otherwise the
// scene is like that above: job more uses 2 of the 5 cards, and the 3 others do not suffice for both pending jobs.
func TestFlatQueuesNeedNoSecondRun(t *testing.T) {
	s := newScene(t, `node a model=A cards=5
		queue x quota={"A":8} serviceType=training
		queue y quota={"A":8} serviceType=training
		job more queue=x min=1 running=a*2
		job first queue=x min=1 pending=3
		job second queue=y min=1 pending=4`)

	runs := 0
	s.openSession().pluginForActions().Allocate(func() {
		runs++
		s.Run(allocate.New())
	})
	check.Equal(t, "runs of allocate", 1, runs)
}
