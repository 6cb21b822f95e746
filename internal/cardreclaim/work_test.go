package cardreclaim

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// Work is counted in nodes looked at or changed, which is the same on every
// machine. The limits are about twice what was measured.
func TestWorkStaysWithinLimits(t *testing.T) {
	gangs, spread := fleet{nodes: 500, gangs: 500, size: 8}, fleet{nodes: 500, gangs: 500, size: 8, spread: true}
	mixed, one := fleet{nodes: 500, gangs: 450, size: 8, mixed: true}, fleet{nodes: 500, gangs: 500, size: 8, elastic: true}
	for _, tc := range []struct {
		fleet   fleet
		waiting int
		cards   float64
		most    int
	}{
		{gangs, 1, 1, 3_000},
		{gangs, 400, 1, 3_500},
		{gangs, 512, 1, 3_500},
		{gangs, 64, 8, 3_500},
		{spread, 1, 1, 25_000},
		{spread, 400, 1, 40_000},
		{spread, 512, 1, 45_000},
		{spread, 64, 8, 3_000_000},
		{mixed, 13, 1, 5_000},
		{mixed, 512, 1, 900_000},
		{one, 1, 1, 25_000},
		{one, 400, 1, 35_000},
		{one, 64, 8, 60_000},
	} {
		t.Run(fmt.Sprintf("%+v %d of %g", tc.fleet, tc.waiting, tc.cards), func(t *testing.T) {
			p := tc.fleet.problem(tc.waiting, tc.cards)
			m := newModel(p)
			m.addJobs(p)
			check.Must(t, m.choose() != nil, "there is a plan")
			check.That(t, m.work <= tc.most, "%d steps, more than %d", m.work, tc.most)
		})
	}
}
