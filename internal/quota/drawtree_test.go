package quota

import (
	"cmp"
	"fmt"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
)

// treeCards are the card names that random trees limit, and treeNames are all names.
var (
	treeCards = []card.Name{"A", "A/mig-1g.18gb-mixed", "B"}
	treeNames = []Resource{"A", "A/mig-1g.18gb-mixed", "B", CPU, Memory}
)

// drawTree draws queues as they are written, with missing parents, cycles and deep paths.
func drawTree(t *rapid.T) map[string]TreeQueue {
	queues := map[string]TreeQueue{}
	count := rapid.IntRange(1, 12).Draw(t, "queues")
	chain := rapid.SampledFrom([]int{0, 0, 0, 5, 6, 7, 8}).Draw(t, "chain") // of so many queues
	for i := range count {
		q := newTreeQueue(drawParent(t, i, count, chain))
		q.AnyCard = rapid.IntRange(0, 19).Draw(t, "any card") == 0
		q.IsHeld = rapid.IntRange(0, 9).Draw(t, "held") == 0
		q.IsParentOnly = rapid.IntRange(0, 9).Draw(t, "parent only") == 0
		q.IsClosed = rapid.IntRange(0, 9).Draw(t, "closed") == 0

		for _, name := range treeNames {
			if !naiveIsCard(name) || !q.AnyCard {
				drawAmounts(t, q, name)
			}
		}
		queues[fmt.Sprint("q", i)] = q
	}

	return queues
}

// newTreeQueue returns a queue that writes no amounts yet.
func newTreeQueue(parent string) TreeQueue {
	return TreeQueue{Parent: parent, Quota: Amounts{}, Deserved: Amounts{}, Guarantee: Amounts{}}
}

// drawParent draws the parent of queue i, "" for root.
func drawParent(t *rapid.T, i, count, chain int) string {
	switch kind := rapid.IntRange(0, 19).Draw(t, "kind of parent"); {
	case i > 0 && i < chain:
		return fmt.Sprint("q", i-1)
	case kind < 8 && i > 0:
		return fmt.Sprint("q", rapid.IntRange(0, i-1).Draw(t, "parent"))
	case kind < 13 && i > 0:
		return fmt.Sprint("q", i-1)
	case kind == 13:
		return fmt.Sprint("q", rapid.IntRange(0, count-1).Draw(t, "any parent"))
	case kind == 14:
		return "missing"
	}

	return ""
}

// drawAmounts draws what a queue writes of one name. A number below 0 writes nothing.
func drawAmounts(t *rapid.T, q TreeQueue, name Resource) {
	draw := func(amounts Amounts, label string, from, to int) {
		if n := rapid.IntRange(from, to).Draw(t, label+" of "+string(name)); n >= 0 {
			amounts[name] = int64(n)
		}
	}
	draw(q.Quota, "quota", -2, 16)
	draw(q.Deserved, "deserved", -3, 12)
	draw(q.Guarantee, "guarantee", -6, 8)
	if !naiveIsCard(name) && rapid.Bool().Draw(t, "unlimited") {
		q.Quota[name] = Unlimited
	}
}

// newTreeLedger returns a ledger of queues in a tree with an inventory, which is without limit
// if it is nil. Limits of CPU and memory that are not set are Unlimited.
func newTreeLedger(tree map[string]position, limits map[string]Limits, inventory card.Quota) *Ledger {
	queues := map[string]*Resolved{}
	for name, at := range tree {
		of := limits[name]
		of.MilliCPU = cmp.Or(of.MilliCPU, Unlimited)
		of.Memory = cmp.Or(of.Memory, Unlimited)
		queues[name] = &Resolved{Parent: at.parent, Written: TreeQueue{Weight: at.weight, Created: at.created}, Limits: of}
	}

	l := New(0)
	l.SetTree(&Tree{queues: queues})
	if inventory != nil {
		l.SetInventory(inventory, Unlimited, Unlimited)
	}
	return l
}

// newQueueLedger returns a ledger of queue q without a tree, which limits cards alone.
func newQueueLedger(quota card.Quota) *Ledger {
	return newFlatLedger(map[string]Limits{"q": {Cards: quota, MilliCPU: Unlimited, Memory: Unlimited}})
}

// newFlatLedger returns a ledger of flat queues.
func newFlatLedger(limits map[string]Limits) *Ledger {
	l := New(0)
	l.SetTree(Flat.WithFlat(limits))
	return l
}

// countCards returns the cards of requests together.
func countCards(requests []CardRequest) (sum int64) {
	for _, r := range requests {
		sum += int64(r.Count)
	}
	return sum
}

// drawCardRequest draws a request of up to three of the cards A, B and C.
func drawCardRequest(t *rapid.T) CardRequest {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]card.Name{"A", "B", "C"}), 1, 3, rapid.ID[card.Name]).Draw(t, "names")
	return CardRequest{Names: names, Count: card.Count(rapid.IntRange(0, 2).Draw(t, "count"))}
}
