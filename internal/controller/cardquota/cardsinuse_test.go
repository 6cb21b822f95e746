package cardquota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestACardThatMayBeOneOfTwoIsBilledOnce: after a restart nothing says what the cards of a node without
// labels are. The quota has both candidates, bills and the CardInventory have the 8 cards that exist. The
// cards of a pod without a queue are billed to its namespace.
func TestACardThatMayBeOneOfTwoIsBilledOnce(t *testing.T) {
	nodes := trackNodes(builder.Node("a").GPUs("H200", 8).Obj(), builder.Node("b").GPUs("H800", 8).Obj(), builder.Node("bare").Resource("nvidia.com/gpu", "8").Obj())
	pods := []*corev1.Pod{builder.Pod("lab", "p").Queue("q").GPUs(8).Running("bare").Obj(), builder.Pod("lab", "none").GPUs(2).Running("bare").Obj()}
	facts := cardquota.PodFacts{}
	usage, charges := cardquota.CountUsageAndCharges(cardquota.CountInput{Pods: pods, Inventory: nodes.Tracker.Inventory(), Facts: &facts})
	check.Equal(t, "used", map[card.Name]card.Count{"H200": 8, "H800": 8}, usage["q"].Used)

	payers := bills{queueTypes: map[string]string{"q": "none"}}
	inQueue := cardseconds.Series{Queue: "q", Card: "H200", ServiceType: "none"}
	outside := cardseconds.Series{Namespace: "lab", Card: "H200", ServiceType: "none"}
	check.Equal(t, "billed", map[cardseconds.Series]card.Count{inQueue: 8, outside: 2}, payers.cardsInUse(facts.HeldPods()))

	start := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	pods[0].Status.StartTime = &start
	check.Equal(t, "held since", []cardseconds.Holding{{Series: inQueue, Count: 8, Since: start.Time}}, payers.listHoldings(facts.HeldPods()))

	status := cardinventory.NewStatus(cardinventory.Input{
		Nodes: nodes.TrackedNodes(), Cards: nodes.Tracker.Inventory(), Count: cardinventory.NewCount(cardinventory.CountInput{Pods: pods, Charges: charges, Usage: usage}),
	})
	for _, entry := range status.Cards {
		check.Equal(t, "allocated of "+entry.Name, map[string]int64{"H200": 10}[entry.Name], entry.Allocated)
	}
}

// TestHoldingsAreDatedByTheBinding: pods that state neither binding nor start do not count. The cards of a
// queue that does not exist are billed to the namespace of the pod, because a pod may name any queue.
func TestHoldingsAreDatedByTheBinding(t *testing.T) {
	nodes := trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	bound := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	pod := func(name, queue string, isDated bool) *corev1.Pod {
		p := builder.Pod("lab", name).Queue(queue).GPUs(2).Running("a").Obj()
		p.Status.StartTime = nil
		if isDated {
			later := metav1.NewTime(bound.Add(time.Minute))
			p.Status.StartTime = &later
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound})
		}
		return p
	}

	u := newUsageCollector(nil, 0, nodes)
	check.Equal(t, "holdings before the first count", 0, len(u.Holdings()))

	s := objectStores{
		quotas: newStore(builder.CardQuota("web").ServiceType("inference").Card("NVIDIA-H200", 8).Tenant("lab").Obj()),
		pods:   newStore(pod("dated", "web", true), pod("undated", "web", false)),
		groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore(),
	}

	u.countUsage(s)
	inQueue := cardseconds.Holding{Series: cardseconds.Series{Tenant: "lab", Queue: "web", Card: "NVIDIA-H200", ServiceType: "inference"}, Count: 2, Since: bound.Time}
	check.Equal(t, "holdings", []cardseconds.Holding{inQueue}, u.Holdings())

	s.pods = newStore(pod("outside", "ghost", true))
	u.countUsage(s)
	outside := cardseconds.Holding{Series: cardseconds.Series{Namespace: "lab", Card: "NVIDIA-H200", ServiceType: "none"}, Count: 2, Since: bound.Time}
	check.Equal(t, "holdings of a queue that does not exist", []cardseconds.Holding{outside}, u.Holdings())
}

// TestATerminatingPodIsBilled: its cards are in no usage of its queue, and computing goes on until the pod is gone.
func TestATerminatingPodIsBilled(t *testing.T) {
	nodes := trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	pod := builder.Pod("lab", "p").Queue("web").GPUs(8).GracePeriod(3600).Running("a").Deleted(time.Now()).Obj()
	u := newUsageCollector(nil, 0, nodes)

	s := objectStores{
		quotas: newStore(builder.CardQuota("web").Card("NVIDIA-H200", 8).Obj()), pods: newStore(pod),
		groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore(),
	}

	u.countUsage(s)
	own, _, _ := u.QueueUsage("web")
	check.Equal(t, "cards that count against the quota", 0, len(own.Used))
	check.Equal(t, "cards in the bill", map[cardseconds.Series]card.Count{{Tenant: "team", Queue: "web", Card: "NVIDIA-H200", ServiceType: "training"}: 8}, u.CardsInUse())
}

// TestACountFollowsTheEndOfAPod: no event says that the grace period of a pod on a lost node is over.
func TestACountFollowsTheEndOfAPod(t *testing.T) {
	nodes := trackNodes(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(), builder.Node("lost").GPUs("NVIDIA-H200", 8).NotReady().Obj())
	pod := builder.Pod("lab", "p").GPUs(8).Running("lost").Deleted(time.Now().Add(time.Second)).Obj()

	u := newUsageCollector(nil, 0, nodes)
	s := objectStores{quotas: newStore(), pods: newStore(pod), groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore()}
	u.countUsage(s)
	check.Equal(t, "billed before the end", 1, len(u.CardsInUse()))

	select {
	case <-u.dirty:
	case <-time.After(10 * time.Second):
		t.Fatal("no count is due at the end")
	}

	u.countUsage(s)
	check.Equal(t, "billed after it", 0, len(u.CardsInUse()))
}

// TestTheCacheKeepsTheStartOfPods: a pod whose binding is not dated is credited from there.
func TestTheCacheKeepsTheStartOfPods(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	pod := builder.Pod("lab", "p").Running("a").Obj()
	pod.Status.StartTime = &at
	check.Equal(t, "start", at.Time, cardquota.HeldSince(strip.Pod(pod)))
}
