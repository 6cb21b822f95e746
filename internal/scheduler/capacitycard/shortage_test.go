package capacitycard

import (
	"fmt"
	"slices"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// TestPodsSayWhatNodesLack: Volcano's message about a pod that fits no node counts the nodes that refuse it. The
// plugin puts before it which cards are missing: too few are free, enough are free but on different nodes, or no
// node has them. A card without enough quota does not count as free, nor do cards that other pods of the gang
// would take. Package waiting, which the operator and kubectl use, reads the same reason from that message.
func TestPodsSayWhatNodesLack(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene, pod, wantMessage string
		wantReason              v1alpha1.BlockedReason // "" if the message states none
	}{
		"all 8 A are in use": {
			scene: `node a,b model=A cards=4
				node c model=B
				queue q quota={"A":16}
				job r queue=q min=1 running=a,b cards=4
				job j queue=q min=1 pending=1 cards=2`,
			pod: "j-0", wantMessage: "too few <A> are free, all nodes are unavailable: ", wantReason: "NoFreeCard",
		},
		"the pod needs 4 A, and 2 are free on each of two nodes": {
			scene: `node a,b model=A cards=4
				queue q quota={"A":16}
				job r queue=q min=1 running=a,b cards=2
				job j queue=q min=1 pending=1 cards=4`,
			pod: "j-0", wantMessage: "enough <A> are free, but not on one node, all nodes are unavailable: ", wantReason: "Fragmented",
		},
		"no node has C": {
			scene: `node a model=A cards=4
				queue q quota={"C":16}
				job j queue=q min=1 pending=1 card=C`,
			pod: "j-0", wantMessage: "no node has <C>, all nodes are unavailable: ", wantReason: "UnknownCard",
		},
		"the pod accepts 2 A, of which the quota has 1, or 2 B, which are all in use": {
			scene: `node a model=A cards=4
				node b model=B cards=4
				queue q quota={"A":1,"B":8}
				job r queue=q min=1 running=b cards=4
				job j queue=q min=1 pending=1 card=A|B cards=2`,
			pod: "j-0", wantMessage: "too few <A|B> are free, all nodes are unavailable: ", wantReason: "NoFreeCard",
		},
		"the pod accepts 4 A, which are free on two nodes and not in the quota, or 4 B, which are in use": {
			scene: `node a,b model=A cards=4
				node c model=B cards=4
				queue q quota={"B":8}
				queue o quota={"A":16}
				job r queue=o min=1 running=a cards=2
				job s queue=o min=1 running=b cards=2
				job h queue=q min=1 running=c card=B cards=4
				job j queue=q min=1 pending=1 card=A|B cards=4`,
			pod: "j-0", wantMessage: "too few <A|B> are free, all nodes are unavailable: ", wantReason: "NoFreeCard",
		},
		"a gang of four pods of 4 A, of which two would have a node": {
			scene: `node a,b model=A cards=4
				queue q quota={"A":16}
				job j queue=q min=4 pending=4 cards=4 task=worker,pods:4,min:4`,
			pod: "j-2", wantMessage: "too few <A> are free, all nodes are unavailable: ", wantReason: "NoFreeCard",
		},
		"the quota is in use, so the nodes do not matter": {
			scene: `node a model=A cards=4
				queue q quota={"A":4}
				job r queue=q min=1 running=a cards=4
				job j queue=q min=1 pending=1 cards=1 phase=Inqueue`,
			pod: "j-0", wantMessage: "Queue <q> has insufficient <A> quota", wantReason: "QuotaExhausted",
		},
		"Volcano has not tried j-2, because j-1 of the same task fits no node": {
			scene: `node a,b model=A cards=4
				queue q quota={"A":16}
				job r queue=q min=1 running=a cards=2
				job j queue=q min=1 running=b pending=2 cards=4 task=worker,pods:3,min:1`,
			pod: "j-2", wantMessage: "too few <A> are free, all nodes are unavailable, as for pod j-1 of the same role",
		},
	}) {
		s := newScene(t, tc.scene).enqueueAndAllocate()
		s.p.shortages.statePodShortages()
		task := s.Task(tc.pod)
		fit := s.Job("j").NodesFitErrors[task.UID]
		check.Must(t, fit != nil, "the pod has no message")
		check.Contains(t, "message", fit.Error(), tc.wantMessage)

		request := s.p.RequestFor(task)
		stated := waiting.ReadStatedReason("Unschedulable", fit.Error(), request.Resource)
		if tc.wantReason == "" {
			check.That(t, stated.IsSilent(), "the message states %+v", stated)
			continue
		}

		// Like the operator: alternatives without quota do not count, unless none has quota.
		names := slices.DeleteFunc(slices.Clone(request.Names), func(name card.Name) bool {
			return !s.p.Ledger.Fits("q", request.On(name).OnlyCards(), quota.Within{})
		})
		if len(names) == 0 {
			names = request.Names
		}
		read := waiting.Request{
			Names: names, Named: request.Named.Names(), Count: request.Count,
			Taken: waiting.NewTaken(s.p.shortages.takenByGang(s.Job("j"))[labelOf(request)]),
		}
		check.Equal(t, "reason", tc.wantReason, waiting.ReasonFor(&stated, &read, s.p.shortages.newFleet))
	}
}

// TestShortageIsNotStatedWhereACardFits: the only node has the 4 cards that the pod needs, but is cordoned. Volcano's
// message says so, and the plugin leaves it as it is.
func TestShortageIsNotStatedWhereACardFits(t *testing.T) {
	s := newScene(t, `node a model=A cards=4
		queue q quota={"A":4}
		job j queue=q min=1 pending=1 cards=4`)
	s.Nodes[0].Spec.Unschedulable = true
	s.enqueueAndAllocate()

	before := s.refusals("j")
	s.p.shortages.statePodShortages()
	check.Equal(t, "message", before, s.refusals("j"))
}

// TestShortageIsNotStatedUntilTheCacheHasSynced: after a start the scheduler may not know all nodes yet. Then it does
// not say that too few cards are free, although the pod needs 4 and the only node has 2.
func TestShortageIsNotStatedUntilTheCacheHasSynced(t *testing.T) {
	s := newScene(t, `node a model=A cards=2
		queue q quota={"A":4}
		job j queue=q min=1 pending=1 cards=4`).enqueueAndAllocate()

	before := s.refusals("j")
	s.p.AwaitsSync = true
	s.p.shortages.statePodShortages()
	check.Equal(t, "message", before, s.refusals("j"))
}

// BenchmarkStateShortagesOfSkippedPods measures how long it takes to state what the nodes lack for an elastic job. None of
// the nodes has the 8 cards that a pod requests. Volcano tries one of the waiting pods and skips 2,000 that are alike.
func BenchmarkStateShortagesOfSkippedPods(b *testing.B) {
	s := newScene(b, `queue q quota={"A":16000}
		job r queue=q min=1 running=n0 cards=2
		job j queue=q min=1 running=n1 pending=2001 cards=8 task=worker,pods:2002,min:1`)
	for i := range 100 {
		s.addObjects(fmt.Sprintf("node n%d model=A cards=4", i))
	}
	s.enqueueAndAllocate()

	job := s.Job("j")
	fleet := s.p.shortages.newFleet()
	for b.Loop() {
		for task, fit := range job.NodesFitErrors {
			if !s.p.TriedTasks[task] {
				fit.SetError("Task j-2 with role spec worker " + skippedWords) // Volcano's message about a skipped pod
			}
		}
		s.p.shortages.stateJobShortages(job, fleet)
	}
}
