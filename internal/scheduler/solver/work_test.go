package solver

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWorkStaysWithinLimits: the solver counts the nodes and pods that it looks at, its work, which is the same on
// every machine. On full fleets of 500 nodes with 8 cards each, it needs at most about twice as many looks as were
// measured. A failure means that a change made the solver slower. The fleets have gangs of 8 pods on one node each,
// or spread over 8 nodes. Others have gangs of 1 to 16 pods, or one job with only elastic pods.
func TestWorkStaysWithinLimits(t *testing.T) {
	gangs := fleet{nodes: 500, gangs: 500, size: 8}
	spread := fleet{nodes: 500, gangs: 500, size: 8, spread: true}
	mixed := fleet{nodes: 500, gangs: 450, size: 8, mixed: true}
	elastic := fleet{nodes: 500, gangs: 500, size: 8, elastic: true}

	for _, tc := range []struct {
		fleet    fleet
		pending  int
		cards    float64 // of each pending pod
		maxLooks int
	}{
		{gangs, 1, 1, 25_000},
		{gangs, 400, 1, 25_000},
		{gangs, 512, 1, 25_000},
		{gangs, 64, 8, 25_000},
		{spread, 1, 1, 50_000},
		{spread, 400, 1, 75_000},
		{spread, 512, 1, 80_000},
		{spread, 64, 8, 1_000_000},
		{mixed, 13, 1, 25_000},
		{mixed, 512, 1, 150_000},
		{elastic, 1, 1, 50_000},
		{elastic, 400, 1, 80_000},
		{elastic, 64, 8, 200_000},
	} {
		t.Run(fmt.Sprintf("%+v %d of %g", tc.fleet, tc.pending, tc.cards), func(t *testing.T) {
			got := Solve(tc.fleet.problem(tc.pending, tc.cards), MaxWork)
			check.Must(t, got.Plan != nil, "no plan")
			check.That(t, got.Work <= tc.maxLooks*workPerVisit, "%d looks, more than %d", got.Work/workPerVisit, tc.maxLooks)
		})
	}
}

// TestClearNodeIsLinearInPodsOfGangs: a pending pod of 8 cards needs a whole node, on which 8 gangs have a pod each. With
// gangs eight times as large, on eight times as many nodes, the work of the first plan may grow in proportion: less
// than 16 times. It must not grow with the square, 64 times. A budget of 0 leaves it at the first plan.
func TestClearNodeIsLinearInPodsOfGangs(t *testing.T) {
	small := Solve(fleet{nodes: 640, gangs: 80, size: 64, spread: true}.problem(8, 8), 0)
	large := Solve(fleet{nodes: 5120, gangs: 80, size: 512, spread: true}.problem(8, 8), 0)
	check.Must(t, small.Plan != nil && large.Plan != nil, "there are no plans")
	check.That(t, large.Work < 16*small.Work, "the work is %d, and %d for gangs eight times as large", small.Work, large.Work)
}
