package cardquota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestACardThatMayBeOneOfTwoIsBilledOnce: after a restart nothing says what the cards of a node without
// labels are. The quota has both candidates, bills and the CardInventory have the 8 cards that exist.
func TestACardThatMayBeOneOfTwoIsBilledOnce(t *testing.T) {
	var tracker card.Tracker
	tracker.Update(builder.Node("a").GPUs("H200", 8).Obj())
	tracker.Update(builder.Node("b").GPUs("H800", 8).Obj())
	tracker.Update(builder.Node("bare").Resource("nvidia.com/gpu", "8").Obj())
	pods := []*corev1.Pod{builder.Pod("lab", "p").Queue("q").GPUs(8).Running("bare").Obj(), builder.Pod("lab", "none").GPUs(2).Running("bare").Obj()}
	pods[0].UID, pods[1].UID = "p", "none"
	usage, charges := cardquota.CountUsageAndCharges(cardquota.CountInput{Pods: pods, Inventory: tracker.Inventory()})
	check.Equal(t, "used", map[card.Name]card.Count{"H200": 8, "H800": 8}, usage["q"].Used)
	check.Equal(t, "billed", map[cardseconds.Series]card.Count{{Queue: "q", Card: "H200", ServiceType: "none"}: 8},
		cardsInUse(usage, map[string]*v1alpha1.CardQuota{}, map[string]string{"q": "none"}))
	start := metav1.NewTime(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC))
	pods[0].Status.StartTime = &start
	check.Equal(t, "held since", []cardseconds.Holding{{Series: cardseconds.Series{Queue: "q", Card: "H200", ServiceType: "none"}, Count: 8, Since: start.Time}},
		listHoldings(pods, charges, map[string]*v1alpha1.CardQuota{}, map[string]string{"q": "none"}))
	status := cardinventory.NewStatus(cardinventory.Input{
		Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: cardinventory.NewCount(cardinventory.CountInput{Pods: pods, Charges: charges, Usage: usage}),
	})
	for _, entry := range status.Cards {
		want := map[string]int64{"H200": 10}[entry.Name]
		check.Equal(t, "allocated of "+entry.Name, want, entry.Allocated)
	}
}

// TestHoldingsAreDatedByTheBinding: pods that state neither binding nor start, and pods of a queue that
// does not exist, are left out.
func TestHoldingsAreDatedByTheBinding(t *testing.T) {
	nodes := &tracked{}
	nodes.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
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
	u.countUsage(objectStores{
		quotas: newStore(builder.CardQuota("web").ServiceType("inference").Card("NVIDIA-H200", 8).Tenant("lab").Obj()),
		pods:   newStore(pod("dated", "web", true), pod("undated", "web", false), pod("outside", "ghost", true)),
		groups: newStore(), queues: newStore(), namespaces: newStore(), policies: newStore(),
	})
	check.Equal(t, "holdings", []cardseconds.Holding{{
		Series: cardseconds.Series{Tenant: "lab", Queue: "web", Card: "NVIDIA-H200", ServiceType: "inference"}, Count: 2, Since: bound.Time,
	}}, u.Holdings())
}
