package cardquota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestACardThatMayBeOneOfTwoIsBilledOnce: node "bare" has 8 cards but no labels. An operator that has just started
// has not seen its earlier labels, so the cards may be H200 or H800, as on other nodes. Pod p uses all 8: it is
// charged 8 of both against the quota, to be safe. Bills and the CardInventory have them once, as H200, the first
// name. A second pod has no queue, so its 2 cards are billed to its namespace. It states no start, so "billed
// since" has only p. Counts add up what pods use, even if it is more than the node has.
func TestACardThatMayBeOneOfTwoIsBilledOnce(t *testing.T) {
	nodes := trackNodes(
		builder.Node("a").GPUs("H200", 8).Obj(),
		builder.Node("b").GPUs("H800", 8).Obj(),
		builder.Node("bare").Resource("nvidia.com/gpu", "8").Obj(),
	)
	start := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	p := builder.Pod("lab", "p").Queue("q").GPUs(8).Running("bare").With(func(p *corev1.Pod) { p.Status.StartTime = &start }).Obj()
	pods := []*corev1.Pod{p, builder.Pod("lab", "without-queue").GPUs(2).Running("bare").Obj()}

	facts := queueusage.PodFacts{}
	usage, charges := queueusage.CountWithCharges(queueusage.Input{Pods: pods, Inventory: nodes.Tracker.Inventory(), Facts: &facts})
	check.Equal(t, "used cards of the quota", map[card.Name]card.Count{"H200": 8, "H800": 8}, usage["q"].Used)

	payers := bills{queueTypes: map[string]string{"q": "none"}}
	ofQueue := cardseconds.Series{Queue: "q", Card: "H200", ServiceType: "none"}
	ofNamespace := cardseconds.Series{Namespace: "lab", Card: "H200", ServiceType: "none"}
	check.Equal(t, "billed cards", map[cardseconds.Series]card.Count{ofQueue: 8, ofNamespace: 2}, payers.cardsInUse(facts.BilledPods()))
	check.Equal(t, "billed since", []cardseconds.PodUsage{{Series: ofQueue, Count: 8, Since: start.Time}}, payers.listPodUsages(facts.BilledPods()))

	status := cardinventory.NewStatus(cardinventory.Input{
		Nodes: nodes.TrackedNodes(), Cards: nodes.Tracker.Inventory(), Count: cardinventory.NewCount(cardinventory.CountInput{Tree: cardquota.Flat, Pods: pods, Charges: charges, Usage: usage}),
	})
	allocated := map[string]int64{}
	for _, entry := range status.Cards {
		allocated[entry.Name] = entry.Allocated
	}
	check.Equal(t, "allocated cards of the CardInventory: 8 of p and 2 of the other pod", map[string]int64{"H200": 10, "H800": 0}, allocated)
}

// TestACountSaysWhichCardsAreInUse: the cards of a queue are added up. Those of a queue that does not exist
// are in use by the namespace of the pod, with service type none.
func TestACountSaysWhichCardsAreInUse(t *testing.T) {
	stores := newObjectStores()
	stores.quotas = newStore(builder.CardQuota("web").ServiceType("inference").Card("NVIDIA-H200", 8).Tenant("lab").Obj())
	stores.pods = newStore(
		builder.Pod("lab", "one").Queue("web").GPUs(1).Running("a").Obj(),
		builder.Pod("lab", "two").Queue("web").GPUs(3).Running("a").Obj(),
		builder.Pod("lab", "three").Queue("missing").GPUs(2).Running("a").Obj(),
	)
	collector := newCollector(trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj()))
	check.Equal(t, "cards in use before the first count", nil, collector.CardsInUse())

	collector.countUsage(stores)
	check.Equal(t, "cards in use", map[cardseconds.Series]card.Count{
		{Tenant: "lab", Queue: "web", Card: "NVIDIA-H200", ServiceType: "inference"}: 4,
		{Namespace: "lab", Card: "NVIDIA-H200", ServiceType: "none"}:                 2,
	}, collector.CardsInUse())
}

// TestBillsDateCardsByTheBindingOfThePod: a pod uses its cards from its binding, one minute before its start.
// A new leader dates usages by these times. Pod undated states neither, so a new leader could not know since
// when it uses its cards: it has no usage. A pod may name any queue. So the cards of a queue that does not
// exist are billed to the namespace of the pod, with service type none.
func TestBillsDateCardsByTheBindingOfThePod(t *testing.T) {
	bound := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	podIn := func(queue string) *builder.PodBuilder {
		return builder.Pod("lab", "in-"+queue).Queue(queue).GPUs(2).Running("a").With(func(p *corev1.Pod) {
			p.Status.StartTime = ptr.To(metav1.NewTime(bound.Add(time.Minute)))
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound})
		})
	}

	collector := newCollector(trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj()))
	check.Equal(t, "usages before the first count", 0, len(collector.PodUsages()))

	stores := newObjectStores()
	stores.quotas = newStore(builder.CardQuota("web").ServiceType("inference").Card("NVIDIA-H200", 8).Tenant("lab").Obj())
	undated := builder.Pod("lab", "undated").Queue("web").GPUs(2).Running("a").With(func(p *corev1.Pod) { p.Status.StartTime = nil }).Obj()
	stores.pods = newStore(podIn("web").Obj(), undated)
	collector.countUsage(stores)
	ofQueue := cardseconds.Series{Tenant: "lab", Queue: "web", Card: "NVIDIA-H200", ServiceType: "inference"}
	check.Equal(t, "usages", []cardseconds.PodUsage{{Series: ofQueue, Count: 2, Since: bound.Time}}, collector.PodUsages())

	stores.pods = newStore(podIn("missing").Obj()) // no CardQuota has this queue
	collector.countUsage(stores)
	ofNamespace := cardseconds.Series{Namespace: "lab", Card: "NVIDIA-H200", ServiceType: "none"}
	check.Equal(t, "usages of a queue that does not exist", []cardseconds.PodUsage{{Series: ofNamespace, Count: 2, Since: bound.Time}}, collector.PodUsages())
}

// TestATerminatingPodIsBilled: a deleted pod no longer counts against the quota of its queue. But it computes
// on its 8 cards until its grace period of an hour ends. So the bill has them.
func TestATerminatingPodIsBilled(t *testing.T) {
	collector := newCollector(trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj()))
	stores := newObjectStores()
	stores.quotas = newStore(builder.CardQuota("web").Tenant("team").ServiceType("training").Card("NVIDIA-H200", 8).Obj())
	stores.pods = newStore(builder.Pod("lab", "p").Queue("web").GPUs(8).GracePeriod(3600).Running("a").Deleted(time.Now()).Obj())

	collector.countUsage(stores)

	own, _, _ := collector.QueueUsage("web")
	check.Equal(t, "cards that count against the quota", 0, len(own.Used))
	inBill := map[cardseconds.Series]card.Count{{Tenant: "team", Queue: "web", Card: "NVIDIA-H200", ServiceType: "training"}: 8}
	check.Equal(t, "cards in the bill", inBill, collector.CardsInUse())
}

// TestACountFollowsTheEndOfAPod: the grace period of a pod on a lost node ends without an event, because no kubelet
// deletes the pod. So the collector itself counts again when the period ends, here after about a second, and
// the bill no longer has the cards.
func TestACountFollowsTheEndOfAPod(t *testing.T) {
	collector := newCollector(trackNodes(builder.Node("lost").GPUs("NVIDIA-H200", 8).NotReady().Obj()))
	stores := newObjectStores()
	stores.pods = newStore(builder.Pod("lab", "p").GPUs(8).Running("lost").Deleted(time.Now().Add(time.Second)).Obj())
	collector.countUsage(stores)
	check.Equal(t, "series of billed cards before the end", 1, len(collector.CardsInUse()))

	select {
	case <-collector.dirty:
	case <-time.After(10 * time.Second):
		t.Fatal("no count is due at the end")
	}

	collector.countUsage(stores)
	check.Equal(t, "series of billed cards after it", 0, len(collector.CardsInUse()))
}

// TestTheCacheKeepsTheStartOfPods: a pod without a dated binding uses its cards from its start, so the cache that
// strips pods must keep that time.
func TestTheCacheKeepsTheStartOfPods(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	pod := builder.Pod("lab", "p").Running("a").Obj()
	pod.Status.StartTime = &at
	check.Equal(t, "used since", at.Time, queueusage.PlacedSince(strip.Pod(pod)))
}
