package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// pathOf returns a queue and its ancestors.
func (n *naiveLedger) pathOf(queue string) []string { return n.treeOf(CPU).Path(queue) }

// naiveLevel counts the steps from a queue up to the lowest ancestor that both have.
func (n *naiveLedger) naiveLevel(queue, other string) int {
	return max(1, len(n.treeOf(CPU).PathBelow(queue, other)))
}

// naiveOrder is what decides between two siblings.
type naiveOrder struct {
	isAbove    bool
	part       float64 // used ÷ deserved below what is deserved, borrowed ÷ weight above it
	created    time.Time
	name       string
	weight     float64
	usesNoCard bool
}

// orderOf returns the order of a queue among its siblings.
func (h *treeTest) orderOf(queue string) naiveOrder {
	position := h.ledger.positions[queue]
	limits := h.naive.limits[queue]
	o := naiveOrder{created: position.created, name: queue, weight: max(1, float64(position.weight))}
	o.usesNoCard = limits.AnyCard || len(limits.Cards) == 0
	names := slices.DeleteFunc(slices.Clone(treeNames), func(name Resource) bool {
		return h.naive.deservedOf(queue, name) == Unlimited || (naiveIsCard(name) && o.usesNoCard)
	})

	dominant := 0.0
	deservesCards := false
	for _, name := range names {
		dominant = max(dominant, h.naive.fractionOfDeserved(queue, name))
		deservesCards = deservesCards || (naiveIsCard(name) && h.naive.deservedOf(queue, name) > 0)
	}

	o.isAbove = dominant >= 1 || (!o.usesNoCard && !deservesCards)
	o.part = dominant
	if o.isAbove {
		o.part = h.naive.borrowed(queue, names, o.usesNoCard) / o.weight
	}

	return o
}

// fractionOfDeserved returns used ÷ deserved of a name.
func (n *naiveLedger) fractionOfDeserved(queue string, name Resource) float64 {
	used := float64(n.used(queue, name))
	deserved := float64(n.deservedOf(queue, name))
	switch {
	case deserved > 0:
		return used / deserved
	case used > 0:
		return math.Inf(1)
	}
	return 0
}

// borrowed returns the most cards of a name above what is deserved, or the CPU cores of a queue
// that uses no card.
func (n *naiveLedger) borrowed(queue string, names []Resource, usesNoCard bool) (most float64) {
	for _, name := range names {
		above := float64(n.used(queue, name)) - float64(n.deservedOf(queue, name))
		switch {
		case naiveIsCard(name):
			most = max(most, above)
		case name == CPU && usesNoCard:
			most = above / 1000
		}
	}
	return most
}

// naiveCompare compares two queues by the siblings below their lowest common ancestor.
func (h *treeTest) naiveCompare(left, right string) int {
	a := h.naive.treeOf(CPU).PathBelow(left, right)
	b := h.naive.treeOf(CPU).PathBelow(right, left)
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}

	x := h.orderOf(a[len(a)-1])
	y := h.orderOf(b[len(b)-1])
	if x.isAbove != y.isAbove {
		return map[bool]int{true: 1, false: -1}[x.isAbove]
	}

	return cmp.Or(cmp.Compare(x.part, y.part), x.created.Compare(y.created), cmp.Compare(x.name, y.name))
}

// TestCompareSharesOrdersAllQueues: CompareShares decides which of two queues gets cards first. After a random history
// in a random tree, it orders each two queues as naiveCompare does. That recounts the pods and applies these rules:
// (1) An ancestor comes before its subtree. For other queues the children of their lowest common ancestor are compared:
// one child is or contains the first queue, another the second.
// (2) A child that uses less than it deserves comes before one that does not.
// (3) Of two that use less, the smaller used ÷ deserved comes first. Of two that do not, the smaller borrowed ÷ weight.
// (4) Otherwise the older one comes first, then the first by name.
// The order is total as well: two swapped queues get the opposite answer, and no three queues form a cycle.
func TestCompareSharesOrdersAllQueues(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			for name := range h.tree { // what the ledger keeps of a comparison must not outlive a change
				h.ledger.CompareShares(name, h.drawQueue(t))
				h.ledger.IsBelowDeserved(name)
			}
			h.step(t)
		}

		names := slices.Sorted(maps.Keys(h.tree))
		for _, a := range names {
			for _, b := range names {
				got := h.ledger.CompareShares(a, b)
				check.Must(t, got == h.naiveCompare(a, b), "%s before %s: %d, want %d (%+v, %+v)", a, b, got, h.naiveCompare(a, b), h.orderOf(a), h.orderOf(b))
				check.Must(t, got == -h.ledger.CompareShares(b, a) && (got == 0) == (a == b), "%s and %s: %d and %d", a, b, got, h.ledger.CompareShares(b, a))
				for _, c := range names {
					check.Must(t, got >= 0 || h.ledger.CompareShares(b, c) >= 0 || h.ledger.CompareShares(a, c) < 0, "%s before %s before %s before %s", a, b, c, a)
				}
			}
		}
	})
}

// TestTheSmallestLimitOnThePathCounts: a queue in a tree can use at most the smallest quota of itself and its
// ancestors. It may use any card exactly if none of them has a quota. A job that requests nothing always fits. Trees
// are random.
func TestTheSmallestLimitOnThePathCounts(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for queue := range h.tree {
			q := h.ledger.readQueue(queue)
			check.Must(t, h.ledger.FitsAlone(queue, nil, JobRequest{}, 1), "an empty request does not fit")
			for _, name := range treeNames {
				smallest := Unlimited
				for _, at := range h.naive.pathOf(queue) {
					smallest = min(smallest, h.naive.quotaOf(at, name))
				}

				if naiveIsCard(name) {
					check.Must(t, h.ledger.LimitsCards(queue) == (smallest != Unlimited), "the path of %s limits cards: %v", queue, h.ledger.LimitsCards(queue))
				}
				check.Must(t, q.limitOnPath(name) == smallest, "%s may use %d %s, want %d", queue, q.limitOnPath(name), name, smallest)
			}
		}
	})
}

// TestRecentlyBorrowedCardsStillCount: queues x and y deserve no cards, so each of their cards is borrowed. The queue
// that borrows less comes first. What a queue borrowed in the last half hour counts too: otherwise small jobs of one
// queue could always take the cards that are too few for the jobs of the other. Between equals the name decides.
func TestRecentlyBorrowedCardsStillCount(t *testing.T) {
	limits := Limits{Cards: card.Quota{"A": 2}, Deserved: Amounts{}}
	l := newTreeLedger(map[string]position{"x": {}, "y": {}}, map[string]Limits{"x": limits, "y": limits}, nil)
	const (
		xFirst = -1
		yFirst = 1
	)

	check.Equal(t, "order of equals", xFirst, l.CompareShares("x", "y"))
	l.Charge("pod", newCharge("x", "A", 1))
	check.Equal(t, "order while x borrows", yFirst, l.CompareShares("x", "y"))

	l.ObserveBorrowing(time.Minute)
	l.Release("pod")
	check.Equal(t, "order after x borrowed for a minute", yFirst, l.CompareShares("x", "y"))

	l.ObserveBorrowing(29 * time.Minute)
	check.Equal(t, "order when x has not borrowed for 29 minutes", yFirst, l.CompareShares("x", "y"))
	l.ObserveBorrowing(30 * time.Minute)
	check.Equal(t, "order after half an hour more", xFirst, l.CompareShares("x", "y"))
}

// TestAnAncestorComesFirst: a parent can still have pods of its own, from before it became a parent. So it is also
// compared with its children, and comes before them.
func TestAnAncestorComesFirst(t *testing.T) {
	limits := Limits{Cards: card.Quota{"A": 2}, Deserved: Amounts{"A": 2}}
	positions := map[string]position{"parent": {}, "x": {parent: "parent"}, "y": {parent: "parent"}}
	l := newTreeLedger(positions, map[string]Limits{"parent": limits, "x": limits, "y": limits}, nil)

	names := []string{"y", "x", "parent"}
	slices.SortFunc(names, l.CompareShares)
	check.Equal(t, "order", []string{"parent", "x", "y"}, names)
	check.Equal(t, "parent compared with itself", 0, l.CompareShares("parent", "parent"))
}
