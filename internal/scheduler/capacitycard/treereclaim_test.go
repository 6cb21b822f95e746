package capacitycard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// lending is two tenants t and u that deserve four of eight cards A each. Below t are queues q and r, which deserve
// two each, and below u is queue v, which deserves four. Each queue may use all eight cards, so it may borrow.
const lending = `node a model=A
	queue t quota={"A":8} deserved={"A":4}
	queue u quota={"A":8} deserved={"A":4}
	queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}
	queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}
	queue v quota={"A":8} serviceType=training parent=u deserved={"A":4}
	`

// TestVolcanosOwnReclaimEvictsNothingInATree: only this program's action cardreclaim knows the rules of trees. The
// scheduler refuses a configuration with Volcano's own action reclaim. Should that action run nevertheless, each of the
// two hooks that it asks answers no: preemptive, whether a pod may reclaim, and reclaimable, which pods to evict. In
// lending, queues q and r below t deserve 2 of 8 cards A each. r uses all 8, so cardreclaim would take one back for pod
// i-0 of q. Queue t has quota for 9. In the second scene q may also reclaim as inference from training.
func TestVolcanosOwnReclaimEvictsNothingInATree(t *testing.T) {
	const jobs = `
		queue t quota={"A":9} deserved={"A":4}
		job k queue=r min=1 running=a*8
		job i queue=q min=1 pending=1`
	for _, queues := range []string{"", `queue q quota={"A":8} priority=80000 serviceType=inference parent=t deserved={"A":2}
		queue r quota={"A":8} priority=20000 serviceType=training parent=t deserved={"A":2}`} {
		s := newTreeScene(t, lending+queues+jobs).evict(reclaim.New())
		s.expectEvictions("", "")

		check.Equal(t, "preemptive", false, s.p.podReclaim.preemptive(s.Ssn.Queues["q"], s.Task("i-0")))
		victims, _ := s.p.podReclaim.reclaimable(s.Task("i-0"), slices.Collect(maps.Values(s.Job("k").Tasks)))
		check.Equal(t, "victims of reclaimable", 0, len(victims))
	}
}

// TestQueueBorrowsNothingForFiveMinutesAfterReclaim: cards A were just taken back from queue r. If r borrowed A
// again at once, they would be taken back again. So for five minutes r gets only the two that it
// deserves. In lending, node a has 8 cards A, and queues q and r deserve two of them each and may use all. Job j
// has four pods of one card, in the last row none yet. A queue or node that a row names again replaces the first
// one.
func TestQueueBorrowsNothingForFiveMinutesAfterReclaim(t *testing.T) {
	const reason = "Queue <r> cannot borrow <A> for a while, because another queue has just reclaimed them"
	for t, tc := range check.Cases(t, map[string]struct {
		scene                  string
		after                  time.Duration
		wantPlaced, wantReason string
	}{
		"r, at once: the two that it deserves": {
			scene: "job j queue=r min=1 pending=4", after: 0, wantPlaced: "a:2", wantReason: reason,
		},
		"r, just before five minutes: the two that it deserves": {
			scene: "job j queue=r min=1 pending=4", after: 5*time.Minute - time.Second, wantPlaced: "a:2", wantReason: reason,
		},
		"r, after five minutes: all four": {
			scene: "job j queue=r min=1 pending=4", after: 5 * time.Minute, wantPlaced: "a:4",
		},
		"q, which lost no cards: all four": {
			scene: "job j queue=q min=1 pending=4", after: 0, wantPlaced: "a:4",
		},
		"r needs cards B, which it did not lose: all four": {
			scene: `node b model=B
				queue r quota={"A":8,"B":8} serviceType=training parent=t deserved={"A":2,"B":0}
				queue t quota={"A":8,"B":8} deserved={"A":4}
				job j queue=r min=1 pending=4 card=B`,
			after: 0, wantPlaced: "b:4",
		},
		"r has a job without pods that needs three: not enqueued": {
			scene: `job j queue=r min=3 phase=Pending minCards=3 request={"A":3}`, after: 0, wantPlaced: "", wantReason: reason,
		},
	}) {
		s := newTreeScene(t, lending+tc.scene).useClock().openSession()
		s.pluginForActions().Rules.RecordReclaimed("r", "A")
		s.clock = s.clock.Add(tc.after)

		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		check.Contains(t, "reasons", s.refusals("j")+s.Job("j").JobFitErrors, tc.wantReason)
	}
}

// TestFlatQueueMayUseItsQuotaAfterReclaim: without a tree no queue borrows. So all 4 pods start within the quota of 8,
// although cards were just taken back from the queue.
func TestFlatQueueMayUseItsQuotaAfterReclaim(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":8}
		job j queue=q min=1 pending=4`).openSession()
	s.pluginForActions().Rules.RecordReclaimed("q", "A")

	check.Equal(t, "placed", "a:4", s.enqueueAndAllocate().podsByNode("j"))
}

// keepCards opens a session that records that cards were reclaimed on a node for pending pods.
func (s *scene) keepCards(node string, pods ...string) *scene {
	s.openSession()
	for _, pod := range pods {
		s.keepReclaimed(node, pod)
	}
	return s
}

// keepReclaimed records in the open session that cards were reclaimed on a node for a pod.
func (s *scene) keepReclaimed(node, pod string) {
	task := s.Task(pod)
	task.NodeName = node
	s.pluginForActions().Kept.KeepReclaimedCards([]*api.TaskInfo{task}, nil)
	task.NodeName = ""
}

// TestReclaimedCardsAreKeptInTheQuotasOfATree: two cards on node a were taken back for the pods i-0 and i-1
// of queue q, which cannot start yet. Until they do, no queue may borrow those cards, nor the quota that they
// need in q and its parent t. A pod within what its queue deserves may have them. Node a has four cards A and
// node b four B. Queues t, q and r have a quota of four A, q deserves two, r one. Job k has pods of one card
// each. A queue or node that a row names again replaces the first one.
func TestReclaimedCardsAreKeptInTheQuotasOfATree(t *testing.T) {
	const nodeKeepsCards = "node(s) reserve cards for pods that reclaimed them"
	for t, tc := range check.Cases(t, map[string]struct{ scene, wantPlaced, wantReason string }{
		"r would borrow, and t has quota for all: k gets the two cards that a has besides": {
			scene: `queue t quota={"A":8}
				job k queue=r min=1 pending=4`,
			wantPlaced: "a:2", wantReason: nodeKeepsCards,
		},
		"r would borrow, and t has a quota of three: k gets one": {
			scene: `queue t quota={"A":3}
				job k queue=r min=1 pending=3`,
			wantPlaced: "a:1", wantReason: "Queue <r> waits while <A> are held for pods that reclaimed them: " +
				"requested <1>, total would be <4> in its ancestor <t>, but capability is <3>",
		},
		"r deserves four: k gets all four": {
			scene: `queue r quota={"A":4} serviceType=training parent=t deserved={"A":4}
				queue t quota={"A":8}
				job k queue=r min=1 pending=4`,
			wantPlaced: "a:4",
		},
		"r would borrow B, which is not kept: k gets four": {
			scene: `queue t quota={"A":4,"B":4}
				queue r quota={"A":4,"B":4} serviceType=training parent=t deserved={"A":1,"B":0}
				job k queue=r min=1 pending=4 card=B`,
			wantPlaced: "b:4",
		},
		"q itself would borrow for a gang of four, and a has two cards besides: k gets none": {
			scene: `queue q quota={"A":8} serviceType=training parent=t deserved={"A":2}
				queue t quota={"A":8}
				job k queue=q min=4 pending=4`,
			wantPlaced: "", wantReason: nodeKeepsCards,
		},
		"q itself would borrow for a gang of four, node c has eight cards, and q has quota for two more: k gets none": {
			scene: `node c model=A cards=8
				queue t quota={"A":8}
				job k queue=q min=4 pending=4`,
			wantPlaced: "", wantReason: "Queue <q> waits while <A> are held for pods that reclaimed them: " +
				"requested <1>, total would be <5>, but capability is <4>",
		},
		"another job of q needs the two that q deserves: k gets two": {
			scene:      "job k queue=q min=1 pending=2",
			wantPlaced: "a:2",
		},
	}) {
		cannotStart := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }
		s := newTreeScene(t, `node a model=A cards=4
			node b model=B cards=4
			queue t quota={"A":4}
			queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}
			queue r quota={"A":4} serviceType=training parent=t deserved={"A":1}
			job i queue=q min=2 pending=2 card=A
			`+tc.scene, changePod("i-0", cannotStart), changePod("i-1", cannotStart))
		s.keepCards("a", "i-0", "i-1").enqueueAndAllocate()

		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("k"))
		check.Contains(t, "reasons", s.refusals("k"), tc.wantReason)
	}
}

// TestPluginAnswersActionsInATree: the action that takes cards back asks the plugin of the session how far apart two
// queues are in the tree, which queues are on the way, how much more than it deserves or is guaranteed each queue uses,
// and how much more it may use. In lending, tenants t and u deserve 4 of 8 cards A each. Below t are queues q and r,
// below u is queue v. r uses 3 cards and deserves 2, v uses 5 and deserves 4. q uses 1 and deserves 2, so it may use 1
// more; but t uses the 4 that it deserves.
func TestPluginAnswersActionsInATree(t *testing.T) {
	plugin := newTreeScene(t, lending+`job k queue=r min=1 running=a*3
		job l queue=v min=1 running=a*5
		job x queue=q min=1 running=a`).openSession().pluginForActions()

	// The level is how far the lowest common ancestor is above the first queue, so 1 if that is its parent.
	for pair, wantLevel := range map[[2]api.QueueID]int{{"q", "r"}: 1, {"q", "v"}: 2, {"t", "u"}: 1, {"q", "u"}: 2} {
		check.Equal(t, fmt.Sprintf("level of %v", pair), wantLevel, plugin.Level(pair[0], pair[1]))
	}
	for pair, wantPath := range map[[2]api.QueueID]string{{"q", "r"}: "[r]", {"q", "v"}: "[v u]", {"t", "u"}: "[u]", {"q", "t"}: "[]"} {
		path := fmt.Sprint(plugin.PathBelow(pair[0], pair[1]))
		check.Equal(t, fmt.Sprintf("queues from the second one up to below the common parent, of %v", pair), wantPath, path)
	}
	for queue, want := range map[string]int64{"r": 3 - 2, "v": 5 - 4, "u": 5 - 4, "q": 1 - 2} {
		check.Equal(t, "cards above deserved of "+queue, want, plugin.Ledger.AboveDeserved(queue, "A"))
	}
	check.Equal(t, "cards above the guarantee of t, which is 0", int64(3+1), plugin.Ledger.AboveGuarantee("t", "A"))

	mayUse := plugin.Ledger.MayUseByLevel("q", "A")
	check.Equal(t, "limits on the way up from q: q, t and the inventory", 3, len(mayUse))
	check.Equal(t, "cards that q may use until it and t have what they deserve", []int64{2 - 1, 0}, []int64{mayUse[0].Deserved, mayUse[1].Deserved})
	// For q to take cards back, what it deserves counts in a tree, not its quota of 8.
	check.Equal(t, "free quota of q", 2-1, int(plugin.Rules.FreeQuota("q", "A")))
	check.Equal(t, "the queues form a tree", true, plugin.IsTree())
}

// TestPluginAnswersActionsForFlatQueues: an action asks the plugin as in a tree, but the queues are flat. All are at
// level 1, and nothing limits them together, here their CPU.
func TestPluginAnswersActionsForFlatQueues(t *testing.T) {
	plugin := newScene(t, "node a model=A; queue q quota={}; queue r quota={}").openSession().pluginForActions()

	check.Equal(t, "the queues form a tree", false, plugin.IsTree())
	check.Equal(t, "level of two queues", 1, plugin.Level("q", "r"))
	check.Equal(t, "limits of CPU on the way up from q: its own", 1, len(plugin.Ledger.MayUseByLevel("q", quota.CPU)))
}

// TestJobsOfDrainedQueuesAreDrained: the stop policy HoldAndDrain of a queue evicts its jobs, and in a tree also
// those of queues below it. In lending, queues q and r are below t, which drains. So the running jobs k (in r) and l (in
// q) are drained. Job i waits, so it has nothing to evict. Queue v of job x is only held.
func TestJobsOfDrainedQueuesAreDrained(t *testing.T) {
	s := newTreeScene(t, lending+`queue t quota={"A":8} deserved={"A":4} stopPolicy=HoldAndDrain
		queue v quota={"A":8} serviceType=training parent=u stopPolicy=Hold
		job k queue=r min=1 running=a*2
		job i queue=q min=1 pending=1
		job l queue=q min=1 running=a
		job x queue=v min=1 running=a`).openSession()
	check.Equal(t, "drained jobs", "k l", s.drainedJobs())
	check.Equal(t, "queue that drains r", "t", string(s.pluginForActions().Drains.DrainedBy("r")))
}

// TestFlatQueueDrainsOnlyItsOwnJobs: without a tree, only job k of queue q is drained, whose stop policy is
// HoldAndDrain. Queue r is not drained, although it names q as its parent.
func TestFlatQueueDrainsOnlyItsOwnJobs(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":8} stopPolicy=HoldAndDrain
		queue r quota={"A":8} parent=q
		job k queue=q min=1 running=a
		job l queue=r min=1 running=a`).openSession()
	check.Equal(t, "drained jobs", "k", s.drainedJobs())
}

// drainedJobs returns the names of the jobs that the session drains, as "a b".
func (s *scene) drainedJobs() string {
	var names []string
	for _, job := range s.pluginForActions().Drains.DrainedJobs() {
		names = append(names, job.Name)
	}
	return strings.Join(names, " ")
}

// TestPodsWithoutCardsReclaimCPUIfConfigured: training uses all 16 CPU of the node with pods without cards, and an
// inference pod without cards waits for one CPU. With reclaimResources "All" the youngest training pod is evicted for
// it; with "Cards" only pods with cards reclaim.
func TestPodsWithoutCardsReclaimCPUIfConfigured(t *testing.T) {
	for reclaimResources, wantEvicted := range map[string]string{"Cards": "", "All": "k-15"} {
		s := newScene(t, `node a model=A
			queue q quota={} priority=80000 serviceType=inference cpu=16
			queue r quota={} priority=20000 serviceType=training cpu=16
			job k queue=r min=1 running=a*16 cards=0
			job i queue=q min=1 pending=1 cards=0`).
			withArguments(framework.Arguments{"reclaimResources": reclaimResources})
		s.Nodes[0].Status.Allocatable["cpu"] = amount("16")

		evicted, _ := s.evict(reclaim.New()).Outcome()
		check.Equal(t, "evicted pods with reclaimResources "+reclaimResources, wantEvicted, evicted)
	}
}

// TestPreemptInATreeFreesWhatAncestorsLack: preempt evicts pods of lower priority of the same queue, here for job
// new of queue q. In a tree it frees what the queue and its ancestors lack, and no more. Job old has the lower
// priority. "old:2" is two of its pods, "new@a:1" one of job new that gets its cards on a. In lending, t deserves
// 4 of the 8 cards of node a, and its queues q and r 2 each. But preempt borrows no idle card for which another
// queue waits within what it deserves. A queue or node that a row names again replaces the first one.
func TestPreemptInATreeFreesWhatAncestorsLack(t *testing.T) {
	// Here q and r are directly below root. q deserves 2 cards and uses them, and job k of r uses 5. So one of the 8
	// cards is idle, and job x of r waits for 2.
	const oneIdle = `queue q quota={"A":8} serviceType=training deserved={"A":2}
		job old queue=q min=1 running=a*2 priorityClass=low
		job k queue=r min=1 running=a*5
		job x queue=r min=1 pending=1 cards=2
		`

	for t, tc := range check.Cases(t, map[string]struct{ scene, wantEvicted, wantPipelined string }{
		"t has a quota of 4, q uses 2 and r 2: one is evicted": {
			scene: lending + `queue t quota={"A":4}
				job old queue=q min=1 running=a*2 priorityClass=low
				job k queue=r min=1 running=a*2
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"the quota of t was lowered to 3, q uses 3 and r 1: two are evicted": {
			scene: lending + `queue t quota={"A":3}
				job old queue=q min=1 running=a*3 priorityClass=low
				job k queue=r min=1 running=a
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:2", wantPipelined: "new@a:1",
		},
		"q is not reclaimable, so it may not borrow, and uses the 2 it deserves: one is evicted": {
			scene: lending + `queue q quota={"A":8} serviceType=training reclaimable=false parent=t deserved={"A":2}
				job old queue=q min=1 running=a*2 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"q is not reclaimable, and both its quota and what it deserves, 2, are in use: one is evicted": {
			scene: lending + `queue q quota={"A":2} serviceType=training reclaimable=false parent=t deserved={"A":2}
				job old queue=q min=1 running=a*2 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"t has a quota of 4, which r uses: no pod is evicted, because r is another queue": {
			scene: lending + `queue t quota={"A":4}
				job k queue=r min=1 running=a*4 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
		},
		"q uses all 8 cards, 6 of them borrowed, and no other queue waits: one is evicted": {
			scene: lending + `job old queue=q min=1 running=a*8 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"3 cards are needed, and 2 are idle: one is evicted, and the idle ones are borrowed": {
			scene: lending + `job old queue=q min=1 running=a*6 priorityClass=low
				job new queue=q min=1 pending=1 cards=3 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"2 cards are needed, and r, which deserves 7, waits for the idle one: two are evicted": {
			scene: oneIdle + `node a model=A
				queue r quota={"A":8} serviceType=training deserved={"A":7}
				job new queue=q min=1 pending=1 cards=2 priorityClass=high`,
			wantEvicted: "old:2", wantPipelined: "new@a:1",
		},
		"2 cards are needed, and r, which deserves 6, would borrow the idle one too: one is evicted": {
			scene: oneIdle + `node a model=A
				queue r quota={"A":8} serviceType=training deserved={"A":6}
				job new queue=q min=1 pending=1 cards=2 priorityClass=high`,
			wantEvicted: "old:1", wantPipelined: "new@a:1",
		},
		"a gang of 2, and r, which deserves 7, waits for the idle card on node b: two are evicted on a": {
			scene: oneIdle + `node a model=A cards=7
				node b model=A cards=1
				queue r quota={"A":8} serviceType=training deserved={"A":7}
				job new queue=q min=2 pending=2 priorityClass=high`,
			wantEvicted: "old:2", wantPipelined: "new@a:2",
		},
		"q uses all 8 cards, and u is guaranteed one: two are evicted, one of them for u": {
			scene: lending + `queue u quota={"A":8} deserved={"A":4} guarantee={"A":1}
				job old queue=q min=1 running=a*8 priorityClass=low
				job new queue=q min=1 pending=1 priorityClass=high`,
			wantEvicted: "old:2", wantPipelined: "new@a:1",
		},
	}) {
		s := newTreeScene(t, tc.scene).evict(preempt.New())
		check.Equal(t, "evicted pods", tc.wantEvicted, countByState(s.In(api.Releasing)))
		check.Equal(t, "pipelined pods", tc.wantPipelined, countByState(s.In(api.Pipelined)))
	}
}

// TestMissingQuotaInATreeIsTheLeast draws 200 trees with quotas, deserved and guaranteed cards: queue q is
// below t, and u beside t. A pod waits in q. MissingAmounts says how much quota evictions in q must free for
// it: in all, and of pods that cannot be reclaimed. The second amount is above 0 only where q is not
// reclaimable: its pods then may not borrow, so together they use no more than q and t deserve. (1) Both
// amounts suffice. (2) One less of either does not. So preempt evicts enough, and no pod in vain.
func TestMissingQuotaInATreeIsTheLeast(t *testing.T) {
	random := seed.Rand(t)
	for range 200 {
		guarantee := random.IntN(3)
		text := fmt.Sprintf(`node a model=A cards=5
			queue t quota={"A":%d} deserved={"A":%d} guarantee={"A":%d}
			queue q quota={"A":%d} %s parent=t deserved={"A":%d} guarantee={"A":%d}
			queue u quota={"A":8} deserved={"A":8} guarantee={"A":%d}
			job old queue=q min=1 running=a*%d
			job new queue=q min=1 pending=1 cards=%d`,
			2+random.IntN(4), 2+random.IntN(3), guarantee,
			2+random.IntN(4), []string{"serviceType=training", "serviceType=training reclaimable=false"}[random.IntN(2)], 2+random.IntN(3), guarantee,
			random.IntN(6),
			1+random.IntN(5),
			1+random.IntN(2))

		s := newTreeScene(t, text).openSession()
		task := s.Task("new-0")
		fitsAfterRelease := func(all, unreclaimable int64) bool {
			var released quota.Released
			released.Add(&quota.Charge{Cards: []card.Amount{{Name: "A", Count: card.Count(all - unreclaimable)}}})
			released.Add(&quota.Charge{Cards: []card.Amount{{Name: "A", Count: card.Count(unreclaimable)}}, IsUnreclaimable: true})
			return s.p.Ledger.Fits("q", s.p.RequestFor(task).Request, quota.Within{Released: released})
		}

		missing := s.p.victims.MissingAmounts(task, s.Ssn.Nodes["a"])
		all := int64(missing[victims.QuotaCards])
		unreclaimable := int64(missing[victims.UnreclaimableQuota(victims.QuotaCards)])
		check.That(t, fitsAfterRelease(all, unreclaimable), "%s: %d, %d of them unreclaimable, do not suffice", text, all, unreclaimable)
		check.That(t, all == 0 || !fitsAfterRelease(all-1, min(unreclaimable, all-1)), "%s: %d suffice instead of %d", text, all-1, all)
		check.That(t, unreclaimable == 0 || !fitsAfterRelease(all, unreclaimable-1),
			"%s: %d unreclaimable ones suffice instead of %d", text, unreclaimable-1, unreclaimable)
	}
}
