package solver

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWorkStaysWithinLimits: work is the same on every machine. The limits are about twice
// what was measured.
func TestWorkStaysWithinLimits(t *testing.T) {
	gangs := fleet{nodes: 500, gangs: 500, size: 8}
	spread := fleet{nodes: 500, gangs: 500, size: 8, spread: true}
	mixed := fleet{nodes: 500, gangs: 450, size: 8, mixed: true}

	one := fleet{nodes: 500, gangs: 500, size: 8, elastic: true}
	for _, tc := range []struct {
		fleet   fleet
		waiting int
		cards   float64
		most    int
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
		{one, 1, 1, 50_000},
		{one, 400, 1, 80_000},
		{one, 64, 8, 200_000},
	} {
		t.Run(fmt.Sprintf("%+v %d of %g", tc.fleet, tc.waiting, tc.cards), func(t *testing.T) {
			got := Solve(tc.fleet.problem(tc.waiting, tc.cards), maxRefineWork)
			check.Must(t, got.Plan != nil, "there is a plan")
			check.That(t, got.Work <= tc.most*workPerVisit, "%d looks, more than %d", got.Work/workPerVisit, tc.most)
		})
	}
}

// TestClearNodeIsLinearInPodsOfGangs: the work of clearing nodes grows with the pods of gangs,
// not with the square of their nodes.
func TestClearNodeIsLinearInPodsOfGangs(t *testing.T) {
	one := Solve(fleet{nodes: 640, gangs: 80, size: 64, spread: true}.problem(8, 8), 0)
	eight := Solve(fleet{nodes: 5120, gangs: 80, size: 512, spread: true}.problem(8, 8), 0)
	check.Must(t, one.Plan != nil && eight.Plan != nil, "there are no plans")
	check.That(t, eight.Work < 16*one.Work, "the work is %d, and %d for gangs eight times as large", one.Work, eight.Work)
}
