package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPlacesInReverseOrderOfPodSets: the pods with most cards would take the nodes with the CPU
// that the others need, although they can run elsewhere.
func TestPlacesInReverseOrderOfPodSets(t *testing.T) {
	const (
		nodes = 5_000
		count = 120
	)

	workers := PodSet{Request: Amounts{8, 1}, Cards: 8, Count: count}
	masters := PodSet{Request: Amounts{1, 60}, Cards: 1, Count: count}
	p := &Problem{Quotas: flatQuotas(100_000)}
	for node := range nodes {
		free := Amounts{8, 10}
		if node < count {
			free[1] = 64
		}
		p.Nodes = append(p.Nodes, Node{Free: free})
		workers.Nodes = append(workers.Nodes, node)
		masters.Nodes = append(masters.Nodes, node)
	}

	p.PodSets = []PodSet{workers, masters}
	got := Solve(p, maxRefineWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	why := planError(p, got.Plan)
	check.That(t, why == "" && len(got.Plan.Victims) == 0, "%s %+v, want all placed without victims", why, got.Plan.Victims)
}
