package quota

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/card"
)

// BenchmarkLedger checks a pod in one of 100 queues, and charges and releases it. The queues are flat, or leaves of a tree
// of depth three.
func BenchmarkLedger(b *testing.B) {
	queues := map[string]TreeQueue{"tenant": {Quota: Amounts{"A": 10_000}}, "team": {Parent: "tenant", Quota: Amounts{"A": 10_000}}}
	limits := Limits{Cards: card.Quota{"A": 100}, MilliCPU: Unlimited, Memory: Unlimited}
	flat := New(0)
	for i := range 100 {
		name := fmt.Sprint("q", i)
		queues[name] = TreeQueue{Parent: "team", Quota: Amounts{"A": 100}}
		flat.SetLimits(name, limits)
	}

	tree := New(0)
	tree.SetTree(ResolveTree(queues))
	for name := range tree.queues {
		limited := tree.queues[name].limits
		limited.MilliCPU = Unlimited
		limited.Memory = Unlimited
		tree.SetLimits(name, limited)
	}

	request := Request{Names: []card.Name{"A"}, Count: 8, MilliCPU: 1000, Memory: 1 << 30}
	charge := &Charge{Queue: "q7", Cards: []card.Amount{{Name: "A", Count: 8}}, MilliCPU: 1000, Memory: 1 << 30}
	for name, l := range map[string]*Ledger{"flat": flat, "tree": tree} {
		b.Run(name+"/fits", func(b *testing.B) {
			for range b.N {
				if !l.Fits("q7", request, Within{}) {
					b.Fatal("the pod does not fit")
				}
			}
		})

		b.Run(name+"/charge and release", func(b *testing.B) {
			for range b.N {
				l.Charge("pod", charge)
				l.Release("pod")
			}
		})
	}
}
