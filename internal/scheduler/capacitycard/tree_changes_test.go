package capacitycard

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTreeIsResolvedWhenAQueueChanges: the scheduler keeps the tree of queues that it has computed. Only when the state,
// the parent or an amount of a Queue changes, the next session computes the tree again, and its version grows. Without
// the argument queueHierarchy the queues are flat. At first tenant t has a quota of 4 and a guarantee of 2. Below it are
// queue q, which uses 4 cards of the 8 on node a, and queue r, which uses none.
func TestTreeIsResolvedWhenAQueueChanges(t *testing.T) {
	s := newTreeScene(t, tenant+"job j queue=q min=1 running=a*4").openSession()
	checkUsed := func(when string, wantOfQ, wantOfT int) {
		check.Equal(t, "cards that q uses "+when, wantOfQ, s.usedCards("q", "A"))
		check.Equal(t, "cards that t uses "+when, wantOfT, s.usedCards("t", "A"))
		check.Equal(t, "cards that r uses "+when, 0, s.usedCards("r", "A"))
	}

	changeQueue := func(name string, change func(*v1beta1.Queue)) {
		s.Close()
		for _, queue := range s.Queues {
			if queue.Name == name {
				old := queue.DeepCopy()
				change(queue)
				queue.ResourceVersion += "1"
				s.Cache.UpdateQueueV1beta1(old, queue.DeepCopy())
			}
		}
		s.openSession()
	}

	checkUsed("at first", 4, 4)
	version := s.p.TreeVersion()
	s.openSession()
	check.Equal(t, "version when no Queue has changed", version, s.p.TreeVersion())
	// A label is nothing that the tree depends on. A closed queue is.
	changeQueue("q", func(q *v1beta1.Queue) { q.Labels = map[string]string{"some": "label"} })
	check.Equal(t, "version after a change of labels", version, s.p.TreeVersion())

	changeQueue("q", func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateClosed })
	check.That(t, s.p.TreeVersion() > version, "the version does not grow when a queue is closed")
	check.Equal(t, "reason of the closed queue", "QueueNotOpen", string(s.p.QueueRules["q"].Refusal.Reason()))

	// Queue q leaves t, and takes the 4 cards that it uses out of the usage of t.
	version = s.p.TreeVersion()
	changeQueue("q", func(q *v1beta1.Queue) { q.Spec.Parent = "root" })
	check.That(t, s.p.TreeVersion() > version, "the version does not grow when a queue leaves its parent")
	checkUsed("after q left t", 4, 0)
	mayUse := s.p.Ledger.MayUseByLevel("q", "A")
	check.Equal(t, "cards that q may still use of the inventory", 2, int(mayUse[len(mayUse)-1].Quota)) // 8 - 4 used - 2 guaranteed to t

	// Queue r has its own quota of 4, but no more than its parent.
	version = s.p.TreeVersion()
	changeQueue("t", func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.quota"] = `{"A":3}` })
	check.That(t, s.p.TreeVersion() > version, "the version does not grow when a quota is lowered")
	check.Equal(t, "cards that t leaves r after its quota was lowered", 3, int(s.p.Ledger.MayUseByLevel("r", "A")[1].Quota))

	// Without a tree t is no parent, so jobs may be in it, and the path of r is r alone.
	s.withArguments(framework.Arguments{"cardUnlimitedCpuMemory": true}).openSession()
	check.Equal(t, "queues on the path of r, without queueHierarchy", 1, len(s.p.cache.Tree.Path("r")))
	check.That(t, s.p.QueueRules["t"].Refusal == nil, "t takes no jobs without queueHierarchy: %v", s.p.QueueRules["t"].Refusal)
	check.Equal(t, "cards that q uses without queueHierarchy", 4, s.usedCards("q", "A"))

	s.withArguments(framework.Arguments{"queueHierarchy": "Tree", "cardUnlimitedCpuMemory": true}).openSession()
	check.Equal(t, "queues on the path of r, with queueHierarchy again", 2, len(s.p.cache.Tree.Path("r")))
	check.Equal(t, "cards that q uses with queueHierarchy again", 4, s.usedCards("q", "A"))
}

// TestTheQueueRootIsNoPartOfItsTree: Volcano writes what the nodes have into the Queue root: its numbers limit no queue,
// and do not resolve the tree again. Where queues without a quota may use any card, a job of root may, too.
func TestTheQueueRootIsNoPartOfItsTree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		unmanaged    v1alpha1.UnmanagedQueues
		wantPlaced   string
		wantDeserved bool
	}{
		"queues without a quota may use any card: root, too": {v1alpha1.UnmanagedIgnore, "a:1", true},
		"queues without a quota may use no card: nor root":   {v1alpha1.UnmanagedEnforce, "", false},
	}) {
		s := newTreeScene(t, tenant+"queue root; job j queue=root min=1 pending=1")
		s.withArguments(framework.Arguments{"queueHierarchy": "Tree", "unmanagedQueues": string(tc.unmanaged), "cardUnlimitedCpuMemory": true}).enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		check.Equal(t, "root deserves a card", tc.wantDeserved, s.p.Ledger.Fits("root", s.p.RequestFor(s.Task("j-0")).Request, quota.Within{Bound: quota.DeservedLeft}))

		version := s.p.TreeVersion()
		s.changeQueue("root", func(q *v1beta1.Queue) { q.Spec.Deserved = corev1.ResourceList{"cpu": amount("4")} }).openSession()
		check.Equal(t, "version after a change of root", version, s.p.TreeVersion())
	}
}

// TestQueueOfATenantThatLostCardsBorrowsNothing: another tenant has just taken cards back from tenant t. So for five
// minutes no queue below t gets a card that both it and t would borrow. What the queue deserves, it gets. t deserves 4
// of 8 cards, its queues q and r deserve 2 each, and r uses 4.
func TestQueueOfATenantThatLostCardsBorrowsNothing(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ job, wantPlaced, wantReason string }{
		"q has 2 pods, as many as it deserves: both start": {"job j queue=q min=1 pending=2", "a:2", ""},
		"q has 3 pods: the third waits":                    {"job j queue=q min=1 pending=3", "a:2", "cannot borrow <A> for a while"},
		"r, which borrows 2, has another pod: it waits":    {"job j queue=r min=1 pending=1", "", "cannot borrow <A> for a while"},
	}) {
		s := newTreeScene(t, `node a model=A cards=8
			queue t quota={"A":8} deserved={"A":4}
			queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}
			queue r quota={"A":8} serviceType=training parent=t deserved={"A":2}
			job i queue=r min=1 running=a*4
			`+tc.job).openSession()
		s.p.Rules.RecordReclaimed("t", "A")

		s.enqueueAndAllocate()
		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("j"))
		check.Contains(t, "reasons", s.Job("j").JobFitErrors+s.refusals("j"), tc.wantReason)
	}
}

// TestQueueThatLostCardsEnqueuesNoBorrower: another queue has just taken cards A back from queue q or its parent
// t. A job that would borrow A there could not start for a while, and would only keep a reservation. So it is not
// enqueued: its PodGroup stays Pending. t deserves 4 A and 4 B, q 2 A and 1 B, and job i of q uses 1 A. Job k of q
// uses one more, job x of t two.
func TestQueueThatLostCardsEnqueuesNoBorrower(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ jobs, reclaimedFrom, wantReason string }{
		"q uses 2, lost cards, and needs 1 more: refused": {
			jobs: `job k queue=q min=1 running=a
				job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`,
			reclaimedFrom: "q",
			wantReason: "cannot borrow <A> for a while, because another queue has just reclaimed them: " +
				"requested <1>, total would be <3>, but",
		},
		"t uses 4, lost cards, and q needs 1 more: refused": {
			jobs: `job k queue=q min=1 running=a
				job x queue=t min=2 running=a*2
				job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`,
			reclaimedFrom: "t",
			wantReason: "cannot borrow <A> for a while, because another queue has just reclaimed them: " +
				"requested <1>, total would be <5> in its ancestor <t>, but",
		},
		"t uses 2 of the 4 it deserves, lost cards, and q borrows inside t: enqueued": {
			jobs: `job k queue=q min=1 running=a
				job j queue=q min=1 phase=Pending minCards=1 request={"A":1}`,
			reclaimedFrom: "t",
		},
		"q lost A and would borrow B: enqueued": {
			jobs:          `job j queue=q min=1 phase=Pending minCards=1 request={"B":2}`,
			reclaimedFrom: "q",
		},
		"q lost A, uses the 2 A it deserves, and needs 2 of A or B: enqueued": {
			jobs: `job k queue=q min=1 running=a
				job j queue=q min=1 phase=Pending minCards=1 request={"A|B":2}`,
			reclaimedFrom: "q",
		},
		"q lost A, needs 1 A that it deserves, and would borrow B: enqueued": {
			jobs:          `job j queue=q min=1 phase=Pending minCards=1 request={"A":1,"B":2}`,
			reclaimedFrom: "q",
		},
		"q lost A, uses the 2 A it deserves, and needs 1 A and 2 B: refused for A": {
			jobs: `job k queue=q min=1 running=a
				job j queue=q min=1 phase=Pending minCards=1 request={"A":1,"B":2}`,
			reclaimedFrom: "q", wantReason: "<A> for a while",
		},
	}) {
		s := newTreeScene(t, `node a model=A cards=8
			node b model=B cards=8
			queue t quota={"A":8,"B":8} deserved={"A":4,"B":4}
			queue q quota={"A":8,"B":8} serviceType=training parent=t deserved={"A":2,"B":1}
			job i queue=q min=1 running=a
			`+tc.jobs).openSession()
		s.p.Rules.RecordReclaimed(api.QueueID(tc.reclaimedFrom), "A")

		s.enqueueAndAllocate().checkEnqueued(t, "j", tc.wantReason)
	}
}

// TestPodsOfADeletedQueueCountInItsParent: a Queue is deleted while its 3 pods run. They still use the quota of 4 of
// its parent t, so queue r gets 1 card. When the tree changes later, here by a guarantee of r, t still uses these 3 + 1
// cards.
func TestPodsOfADeletedQueueCountInItsParent(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=8
		queue t quota={"A":4}
		queue q quota={"A":4} serviceType=training parent=t deserved={"A":2}
		queue r quota={"A":4} serviceType=training parent=t deserved={"A":2}
		job i queue=q min=1 running=a*3
		job j queue=r min=1 pending=4`).openSession()
	check.Equal(t, "cards that t uses", 3, s.usedCards("t", "A"))
	s.Close()

	s.Cache.DeleteQueueV1beta1(s.Queues[1])
	for _, pod := range s.Pods[:3] {
		check.NoError(t, s.Cache.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(pod))
	}
	check.Equal(t, "placed of r beside the pods of the deleted queue", "a:1", s.enqueueAndAllocate().podsByNode("j"))

	s.changeQueue("r", func(q *v1beta1.Queue) { q.Annotations["volcano.sh/card.guarantee"] = `{"A":1}` }).openSession()
	check.Equal(t, "cards that t uses when the tree has changed", 4, s.usedCards("t", "A"))
}

// TestCordonedNodesAreNoInventory: cards of a cordoned node are not part of the inventory that guarantees are taken
// from, and neither are the charges of its pods. Nodes a and c have 4 cards each, and c, which is cordoned, is in use.
// Of the 4 cards of a, queue r is guaranteed 2, so q gets 2. Then a is cordoned instead of c. The charges of the pods
// on c count in the inventory now, and those of the pods on a do not.
func TestCordonedNodesAreNoInventory(t *testing.T) {
	s := newTreeScene(t, `node a,c model=A cards=4
		queue q quota={"A":8} serviceType=training
		queue r quota={"A":8} serviceType=training guarantee={"A":2}
		job i queue=q min=1 running=c*4
		job j queue=q min=1 pending=3`)
	s.Nodes[1].Spec.Unschedulable = true
	s.enqueueAndAllocate()
	check.Equal(t, "placed", "a:2", s.podsByNode("j"))
	check.Contains(t, "reasons", s.refusals("j"), "total with unused guarantees would be <5>, but the inventory is <4>")

	isOffInventory := func(pod string) bool { return s.p.cache.Ledger.Charged(string(s.Task(pod).UID)).IsOffInventory }
	s.changeNode("a", func(n *corev1.Node) { n.Spec.Unschedulable = true }).
		changeNode("c", func(n *corev1.Node) { n.Spec.Unschedulable = false }).openSession()
	check.Equal(t, "the charge of the pod on c is off the inventory", false, isOffInventory("i-0"))
	check.Equal(t, "the charge of the pod on a is off the inventory", true, isOffInventory("j-0"))
}

// TestCardsThatNodesDoNotOfferAreNoInventory: queue r uses 40 cards of node w and 4 of the 8 cards of node a.
// Then w offers none: its label of 8 cards contradicts its 80, or its label with the model is gone. The 40
// used cards there count in the quota of r, but not in the inventory. So queue q may borrow the 4 cards that
// a has left, and no more. In the end w has its labels again. A charge notes as NotOffered what the node of
// its pod does not offer.
func TestCardsThatNodesDoNotOfferAreNoInventory(t *testing.T) {
	const (
		scene = `node a model=A cards=8
			node w model=A cards=80
			queue q quota={"A":99} serviceType=training deserved={"A":2}
			queue r quota={"A":99} serviceType=training deserved={"A":40}
			job i queue=r min=40 running=w*40
			job k queue=r min=4 running=a*4
			job j queue=q min=4 phase=Pending minCards=4 request={"A":4}
			`
		// 4 used on a, 1 more, and 4 for the job.
		tooMany = "total with usage and reservations of all queues would be <9>, but the inventory is <8>"
	)
	withhold := func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "8" }

	for t, tc := range check.Cases(t, map[string]struct {
		change     func(*corev1.Node)
		otherJob   string
		wantUsed   int
		wantReason string // "" if the job that borrows is enqueued
	}{
		"the label says fewer cards: enqueued": {
			change: withhold, wantUsed: 40 + 4,
		},
		"the label with the model is gone: enqueued": {
			change: func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.product") }, wantUsed: 40 + 4,
		},
		"the label says fewer cards, and r uses a fifth card on a: refused": {
			change: withhold, otherJob: "job x queue=r min=1 running=a", wantUsed: 40 + 4 + 1, wantReason: tooMany,
		},
	}) {
		s := newTreeScene(t, scene+tc.otherJob).openSession()
		cardsNotOffered := func() int { return len(s.p.cache.Ledger.Charged(string(s.Task("i-0").UID)).NotOffered) }
		check.Equal(t, "models of a pod on w that w does not offer, at first", 0, cardsNotOffered())

		s.changeNode("w", tc.change).enqueueAndAllocate()
		s.checkEnqueued(t, "j", tc.wantReason)
		check.Equal(t, "cards that r uses", tc.wantUsed, s.usedCards("r", "A"))

		s.changeNode("w", func(n *corev1.Node) {
			n.Labels["nvidia.com/gpu.count"] = "80"
			n.Labels["nvidia.com/gpu.product"] = "A"
		}).openSession()
		check.Equal(t, "models of a pod on w that w does not offer, in the end", 0, cardsNotOffered())
	}
}

// changeNode changes a node between two sessions.
func (s *scene) changeNode(name string, change func(*corev1.Node)) *scene {
	s.Close()
	i := slices.IndexFunc(s.Nodes, func(node *corev1.Node) bool { return node.Name == name })
	s.Nodes[i] = s.Nodes[i].DeepCopy()
	change(s.Nodes[i])
	check.NoError(s.t, s.Cache.AddOrUpdateNode(s.Nodes[i]))
	return s
}

// TestADeletedQueueIsGuaranteedNothing: queue x is guaranteed all 4 cards, so y gets none. When the Queue x is
// deleted, its guarantee ends at once, and y gets all 4.
func TestADeletedQueueIsGuaranteedNothing(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=4
		queue x quota={"A":4} guarantee={"A":4}
		queue y quota={"A":4} serviceType=training
		job j queue=y min=1 pending=4`).enqueueAndAllocate()
	check.Equal(t, "placed beside the guarantee", "", s.podsByNode("j"))
	s.Close()

	s.Cache.DeleteQueueV1beta1(s.Queues[0])
	check.Equal(t, "placed without the guarantee", "a:4", s.enqueueAndAllocate().podsByNode("j"))
}

// TestOnlyJobsThatWaitForQuotaKeepTheirReservation: an enqueued job that waits for quota keeps its reservation while
// it waits, because quota is freed some day. A job that waits for cards guaranteed to others, or that needs more than
// the whole quota, keeps its reservation only for a limited time. The test checks which of the two a job is: whether pod
// j-0 waits for quota. Queue y uses what its running job i has.
func TestOnlyJobsThatWaitForQuotaKeepTheirReservation(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene         string
		waitsForQuota bool
	}{
		"all 4 cards are guaranteed to x: not for quota": {`queue x quota={"A":4} guarantee={"A":4}
			queue y quota={"A":4} serviceType=training
			job j queue=y min=1 pending=1`, false},
		"the parent's quota of 4 is in use: for quota": {`queue x quota={"A":4}
			queue y quota={"A":4} serviceType=training parent=x
			job i queue=y min=1 running=a*4
			job j queue=y min=1 pending=1`, true},
		"the pod needs 2 cards, and the parent's quota is 1: not for quota": {`queue x quota={"A":1}
			queue y quota={"A":4} serviceType=training parent=x
			job i queue=y min=1 running=a
			job j queue=y min=1 pending=1 cards=2`, false},
		"the pod needs 2 cards, and 1 of the parent's quota of 2 is in use: for quota": {`queue x quota={"A":2}
			queue y quota={"A":4} serviceType=training parent=x
			job i queue=y min=1 running=a
			job j queue=y min=1 pending=1 cards=2`, true},
	}) {
		s := newTreeScene(t, "node a model=A cards=4; "+tc.scene).openSession()

		check.Equal(t, "waits for quota", tc.waitsForQuota, s.p.allocation.waitsForQuota(s.Job("j"), s.p.RequestFor(s.Task("j-0"))))
	}
}
