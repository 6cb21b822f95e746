package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestPodsSayWhatNodesLack: the message of a pod that no node takes tells what Volcano's count of the
// nodes does not, and package blocked reads the same reason from it.
func TestPodsSayWhatNodesLack(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text, pod, want string
		reason          v1alpha1.BlockedReason
	}{
		"all cards in use":       {`node a,b model=A cards=4; node c model=B; queue q quota={"A":16}; job r queue=q min=1 running=a,b cards=4; job j queue=q min=1 pending=1 cards=2`, "j-0", "too few <A> are free, all nodes are unavailable: ", "NoFreeCard"},
		"not on one node":        {`node a,b model=A cards=4; queue q quota={"A":16}; job r queue=q min=1 running=a,b cards=2; job j queue=q min=1 pending=1 cards=4`, "j-0", "enough <A> are free, but not on one node, all nodes are unavailable: ", "Fragmented"},
		"no such card":           {`node a model=A cards=4; queue q quota={"C":16}; job j queue=q min=1 pending=1 card=C`, "j-0", "no node has <C>, all nodes are unavailable: ", "UnknownCard"},
		"of two cards, one left": {`node a model=A cards=4; node b model=B cards=4; queue q quota={"A":1,"B":8}; job r queue=q min=1 running=b cards=4; job j queue=q min=1 pending=1 card=A|B cards=2`, "j-0", "too few <A|B> are free, all nodes are unavailable: ", "NoFreeCard"},
		"of two cards, quota for one, the other on two nodes": {`node a,b model=A cards=4; node c model=B cards=4; queue q quota={"B":8}; queue o quota={"A":16}; job r queue=o min=1 running=a cards=2; job s queue=o min=1 running=b cards=2; job h queue=q min=1 running=c card=B cards=4; job j queue=q min=1 pending=1 card=A|B cards=4`, "j-0",
			"too few <A|B> are free, all nodes are unavailable: ", "NoFreeCard"},
		"a gang of which two have a place": {`node a,b model=A cards=4; queue q quota={"A":16}; job j queue=q min=4 pending=4 cards=4 task=worker,pods:4,min:4`, "j-2", "too few <A> are free, all nodes are unavailable: ", "NoFreeCard"},
		"quota":                            {`node a model=A cards=4; queue q quota={"A":4}; job r queue=q min=1 running=a cards=4; job j queue=q min=1 pending=1 cards=1 phase=Inqueue`, "j-0", "Queue <q> has insufficient <A> quota", "QuotaExhausted"},
		"the next of its role":             {`node a,b model=A cards=4; queue q quota={"A":16}; job r queue=q min=1 running=a cards=2; job j queue=q min=1 running=b pending=2 cards=4 task=worker,pods:3,min:1`, "j-2", "too few <A> are free, all nodes are unavailable, as for pod j-1 of the same role", ""},
	}) {
		s := newScene(t, tc.text).enqueueAndAllocate()
		s.p.statePodShortages()
		task := s.Task(tc.pod)
		fit := s.Job("j").NodesFitErrors[task.UID]
		check.Must(t, fit != nil, "nothing is stated")

		message := fit.Error()
		check.Contains(t, "message", message, tc.want)

		request := s.p.RequestFor(task)
		statement := blocked.ReadStatedReason("Unschedulable", message, request.Resource)
		if tc.reason == "" {
			check.That(t, statement.IsSilent(), "%+v", statement)
			continue
		}

		// Package cardquota counts what is left of the quota of each card.
		names := slices.DeleteFunc(slices.Clone(request.Names), func(name card.Name) bool {
			return !s.p.ledger.FitsCard("q", name, request.Count, request.IsUnreclaimable)
		})
		if len(names) == 0 {
			names = request.Names
		}

		asked := blocked.Request{Names: names, Named: request.Named.Names(), Count: request.Count, Taken: blocked.NewTaken(s.p.takenByGang(s.Job("j"))[labelOf(request)])}
		check.Equal(t, "reason", tc.reason, blocked.ReasonFor(&statement, &asked, s.p.newFleet))
	}
}

// TestShortageIsNotStatedWhereACardFits: a node with enough cards refuses for another reason, which
// Volcano names.
func TestShortageIsNotStatedWhereACardFits(t *testing.T) {
	s := newScene(t, `node a model=A cards=4; queue q quota={"A":4}; job j queue=q min=1 pending=1 cards=4`)
	s.Nodes[0].Spec.Unschedulable = true
	s.enqueueAndAllocate()
	before := s.refusals("j")
	s.p.statePodShortages()
	check.Equal(t, "message", before, s.refusals("j"))
	s.p.notReadyReason = "the scheduler has just started"
	s.p.statePodShortages()
}

// BenchmarkStateShortagesOfSkippedPods states what the nodes lack for an elastic job, of which Volcano
// tries one pod and skips 2,000.
func BenchmarkStateShortagesOfSkippedPods(b *testing.B) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}

	s := newScene(b, `node `+strings.Join(names, ",")+` model=A cards=4; queue q quota={"A":16000}; job r queue=q min=1 running=n0 cards=2; job j queue=q min=1 running=n1 pending=2001 cards=8 task=worker,pods:2002,min:1`).enqueueAndAllocate()
	job := s.Job("j")
	fleet := s.p.newFleet()
	for b.Loop() {
		for task, fit := range job.NodesFitErrors {
			if !s.p.triedTasks[task] {
				fit.SetError("Task j-2 with role spec worker " + skippedWords)
			}
		}
		s.p.stateJobShortages(job, fleet)
	}
}
