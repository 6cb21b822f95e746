package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// elasticJob returns a job that may lose so many pods, but is not evicted as a whole.
func elasticJob(elastic int, pods ...Pod) Job { return Job{Elastic: elastic, Pods: pods} }

// podWithTwoCards is a pod that uses two cards.
func podWithTwoCards(node int, loss int64) Pod { return Pod{Node: node, Usage: Amounts{2}, Loss: loss} }

// TestSearchSkipsWhatCannotSuffice: two pods of 2 cards are pending, at most one on each node. Only nodes 0 and 1
// have pods of 2 cards: job 0 can lose one of two, and job 1 one. 20 more jobs on other nodes free a single card each,
// which helps no pod. The search must skip those at once: with all their combinations it would end without a plan.
func TestSearchSkipsWhatCannotSuffice(t *testing.T) {
	jobs := []Job{elasticJob(1, podWithTwoCards(0, 1), podWithTwoCards(1, 2)), elasticJob(1, podWithTwoCards(0, 50))}
	for i := range 20 {
		jobs = append(jobs, elasticJob(1, podOn(2+i, 10)))
	}

	p := fullProblem(22, 2, 2, jobs...)
	p.PodSets[0].Request = append(p.PodSets[0].Request, 1)
	for i := range p.Nodes {
		p.Nodes[i].Free = append(p.Nodes[i].Free, 1) // each pod needs all of this resource of its node
	}

	got := Solve(p, MaxWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	onNode1 := JobVictims{Job: 0, Pods: []int{1}}
	onNode0 := JobVictims{Job: 1, Pods: []int{0}}
	check.Equal(t, "victims", []JobVictims{onNode1, onNode0}, got.Plan.Victims)
}

// TestSearchProvesThatElasticPodsDoNotSuffice: a job can lose 3 of its 60 one-card pods, and the pending pod needs 8
// cards. The search proves that there is no plan. It does not try sets of pods until its budget ends.
func TestSearchProvesThatElasticPodsDoNotSuffice(t *testing.T) {
	for name, nodes := range map[string]int{"all pods on one node": 1, "spread over the nodes": 7} {
		job := Job{Elastic: 3}
		for i := range 60 {
			job.Pods = append(job.Pods, podOn(i%nodes, int64(1+i)))
		}
		checkNoPlan(t, name, Solve(fullProblem(nodes, 1, 8, job), MaxWork))
	}
}

// checkNoPlan checks that the solver has proved that no victims suffice.
func checkNoPlan(t *testing.T, what string, got Result) {
	check.Equal(t, what+": plan", nil, got.Plan)
	check.That(t, !got.OutOfBudget, "%s: the search was cut, want a proof that there is no plan", what)
}

// TestSearchProvesThatElasticPodsReleaseTooLittle: node 0 has room for the pending pod of 8 cards, but the quota of the
// parent has no card left. A job on node 1 can lose 3 of its 60 pods, and each releases one card of that quota.
func TestSearchProvesThatElasticPodsReleaseTooLittle(t *testing.T) {
	job := Job{Elastic: 3}
	for i := range 60 {
		job.Pods = append(job.Pods, podOn(1, int64(1+i)))
	}
	p := fullProblem(2, 1, 8, withReleases(1, 1, job)) // at level 1, that of the parent
	p.Quotas = []Quota{{Levels: []int64{8, 0}}}
	p.Nodes[0].Free = Amounts{100}
	p.PodSets[0].Nodes = []int{0}

	checkNoPlan(t, "3 cards of 8", Solve(p, MaxWork))
}

// TestSearchTriesMoreSetsInTrees: in a tree of queues, victims release quotas and count against limits. Then
// the lower bound of the search excludes few sets of victims. To find the least loss it must try more than
// maxSearchTries of them. Here node n has room for the pending pod of 12 cards, so victims need not free any
// (cards=0). But the quota of the parent is used up: left=1000,0 is 1000 in the own queue, none in its
// parent. Jobs of level 1 release quota of the parent, 1 or "releases" for each pod; that of level 2 releases
// none. Of the three elastic jobs at most 8 may be taken, which "counts" says. The oracle, which tries all
// sets, says what the least loss is.
func TestSearchTriesMoreSetsInTrees(t *testing.T) {
	p := newScene(`
		node n cards=16
		quota A left=1000,0
		limit queue most=8
		pending pods=1 cards=12
		job elastic1 running=n*3 cards=0 level=1 elastic=2 loss=2 releases=A counts=queue
		pod elastic1 2 loss=4 releases=A*2 counts=queue*2
		job elastic2 running=n*2 cards=0 level=1 elastic=1 loss=2 releases=A counts=queue
		job elastic3 running=n*5 cards=0 level=1 elastic=3 loss=5 releases=A counts=queue
		pod elastic3 0 loss=1 releases=A*2 counts=queue*2
		pod elastic3 1 loss=21 releases=A*4 counts=queue*4
		pod elastic3 2 loss=21 releases=A*4 counts=queue*4
		job gang1 running=n cards=0 level=1 loss=3 releases=A*2
		job gang2 running=n cards=0 level=1 loss=1 releases=A
		job gang3 running=n cards=0 level=1 loss=12 releases=A*2
		job ofOtherTenant running=n cards=0 level=2 loss=5 releases=A`).Problem

	optimum, possible := leastLoss(p)
	check.Must(t, possible, "the oracle finds no plan")

	got := Solve(p, MaxWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	check.Equal(t, "loss", optimum, got.Plan.Loss)
}

// TestNeighborhoodBeginsWithSharedNodes: to improve a plan, the search decides again which pods of a bounded list around
// a victim are victims, its neighborhood. First come the victim and what shares a node with it, also through another job:
// only these free room at the same place. Job 0 is the victim, on node 0. Job 1 also runs there, with a second pod on
// node 1, where job 2 runs. These four pods come first, although 60 further jobs on other nodes lose less.
func TestNeighborhoodBeginsWithSharedNodes(t *testing.T) {
	jobs := []Job{elasticJob(1, podOn(0, 100)), elasticJob(2, podOn(0, 900), podOn(1, 900)), elasticJob(1, podOn(1, 900))}

	for i := range 60 {
		jobs = append(jobs, elasticJob(1, podOn(2+i, 1)))
	}
	p := fullProblem(62, 1, 1, jobs...) // 62 nodes; one pod waits for one card
	m := newModel(p)
	m.addJobs(p)
	s := m.initialState()
	s.addVictim(0, none)                                                   // the pod of job 0
	got := s.neighborhoodOf(0, s.newBranchAndBound(s.openUnits()).options) // all pods, those that lose least first
	check.Must(t, len(got) == maxNeighborhood, "%d pods, want %d", len(got), maxNeighborhood)
	check.Equal(t, "begin of the neighborhood", []int{0, 1, 2, 3}, got[:4]) // the pods are numbered in the order of the jobs
}
