package cardreclaim

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// The borrower uses the whole CPU of the tenant with the cards that it borrowed. Its eviction
// frees both for the queue that deserves the cards.
func TestEvictionFreesCPUOfAnAncestorToo(t *testing.T) {
	for _, unlimited := range []bool{false, true} {
		w := newTree("x 8/8; xa<x 8/4 training; xb<x 8/4 training", "node n A 8; b xb 1: n*8 ran=1h; r xa 1: -", onJob("b", requests("cpu", "1")), onJob("r", requests("cpu", "1")))
		for _, q := range w.Queues {
			if q.Name == "x" {
				q.Spec.Capability["cpu"] = amount("8")
			}
		}

		w.args["cardUnlimitedCpuMemory"] = unlimited
		w.alone = true
		w.runAction(t)
		check.Equal(t, "victims", "xb 1", w.evictedByQueue())
	}
}
