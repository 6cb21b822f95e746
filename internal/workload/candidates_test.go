package workload

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCandidatesAreChargedAndUsedOnce: nodes a, b and c have labels: H200, H800 and 910B. Node bare offers 8 GPUs
// without a label, so a pod there may use H200 or H800. The quota is charged for both, so that none is exceeded.
// Card-seconds count what the pod uses: of each resource only the first card, in the order of the pod's names, else
// of the alphabet. Only one card is possible on node b, and on node bare after a charge of one card before.
func TestCandidatesAreChargedAndUsedOnce(t *testing.T) {
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
		pod                       *builder.PodBuilder
		last                      *quota.Charge
		wantCharged, wantDistinct []card.Amount
	}{
		"on node b, which has H800": {
			pod:          builder.Pod("lab", "p").GPUs(8).Running("b"),
			wantCharged:  amounts(8, "H800"),
			wantDistinct: amounts(8, "H800"),
		},
		"on node bare, and names no card": {
			pod:          builder.Pod("lab", "p").GPUs(8).Running("bare"),
			wantCharged:  amounts(8, "H200", "H800"),
			wantDistinct: amounts(8, "H200"),
		},
		"on node bare, and names H800 before H200": {
			pod:          builder.Pod("lab", "p").GPUs(8).Card("H800|H200").Running("bare"),
			wantCharged:  amounts(8, "H800", "H200"),
			wantDistinct: amounts(8, "H800"),
		},
		"on node bare, and was charged for H800 before": {
			pod:          builder.Pod("lab", "p").GPUs(8).Running("bare"),
			last:         &quota.Charge{Cards: amounts(8, "H800")},
			wantCharged:  amounts(8, "H800"),
			wantDistinct: amounts(8, "H800"),
		},
		"on node bare, and was charged for both before": {
			pod:          builder.Pod("lab", "p").GPUs(8).Running("bare"),
			last:         &quota.Charge{Cards: amounts(8, "H200", "H800")},
			wantCharged:  amounts(8, "H200", "H800"),
			wantDistinct: amounts(8, "H200"),
		},
		"on node bare, with cards of two vendors": {
			pod:          builder.Pod("lab", "p").GPUs(8).Container("huawei.com/Ascend910", "8").Running("bare"),
			wantCharged:  amounts(8, "910B", "H200", "H800"),
			wantDistinct: amounts(8, "910B", "H200"),
		},
	}) {
		resolver := Resolver{Inventory: tracker.Inventory()}
		charge := resolver.Usage(tc.pod.Obj(), nil, tc.last)
		check.Equal(t, "charged", tc.wantCharged, charge.Cards)
		check.Equal(t, "distinct cards", tc.wantDistinct, charge.DistinctCards())
	}
}
