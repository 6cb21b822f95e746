package capacitycard

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"

	"cardquota.dev/operator/internal/testing/check"
)

// TestASessionAllocatesLittle: the scheduler opens a session each second. So the plugin makes few allocations of
// memory when a session opens and closes in which nothing has changed. Their number grows with the pods and with the
// queues, but not with the product of both, and hardly with the nodes. They are also at most a quarter (mostAllocs)
// of those of Volcano's plugin capacity. Each row allows 2.5 times the allocations that were measured, as the race
// detector makes some, too.
func TestASessionAllocatesLittle(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		nodes, pods, queues int
		atMost              float64
	}{
		"100 nodes, 1000 pods, 20 queues": {100, 1000, 20, 400},
		"four times the pods":             {100, 4000, 20, 780},
		"four times the nodes":            {400, 1000, 20, 410},
		"four times the queues":           {100, 1000, 80, 600},
		"four times all three":            {400, 4000, 80, 980},
	}) {
		s := newFleet(t, tc.nodes, tc.pods, tc.queues, 20) // 20 card models
		openAndClose := func() { s.reopen().p.OnSessionClose(s.Ssn) }
		openAndClose() // the first session fills the cache of the plugin

		ours := testing.AllocsPerRun(5, openAndClose)
		ofCapacity := testing.AllocsPerRun(5, func() {
			p := capacity.New(nil)
			p.OnSessionOpen(s.Ssn)
			p.OnSessionClose(s.Ssn)
		})

		check.That(t, ours <= tc.atMost, "%v allocations, at most %v are allowed", ours, tc.atMost)
		check.That(t, ours <= mostAllocs*ofCapacity, "%v allocations, at most a quarter of the %v of capacity are allowed", ours, ofCapacity)
	}
}
