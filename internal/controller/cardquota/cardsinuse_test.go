package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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
	status := cardinventory.NewStatus(cardinventory.Input{
		Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: cardinventory.NewCount(cardinventory.CountInput{Pods: pods, Charges: charges, Usage: usage}),
	})
	for _, entry := range status.Cards {
		want := map[string]int64{"H200": 10}[entry.Name]
		check.Equal(t, "allocated of "+entry.Name, want, entry.Allocated)
	}
}
