package quota

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/card"
)

// BenchmarkLedger checks a pod in one of 100 queues, and charges and releases it. The queues are flat, or leaves of a tree
// of depth three.
func BenchmarkLedger(b *testing.B) {
	quota := Amounts{"A": 100, CPU: Unlimited, Memory: Unlimited}
	queues := map[string]TreeQueue{"tenant": {Quota: quota}, "team": {Parent: "tenant", Quota: quota}}
	limits := map[string]Limits{}
	for i := range 100 {
		name := fmt.Sprint("q", i)
		queues[name] = TreeQueue{Parent: "team", Quota: quota}
		limits[name] = Limits{Cards: quota.Cards(), MilliCPU: Unlimited, Memory: Unlimited}
	}

	flat := newFlatLedger(limits)
	tree := New(0)
	tree.SetTree(ResolveTree(queues))
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
