package quota

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
)

// MaxDepth is how many queues a path below root may have.
const MaxDepth = 6

// TreeQueue is one queue of a tree as it is written.
type TreeQueue struct {
	// Parent is the name of the parent queue, "" directly under root.
	Parent string
	// Quota, Deserved and Guarantee are the written amounts. A name in Deserved or Guarantee
	// that Quota lacks inherits the parent's quota. A name that Deserved lacks deserves its
	// quota.
	Quota, Deserved, Guarantee Amounts
	// AnyCard lifts the card limits, see Limits.
	AnyCard bool
	// IsHeld reports whether the queue's stop policy holds its subtree.
	IsHeld bool
	// HoldMessage says why it is held, "" if a user's stop policy does.
	HoldMessage string
	// IsParentOnly reports whether the queue takes no work even without children.
	IsParentOnly bool
	// IsClosed reports whether the queue itself takes no work for another reason.
	IsClosed bool
}

// FaultKind is why a queue takes no new work.
type FaultKind int

// The kinds of faults. All but IsParent and IsHeld are errors.
const (
	NoFault FaultKind = iota
	// ParentNotFound: a queue of the path names a parent that does not exist.
	ParentNotFound
	// ParentCycle: the path leads back to one of its queues.
	ParentCycle
	// TooDeep: the path has more than MaxDepth queues.
	TooDeep
	// IsParent: the queue has children, or is for them only. Only leaves take work.
	IsParent
	// IsHeld: the stop policy of the queue or an ancestor holds it.
	IsHeld
)

// Fault is why a queue takes no new work.
type Fault struct {
	Kind FaultKind
	// Queue is the queue of the path that has the fault, Parent the parent that it names.
	Queue, Parent string
	// HoldMessage is that of the queue if it is held.
	HoldMessage string
}

// closesSubtree reports whether the fault closes the queue and everything below it. Then an unused
// guarantee would withhold cards that no queue can get.
func (f Fault) closesSubtree() bool { return f.Kind != NoFault && f.Kind != IsParent }

// ExcessKind is which rule a written amount breaks.
type ExcessKind int

// The kinds of excess.
const (
	// NothingToInherit: an entry without a quota directly under root.
	NothingToInherit ExcessKind = iota
	// NotInParent: the parent has no quota of this name.
	NotInParent
	// QuotaAboveParent: the quota is above the parent's. Both limits apply.
	QuotaAboveParent
	// DeservedAboveQuota and GuaranteeAboveDeserved: the larger amount is cut.
	DeservedAboveQuota
	GuaranteeAboveDeserved
	// DeservedAboveParent and GuaranteeAboveParent: the children's sum is above the parent's
	// amount, and each child's part is scaled down.
	DeservedAboveParent
	GuaranteeAboveParent
)

// Excess is one amount that its parent, or another amount of the queue, does not allow.
type Excess struct {
	Kind   ExcessKind
	Of     Resource
	Parent string
	// Written is the queue's amount, Allowed what counts instead.
	Written, Allowed int64
	// Sum is what all children of the parent have, Limit the parent's amount or the amount of
	// the queue that is exceeded.
	Sum, Limit int64
}

// Resolved is one queue of a tree with the amounts that count.
type Resolved struct {
	// Parent is the parent in the tree, "" directly under root and for a queue without a
	// path to root.
	Parent string
	// Limits are the amounts that count.
	Limits Limits
	// Fault is why the queue takes no new work.
	Fault Fault
	// Excess lists the written amounts that do not count, by name.
	Excess []Excess
}

// ResolveTree returns the amounts that count for each queue of a tree.
//
// The guarantee is at most what is deserved, and that at most the quota. A child deserves at
// most what its parent does. Children that deserve more together are scaled down in
// proportion, and so are their guarantees. CPU and memory are ceilings only, and not scaled, where
// neither the queue nor one below it writes what it deserves or its guarantee. Directly under root
// the sums are not limited. A queue without a path to root takes no new work, and neither does its
// subtree. No other queue is affected.
func ResolveTree(queues map[string]TreeQueue) map[string]Resolved {
	t := treeResolver{written: queues, resolved: make(map[string]Resolved, len(queues)), children: map[string][]string{}}
	for name := range queues {
		fault, isRooted := t.findFault(name)
		r := Resolved{Fault: fault}
		if isRooted {
			r.Parent = queues[name].Parent
		}

		t.resolved[name] = r
		if queues[name].Parent != "" {
			t.children[queues[name].Parent] = append(t.children[queues[name].Parent], name)
		} else {
			t.top = append(t.top, name)
		}

		if !isRooted {
			t.top = append(t.top, name)
		}
	}

	for name, r := range t.resolved {
		if r.Fault.Kind == NoFault && (queues[name].IsParentOnly || len(t.children[name]) > 0) {
			r.Fault = Fault{Kind: IsParent, Queue: name}
			t.resolved[name] = r
		}
	}

	t.findGrantedCompute()
	slices.Sort(t.top)
	t.resolveChildren("", slices.Compact(t.top))

	return t.resolved
}

type treeResolver struct {
	written  map[string]TreeQueue
	resolved map[string]Resolved
	children map[string][]string
	// top are the queues directly under root, and those without a path to root.
	top []string
	// grantsCompute says for each queue whether it, or a queue below it, writes what it deserves of
	// CPU or memory, or a guarantee.
	grantsCompute map[string]map[Resource]bool
}

// findGrantedCompute finds the queues whose CPU or memory is more than a ceiling.
func (t *treeResolver) findGrantedCompute() {
	t.grantsCompute = map[string]map[Resource]bool{}
	for name, q := range t.written {
		for _, key := range Compute {
			if _, deserves := q.Deserved[key]; !deserves && q.Guarantee[key] == 0 {
				continue
			}

			for at := name; at != "" && !t.grantsCompute[at][key]; at = t.resolved[at].Parent {
				if t.grantsCompute[at] == nil {
					t.grantsCompute[at] = map[Resource]bool{}
				}
				t.grantsCompute[at][key] = true
			}
		}
	}
}

// findFault returns why a queue takes no new work because of its path, and whether the path
// leads to root.
func (t *treeResolver) findFault(name string) (fault Fault, isRooted bool) {
	at := name
	seen := map[string]bool{}
	for {
		q := t.written[at]
		seen[at] = true
		if q.IsHeld && fault.Kind == NoFault {
			fault = Fault{Kind: IsHeld, Queue: at, HoldMessage: q.HoldMessage}
		}

		if q.Parent == "" {
			break
		}
		if _, exists := t.written[q.Parent]; !exists {
			return Fault{Kind: ParentNotFound, Queue: at, Parent: q.Parent}, false
		}
		if seen[q.Parent] {
			return Fault{Kind: ParentCycle, Queue: at, Parent: q.Parent}, false
		}
		at = q.Parent
	}

	if len(seen) > MaxDepth {
		return Fault{Kind: TooDeep, Queue: name, Parent: t.written[name].Parent}, false
	}

	return fault, true
}

// resolveChildren sets the amounts of the children of a queue, "" for those under root, and of
// everything below them.
func (t *treeResolver) resolveChildren(parent string, children []string) {
	amounts := make([]childAmounts, len(children))
	for i, name := range children {
		amounts[i] = t.ownAmounts(name, parent)
	}

	if above, exists := t.resolved[parent]; exists {
		scaleChildren(parent, above.Limits, amounts)
	}

	for i, name := range children {
		r := t.resolved[name]
		c := &amounts[i]
		r.Limits = t.limitsFor(name, c)
		r.Excess = c.excess
		slices.SortStableFunc(r.Excess, func(a, b Excess) int { return cmp.Compare(a.Of, b.Of) })
		t.resolved[name] = r
		below := slices.DeleteFunc(slices.Clone(t.children[name]), func(child string) bool { return t.resolved[child].Parent != name })
		slices.Sort(below)
		t.resolveChildren(name, below)
	}
}

// childAmounts are the amounts of one queue while the tree is resolved.
type childAmounts struct {
	quota, deserved, guarantee Amounts
	excess                     []Excess
}

// ownAmounts returns the amounts of a queue as far as its parent's quota decides them.
func (t *treeResolver) ownAmounts(name, parent string) childAmounts {
	q := t.written[name]
	c := childAmounts{quota: Amounts{}, deserved: Amounts{}, guarantee: Amounts{}}
	above, hasParent := t.resolved[parent]
	for _, key := range q.Resources() {
		limit := c.ownLimit(&q, key, parent, above.Limits.Quota(key), hasParent)
		deserved, deservesLess := q.Deserved[key]
		if !deservesLess {
			deserved = limit
		}

		if deserved > limit {
			c.report(Excess{Kind: DeservedAboveQuota, Of: key, Parent: parent, Written: deserved, Allowed: limit, Limit: limit})
		}

		deserved = min(deserved, limit)
		if q.Guarantee[key] > deserved {
			c.report(Excess{Kind: GuaranteeAboveDeserved, Of: key, Parent: parent, Written: q.Guarantee[key], Allowed: deserved, Limit: deserved})
		}

		c.quota[key] = limit
		c.guarantee[key] = min(q.Guarantee[key], deserved)
		if key.IsCard() || t.grantsCompute[name][key] {
			c.deserved[key] = deserved
		}
	}

	return c
}

// ownLimit returns the quota of a name, which is written or inherited, and reports what the
// parent does not allow.
func (c *childAmounts) ownLimit(q *TreeQueue, key Resource, parent string, inherited int64, hasParent bool) int64 {
	limit, isWritten := q.Quota[key]
	switch {
	case !hasParent && !isWritten:
		c.report(Excess{Kind: NothingToInherit, Of: key, Parent: parent})
	case !hasParent:
	case inherited == 0 && (limit > 0 || !isWritten):
		c.report(Excess{Kind: NotInParent, Of: key, Parent: parent, Written: limit})
	case limit > inherited:
		c.report(Excess{Kind: QuotaAboveParent, Of: key, Parent: parent, Written: limit, Allowed: inherited, Limit: inherited})
	}

	if !isWritten && hasParent {
		return inherited
	}

	return limit
}

func (c *childAmounts) report(e Excess) { c.excess = append(c.excess, e) }

// Resources returns every resource of the queue's entries, sorted.
func (q *TreeQueue) Resources() []Resource {
	all := Amounts{}
	for _, amounts := range []Amounts{q.Quota, q.Deserved, q.Guarantee} {
		maps.Copy(all, amounts)
	}
	return all.Sorted()
}

// scaleChildren cuts what the children of a queue deserve, and then their guarantees, to what
// the queue has.
func scaleChildren(parent string, above Limits, children []childAmounts) {
	all := Amounts{}
	for i := range children {
		maps.Copy(all, children[i].quota)
	}

	for _, name := range all.Sorted() {
		scale := func(kind ExcessKind, limit int64, amountsOf func(*childAmounts) Amounts) {
			values := make([]int64, len(children)) // 0 for a child that does not write the amount
			for i := range children {
				values[i] = amountsOf(&children[i])[name]
			}

			scaled, sum := scaleToLimit(values, limit)
			for i := range children {
				if scaled[i] == values[i] {
					continue
				}
				children[i].report(Excess{Kind: kind, Of: name, Parent: parent, Written: values[i], Allowed: scaled[i], Sum: sum, Limit: limit})
				amountsOf(&children[i])[name] = scaled[i]
			}
		}
		if !above.AnyCard || !name.IsCard() {
			scale(DeservedAboveParent, above.deserved(name), func(c *childAmounts) Amounts { return c.deserved })
		}

		for i := range children {
			if deserved, isLimited := children[i].deserved[name]; isLimited {
				children[i].guarantee[name] = min(children[i].guarantee[name], deserved)
			}
		}

		scale(GuaranteeAboveParent, above.Guarantee[name], func(c *childAmounts) Amounts { return c.guarantee })
	}
}

// scaleToLimit cuts each value to the limit, and then scales all of them down in proportion
// until they add up to it. Whole units go to the largest remainders, and to the first of
// equals. It also returns the sum of the values, at most Unlimited.
func scaleToLimit(values []int64, limit int64) (scaled []int64, sum int64) {
	scaled = slices.Clone(values)
	var total int64
	for i, value := range values {
		sum = AddSaturating(sum, value)
		scaled[i] = min(value, limit)
		total = AddSaturating(total, scaled[i])
	}

	if limit == Unlimited || total <= limit {
		return scaled, sum
	}

	whole := new(big.Int)
	parts := make([]*big.Int, len(scaled))
	left := limit

	for _, value := range scaled {
		whole.Add(whole, big.NewInt(value))
	}

	order := make([]int, len(scaled))
	for i, value := range scaled {
		part, rest := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(value), big.NewInt(limit)), whole, new(big.Int))
		scaled[i] = part.Int64()
		parts[i] = rest
		order[i] = i
		left -= scaled[i]
	}

	slices.SortStableFunc(order, func(a, b int) int { return parts[b].Cmp(parts[a]) })
	for _, i := range order[:min(int64(len(order)), left)] {
		scaled[i]++
	}

	return scaled, sum
}

// limitsFor returns the amounts of a queue as limits.
func (t *treeResolver) limitsFor(name string, c *childAmounts) Limits {
	limits := Limits{
		Cards: c.quota.Cards(), AnyCard: t.written[name].AnyCard,
		MilliCPU: c.quota[CPU], Memory: c.quota[Memory],
		Deserved: c.deserved, Guarantee: Amounts{}, IsHeld: t.keepsNoGuarantee(name),
	}

	for key, amount := range c.guarantee {
		if amount > 0 {
			limits.Guarantee[key] = amount
		}
	}

	return limits
}

// keepsNoGuarantee reports whether no queue can get what a queue is guaranteed and does not use.
func (t *treeResolver) keepsNoGuarantee(name string) bool {
	isChild := func(child string) bool { return t.resolved[child].Parent == name }
	q := t.written[name]
	return t.resolved[name].Fault.closesSubtree() || ((q.IsParentOnly || q.IsClosed) && !slices.ContainsFunc(t.children[name], isChild))
}
