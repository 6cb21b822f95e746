package capacitycard

import (
	"fmt"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"

	"cardquota.dev/operator/internal/testing/check"
)

// TestASessionAllocatesLittle opens and closes sessions in which nothing changed.
// What they allocate follows the pods and queues, not their product, and is a small
// part of what Volcano's capacity allocates. The limits are two and a half
// times what was measured, because the race detector allocates as well.
func TestASessionAllocatesLittle(t *testing.T) {
	for _, tc := range []struct {
		nodes, pods, queues int
		most                float64
	}{
		{100, 1000, 20, 400}, {100, 4000, 20, 780}, {400, 1000, 20, 410}, {100, 1000, 80, 600}, {400, 4000, 80, 980},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d pods, %d queues", tc.nodes, tc.pods, tc.queues), func(t *testing.T) {
			s := newFleet(t, tc.nodes, tc.pods, tc.queues, 20)
			session := func() { s.reopen().p.OnSessionClose(s.Ssn) }
			session() // the first one finds nothing remembered

			ours := testing.AllocsPerRun(5, session)
			theirs := testing.AllocsPerRun(5, func() {
				p := capacity.New(nil)
				p.OnSessionOpen(s.Ssn)
				p.OnSessionClose(s.Ssn)
			})

			check.That(t, ours <= tc.most && ours <= mostAllocs*theirs,
				"%v allocations, at most %v and %v of the %v of capacity are allowed", ours, tc.most, mostAllocs, theirs)
		})
	}
}
