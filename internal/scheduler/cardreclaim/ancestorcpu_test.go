package cardreclaim

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// The borrower uses the whole CPU of the tenant with the cards that it borrowed. Its eviction
// frees both for the queue that deserves the cards.
func TestEvictionFreesCPUOfAnAncestorToo(t *testing.T) {
	for _, unlimited := range []bool{false, true} {
		w := newTree("x quota=8 deserved=8; xa parent=x quota=8 deserved=4 serviceType=training; xb parent=x quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job b queue=xb min=1 running=n*8 age=1h; job r queue=xa min=1 pending=1", onJob("b", requests("cpu", "1")), onJob("r", requests("cpu", "1")))
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
