package solver

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPlacesInReverseOrderOfPodSets: each of 5,000 free nodes has the 8 cards that one of 120 workers needs. 120 masters
// need 60 CPU each, which only the first 120 nodes have. If the workers, which come first, took those nodes, the masters
// would have no place. So pod sets are placed in reverse order, and all pods run without victims.
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
	got := Solve(p, MaxWork)
	check.Must(t, got.Plan != nil, "%+v, want a plan", got)
	check.Equal(t, "error of the plan", "", planError(p, got.Plan))
	check.Equal(t, "victims", nil, got.Plan.Victims)
}
