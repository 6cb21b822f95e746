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

// naiveLevel counts the steps from a queue up to the lowest ancestor that both have.
func (n *naiveLedger) naiveLevel(queue, other string) int {
	path, otherPath := n.path(queue), n.path(other)
	for steps, at := range path {
		if slices.Contains(otherPath, at) {
			return max(1, steps)
		}
	}
	return len(path)
}

// TestPathsAndLevels compares paths and levels with those of the written tree.
func TestPathsAndLevels(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for queue := range h.tree {
			check.Equal(t, "path", h.naive.path(queue), h.ledger.Path(queue))
			for other := range h.tree {
				check.Must(t, h.ledger.Level(queue, other) == h.naive.naiveLevel(queue, other), "level %d from %s to %s, want %d", h.ledger.Level(queue, other), queue, other, h.naive.naiveLevel(queue, other))
			}
		}
	})
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

func (h *treeTest) orderOf(queue string) naiveOrder {
	position, limits := h.ledger.positions[queue], h.naive.limits[queue]
	o := naiveOrder{created: position.Created, name: queue, weight: max(1, float64(position.Weight))}
	dominant, most, deservesCards := 0.0, 0.0, false
	o.usesNoCard = limits.AnyCard || len(limits.Cards) == 0
	for _, name := range treeNames {
		isCard := name != CPUName && name != MemoryName
		if h.naive.deservesAny(queue, name) || isCard && o.usesNoCard {
			continue
		}
		used, deserved := float64(h.naive.used(queue, name)), float64(h.naive.deserved(queue, name))
		deservesCards = deservesCards || isCard && deserved > 0
		switch {
		case deserved > 0:
			dominant = max(dominant, used/deserved)
		case used > 0:
			dominant = math.Inf(1)
		}
		if isCard {
			most = max(most, (used-deserved)/o.weight)
		} else if name == CPUName && o.usesNoCard {
			o.part = (used - deserved) / 1000 / o.weight
		}
	}
	if !o.usesNoCard {
		o.part = most
	}
	if o.isAbove = dominant >= 1 || !o.usesNoCard && !deservesCards; !o.isAbove {
		o.part = dominant
	}
	return o
}

// naiveCompare compares two queues by the siblings below their lowest common ancestor.
func (h *treeTest) naiveCompare(left, right string) int {
	a, b := h.naive.path(left), h.naive.path(right)
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	x, y := h.orderOf(a[len(a)-1]), h.orderOf(b[len(b)-1])
	if x.isAbove != y.isAbove {
		return map[bool]int{true: 1, false: -1}[x.isAbove]
	}
	return cmp.Or(cmp.Compare(x.part, y.part), x.created.Compare(y.created), cmp.Compare(x.name, y.name))
}

// TestCompareSharesOrdersAllQueues: the order is that of the documents, and a total one.
func TestCompareSharesOrdersAllQueues(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
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

func TestPathLimitsAreTheSmallestOnThePath(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for queue := range h.tree {
			got := h.ledger.PathLimits(queue)
			check.Must(t, h.ledger.FitsAlone(queue, nil, JobRequest{}, 1), "nothing does not fit")
			for _, name := range treeNames {
				smallest, isLimited := Unlimited, false
				for _, at := range h.naive.path(queue) {
					if limit, limits := h.naive.limit(at, name); limits {
						smallest, isLimited = min(smallest, limit), true
					}
				}
				isCard := name != CPUName && name != MemoryName
				switch {
				case isCard && !isLimited:
					check.Must(t, got.AnyCard, "%s is limited", queue)
				default:
					check.Must(t, got.quota(name) == smallest && (!isCard || !got.AnyCard), "%s may use %d %s, want %d", queue, got.quota(name), name, smallest)
				}
			}
		}
	})
}

// An inner node may still hold pods, and is compared with what is below it.
func TestAnAncestorComesFirst(t *testing.T) {
	l := New(0)
	l.SetTree(map[string]Position{"p": {}, "x": {Parent: "p"}, "y": {Parent: "p"}})
	for _, name := range []string{"p", "x", "y"} {
		l.SetLimits(name, Limits{Cards: card.Quota{"A": 2}, Deserved: Shares{"A": 2}})
	}
	check.That(t, l.CompareShares("p", "x") < 0 && l.CompareShares("y", "p") > 0 && l.CompareShares("p", "p") == 0 && l.CompareShares("x", "y") < 0, "no order")
}
