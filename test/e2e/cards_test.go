package e2e

import "testing"

func TestSlicesSharesAndOtherVendorsHaveQuotasOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t, "kinds")
	s.quota("kinds", cards(migSlice, 3, mpsHalf, 2, ascend, 4, h200, 0))
	kinds := []struct {
		name, card, nodes string
		quota             int
	}{
		{"mig", migSlice, "h200-mig", 3},
		{"mps", mpsHalf, "h800-mps", 2},
		{"npu", ascend, "ascend910b", 4},
	}
	want := map[string]string{"whole": pods(0, 1)}
	for _, kind := range kinds {
		s.create(s.deploymentOf(work{name: kind.name, queue: "kinds", card: kind.card, count: 1, pods: kind.quota + 2}))
		want[kind.name] = pods(kind.quota, 2)
	}
	// A quota of slices is none of whole cards, and the other way round.
	s.run(work{name: "whole", queue: "kinds", card: h200, count: 1, pods: 1})
	s.wantPods(want)
	s.wantSaid("whole", insufficient("kinds", h200, 1, 0))
	for _, kind := range kinds {
		s.wantNodes(kind.name, kind.nodes)
		s.wantSaid(kind.name, insufficient("kinds", kind.card, 1, kind.quota))
		s.wantCard("kinds", kind.card, int64(kind.quota), 2, 0)
	}
}

func TestAlternativesShareTheQuotasOfTheirCards(t *testing.T) {
	t.Parallel()
	s := newScene(t, "either")
	s.quota("either", cards(rtx4090d, 1, rtx4090, 2))
	s.run(work{name: "either", queue: "either", card: rtx4090d + "|" + rtx4090, count: 1, pods: 5})
	s.wantRunning("either", 3, 2)
	s.wantCard("either", rtx4090d, 1, 2, 0)
	s.wantCard("either", rtx4090, 2, 0, 0)

	// A pod that names one of them cannot have the other.
	s.run(work{name: "one", queue: "either", card: rtx4090, count: 1, pods: 1})
	s.wantRunning("one", 0, 1)
	s.wantSaid("one", insufficient("either", rtx4090, 1, 2))

	// Alternatives of two resources can never both be meant.
	s.run(work{name: "mixed", queue: "either", card: h200 + "|" + ascend, count: 1, pods: 1})
	s.wantRunning("mixed", 0, 1)
	s.wantSaid("mixed", "Pod names card <Ascend-910B>, which is requested as huawei.com/Ascend910, but requests nvidia.com/gpu")
}
