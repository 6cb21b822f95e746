package workload

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCandidatesAreChargedAndHeldOnce: quotas count every card that a pod may hold, and one of them is
// the card that it holds.
func TestCandidatesAreChargedAndHeldOnce(t *testing.T) {
	var tracker card.Tracker
	tracker.Update(builder.Node("a").GPUs("H200", 8).Obj())
	tracker.Update(builder.Node("b").GPUs("H800", 8).Obj())
	tracker.Update(builder.Node("c").NPUs("910B", 8).Obj())
	tracker.Update(builder.Node("bare").Resource("nvidia.com/gpu", "8").Obj())

	amounts := func(count card.Count, names ...card.Name) (out []card.Amount) {
		for _, name := range names {
			out = append(out, card.Amount{Name: name, Count: count})
		}
		return out
	}

	for t, tc := range check.Cases(t, map[string]struct {
		pod           *builder.PodBuilder
		last          *quota.Charge
		charged, held []card.Amount
	}{
		"on a node that names its card": {
			pod:     builder.Pod("lab", "p").GPUs(8).Running("b"),
			charged: amounts(8, "H800"),
			held:    amounts(8, "H800"),
		},
		"on one that does not": {
			pod:     builder.Pod("lab", "p").GPUs(8).Running("bare"),
			charged: amounts(8, "H200", "H800"),
			held:    amounts(8, "H200"),
		},
		"that names alternatives": {
			pod:     builder.Pod("lab", "p").GPUs(8).Card("H800|H200").Running("bare"),
			charged: amounts(8, "H800", "H200"),
			held:    amounts(8, "H800"),
		},
		"charged before": {
			pod:     builder.Pod("lab", "p").GPUs(8).Running("bare"),
			last:    &quota.Charge{Cards: amounts(8, "H800")},
			charged: amounts(8, "H800"),
			held:    amounts(8, "H800"),
		},
		"uncertain before": {
			pod:     builder.Pod("lab", "p").GPUs(8).Running("bare"),
			last:    &quota.Charge{Cards: amounts(8, "H200", "H800")},
			charged: amounts(8, "H200", "H800"),
			held:    amounts(8, "H200"),
		},
		"with two resources": {
			pod:     builder.Pod("lab", "p").GPUs(8).Container("huawei.com/Ascend910", "8").Running("bare"),
			charged: amounts(8, "910B", "H200", "H800"),
			held:    amounts(8, "910B", "H200"),
		},
	}) {
		r := Resolver{Inventory: tracker.Inventory()}
		charge := r.Usage(tc.pod.Obj(), nil, tc.last)
		check.Equal(t, "charged", tc.charged, charge.Cards)
		check.Equal(t, "held", tc.held, charge.HeldCards())
	}
}
