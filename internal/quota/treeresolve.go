package quota

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
)

// ResolveTree returns the amounts that count for each queue of a tree.
//
// The guarantee is at most what is deserved, and that at most the quota. A child deserves at
// most what its parent does. Children that deserve more together are scaled down in
// proportion, and so are their guarantees. CPU and memory are not scaled, and several children may have them in
// full, where neither the queue nor one below it writes what it deserves or its guarantee. Directly under root
// the sums are not limited. A queue without a path to root takes no new work, and neither does its
// subtree. No other queue is affected.
func ResolveTree(queues map[string]TreeQueue) *Tree {
	t := treeResolver{}
	return t.resolveTree(queues)
}

// ResolveWritten returns a tree by which the amounts of each queue are judged as they are written. Unlike in
// ResolveTree, no amount is cut. So an excess shows once, and not below it again. A queue without a path to
// root is below its parent if that exists, unless the path has a cycle. What it inherits from a parent that
// does not exist is unknown, and judges nothing.
func ResolveWritten(queues map[string]TreeQueue) *Tree {
	t := treeResolver{isUncut: true}
	return t.resolveTree(queues)
}

// resolveTree finds the place and the faults of all queues, and then their amounts from the top down.
func (t *treeResolver) resolveTree(queues map[string]TreeQueue) *Tree {
	t.resolved = make(map[string]*Resolved, len(queues))
	for name, written := range queues {
		t.resolved[name] = &Resolved{Written: written}
	}

	var top []string

	// Sorted, so that scaling and messages do not change with the order of a map.
	for _, name := range slices.Sorted(maps.Keys(t.resolved)) {
		r := t.resolved[name]
		r.Fault = t.findFault(name)
		if t.isBelowParent(r) {
			r.Parent = r.Written.Parent
		}

		if r.Parent == "" { // directly below root, or without a path to it
			top = append(top, name)
		}
		// Whatever names a queue as its parent is a child, also without a path to root: the parent takes no
		// jobs then.
		if above := t.parent(r.Written.Parent); above != nil {
			above.Children = append(above.Children, name)
		}
	}

	// Jobs are only in leaves: what a job used in a queue with children would count against no child.
	for name, r := range t.resolved {
		if r.Fault.Kind == NoFault && (r.Written.IsParentOnly || len(r.Children) > 0) {
			r.Fault = Fault{Kind: IsParent, Queue: name}
		}
	}

	t.findGrantedCompute()
	t.resolveChildren("", top)
	return &Tree{queues: t.resolved}
}

type treeResolver struct {
	resolved map[string]*Resolved
	// isUncut reports whether amounts stay as they are written, see ResolveWritten.
	isUncut bool
	// grantsCompute says for each queue whether it, or a queue below it, writes what it deserves of
	// CPU or memory, or a guarantee.
	grantsCompute map[string]map[Resource]bool
}

// parent returns a queue as the parent of others, nil if it does not exist and for root.
func (t *treeResolver) parent(name string) *Resolved {
	if name == "" {
		return nil
	}
	return t.resolved[name]
}

// isBelowParent reports whether a queue whose fault is known is below the parent that it names.
func (t *treeResolver) isBelowParent(r *Resolved) bool {
	if t.isUncut {
		return r.Fault.Kind != ParentCycle && t.parent(r.Written.Parent) != nil
	}
	return !r.Fault.HasNoPath()
}

// findGrantedCompute sets grantsCompute, and WritesCompute of each queue. Of queues that grant none, CPU and memory
// are only limits, which several children may have in full.
func (t *treeResolver) findGrantedCompute() {
	t.grantsCompute = map[string]map[Resource]bool{}
	for name, r := range t.resolved {
		for _, key := range Compute {
			if r.Written.writesAmount(key) {
				t.markWritten(name, key)
			}
			if _, deserves := r.Written.Deserved[key]; !deserves && r.Written.Guarantee[key] == 0 {
				continue
			}

			// What a queue deserves is a part of what its parent does, so each ancestor divides its amount, too.
			for at := name; at != "" && !t.grantsCompute[at][key]; at = t.resolved[at].Parent {
				if t.grantsCompute[at] == nil {
					t.grantsCompute[at] = map[Resource]bool{}
				}
				t.grantsCompute[at][key] = true
			}
		}
	}
}

// markWritten sets WritesCompute of a queue and its ancestors.
func (t *treeResolver) markWritten(queue string, key Resource) {
	for at := t.parent(queue); at != nil && !at.WritesCompute[key]; at = t.parent(at.Parent) {
		if at.WritesCompute == nil {
			at.WritesCompute = map[Resource]bool{}
		}
		at.WritesCompute[key] = true
	}
}

// findFault walks the path of a queue up to root, and returns why the queue takes no new work because of it.
// It returns NoFault if every queue of the path exists, none is held and the path is not too long.
func (t *treeResolver) findFault(name string) (fault Fault) {
	// seen ends the walk in a cycle. Each queue has a walk of its own: a fault elsewhere in the tree must not
	// stop it.
	at := name
	seen := map[string]bool{}
	for {
		q := &t.resolved[at].Written
		seen[at] = true
		// The lowest held queue counts. The walk goes on, because a missing parent, a cycle or too long a
		// path is worse and is returned instead.
		if q.IsHeld && fault.Kind == NoFault {
			fault = Fault{Kind: IsHeld, Queue: at, HoldMessage: q.HoldMessage}
		}

		switch {
		case q.Parent == "" && len(seen) > MaxDepth:
			return Fault{Kind: TooDeep, Queue: name, Parent: t.resolved[name].Written.Parent}
		case q.Parent == "":
			return fault
		case t.resolved[q.Parent] == nil:
			return Fault{Kind: ParentNotFound, Queue: at, Parent: q.Parent}
		case seen[q.Parent]:
			return Fault{Kind: ParentCycle, Queue: at, Parent: q.Parent}
		}
		at = q.Parent
	}
}

// resolveChildren sets the amounts of the children of a queue, "" for those under root, and of
// everything below them.
func (t *treeResolver) resolveChildren(parent string, children []string) {
	amounts := make([]childAmounts, len(children))
	for i, name := range children {
		amounts[i] = t.ownAmounts(name, parent)
	}

	var pathAbove []string // nothing is above the children of root, so nothing scales them
	if above := t.parent(parent); above != nil {
		t.scaleChildren(parent, above.Limits, amounts)
		pathAbove = above.Path
	}

	for i, name := range children {
		r := t.resolved[name]
		c := &amounts[i]
		r.Path = append([]string{name}, pathAbove...)
		r.Limits = t.limitsFor(name, c)
		r.Excess = c.excess
		// Messages list an excess of the own amounts and one of scaling together, by resource.
		slices.SortStableFunc(r.Excess, func(a, b Excess) int { return cmp.Compare(a.Of, b.Of) })
		// Children has also those that name this queue but have no path to root. These inherit nothing here.
		t.resolveChildren(name, slices.DeleteFunc(slices.Clone(r.Children), func(child string) bool { return !t.isChild(child, name) }))
	}
}

// isChild reports whether the path of a queue leads through its parent.
func (t *treeResolver) isChild(queue, parent string) bool { return t.resolved[queue].Parent == parent }

// childAmounts are the amounts of one queue while the tree is resolved.
type childAmounts struct {
	queue                      string
	quota, deserved, guarantee Amounts
	excess                     []Excess
}

// ownAmounts returns the amounts of a queue before scaleChildren compares it with its siblings: what it
// writes, or inherits from its parent. A parent "" is root, below which CPU
// and memory are not limited, and no card is inherited. ownAmounts
// reports an excess for each amount that is too large. Unless isUncut, it reduces deserved to the quota, and
// the guarantee to deserved.
func (t *treeResolver) ownAmounts(name, parent string) childAmounts {
	r := t.resolved[name]
	c := childAmounts{queue: name, quota: Amounts{}, deserved: Amounts{}, guarantee: Amounts{}}
	above := t.parent(parent)
	for _, key := range r.Written.Resources() {
		inherited, inherits := t.inheritedQuota(&r.Written, above, key)
		limit := c.ownLimit(&r.Written, key, parent, inherited, inherits)
		deserved, guarantee := t.writtenAmounts(limit, r, key)

		// A wrong amount is reported and reduced. Refusing the whole queue would stop work that
		// is in order.
		if deserved > limit {
			c.report(Excess{Kind: DeservedAboveQuota, Of: key, Parent: parent, Written: deserved, Allowed: limit, Limit: limit})
		}

		inForce := min(deserved, limit)
		if guarantee > inForce {
			c.report(Excess{Kind: GuaranteeAboveDeserved, Of: key, Parent: parent, Written: guarantee, Allowed: inForce, Limit: inForce})
		}

		if !t.isUncut {
			deserved = inForce
			guarantee = min(guarantee, inForce)
		}

		t.setAmounts(&c, above, key, [3]int64{limit, deserved, guarantee})
	}

	// CPU and memory of which the queue writes nothing are inherited, and need nothing of the parent.
	for _, key := range Compute {
		if !r.Written.writesAmount(key) {
			limit, _ := t.inheritedQuota(&r.Written, above, key)
			deserved, guarantee := t.writtenAmounts(limit, r, key)
			t.setAmounts(&c, above, key, [3]int64{limit, deserved, guarantee})
		}
	}

	return c
}

// setAmounts sets the quota of a queue, what it deserves and its guarantee. CPU and memory for which neither the queue
// nor one below it writes what it deserves, or a guarantee, are only limits: siblings may have them in full. So are those
// of which the queue deserves any amount, because its parent, nil for root, does not divide any.
func (t *treeResolver) setAmounts(c *childAmounts, above *Resolved, key Resource, amounts [3]int64) {
	c.quota[key] = amounts[0]
	c.guarantee[key] = amounts[2]
	deservesAny := amounts[1] == Unlimited && (above == nil || above.Limits.deserved(key) == Unlimited)
	if key.IsCard() || (t.grantsCompute[c.queue][key] && !deservesAny) {
		c.deserved[key] = amounts[1]
	}
}

// inheritedQuota returns the quota that a queue inherits unless it writes one. At the top level no card is inherited, and
// CPU and memory are not limited. Without a path to root nothing is inherited. As far as amounts are judged as they are
// written, the quota of a parent that does not exist is unknown and limits nothing.
func (t *treeResolver) inheritedQuota(q *TreeQueue, above *Resolved, key Resource) (inherited int64, inherits bool) {
	switch {
	case above != nil:
		return above.Limits.Quota(key), true
	case q.Parent == "" && key.IsCard():
		return 0, false
	case q.Parent == "" || t.isUncut:
		return Unlimited, true
	}
	return 0, false
}

// writtenAmounts returns what a queue with a limit writes that it deserves, and its guarantee. Unwritten, it
// deserves the limit.
func (t *treeResolver) writtenAmounts(limit int64, r *Resolved, key Resource) (deserved, guarantee int64) {
	deserved, isWritten := r.Written.Deserved[key]
	guarantee = r.Written.Guarantee[key]
	isUnknown := t.isUncut && (r.Fault.Kind == ParentNotFound || r.Fault.Kind == ParentCycle)
	switch _, hasQuota := r.Written.Quota[key]; {
	case isUnknown && !hasQuota && limit == Unlimited: // what the parent would allow is unknown, so nothing is too much
		return limit, limit
	case !isWritten:
		return limit, guarantee
	}

	return deserved, guarantee
}

// ownLimit returns the quota of a name, which is written or inherited, and reports what the
// parent does not allow. A written quota above the parent's stays, because the ledger checks both. A written 0
// needs nothing of the parent.
func (c *childAmounts) ownLimit(q *TreeQueue, key Resource, parent string, inherited int64, hasParent bool) int64 {
	limit, isWritten := q.Quota[key]
	switch {
	case !hasParent && !isWritten:
		c.report(Excess{Kind: NothingToInherit, Of: key, Parent: parent})
	case !hasParent: // no parent limits it
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

// report adds an excess to those of the queue.
func (c *childAmounts) report(e Excess) { c.excess = append(c.excess, e) }

// scaleChildren scales down what the children of a queue deserve, and then their guarantees, until they add
// up to what the queue deserves and is guaranteed. above are its limits. With isUncut it only reports what is
// too much.
func (t *treeResolver) scaleChildren(parent string, above Limits, children []childAmounts) {
	all := Amounts{} // only its keys count: every resource that a child has a quota for
	for i := range children {
		maps.Copy(all, children[i].quota)
	}

	for _, name := range all.Sorted() {
		if !above.AnyCard || !name.IsCard() { // a parent without a quota for cards has no number to divide
			t.scaleAmounts(children, func(c *childAmounts) Amounts { return c.deserved },
				Excess{Kind: DeservedAboveParent, Of: name, Parent: parent, Limit: above.deserved(name)})
		}

		for i := range children {
			// A guarantee is a part of deserved, which may be smaller now. CPU and memory without an entry
			// are not divided.
			if deserved, isLimited := children[i].deserved[name]; isLimited && !t.isUncut {
				children[i].guarantee[name] = min(children[i].guarantee[name], deserved)
			}
		}

		t.scaleAmounts(children, func(c *childAmounts) Amounts { return c.guarantee },
			Excess{Kind: GuaranteeAboveParent, Of: name, Parent: parent, Limit: above.Guarantee[name]})
	}
}

// scaleAmounts scales one kind of amounts of the children down until they add up to the limit of the excess.
// It reports the excess, which has its kind, resource and parent, for each child that gets less.
func (t *treeResolver) scaleAmounts(children []childAmounts, amountsOf func(*childAmounts) Amounts, excess Excess) {
	values := make([]int64, len(children)) // 0 for a child that does not write the amount
	for i := range children {
		values[i] = amountsOf(&children[i])[excess.Of]
	}

	scaled, sum := scaleToLimit(values, excess.Limit)
	if slices.Equal(scaled, values) {
		return
	}

	excess.Sum = sum
	excess.Parts = partsOf(children, values)
	for i := range children {
		if scaled[i] == values[i] {
			continue
		}

		excess.Written = values[i]
		excess.Allowed = scaled[i]
		children[i].report(excess)
		if !t.isUncut {
			amountsOf(&children[i])[excess.Of] = scaled[i]
		}
	}
}

// partsOf returns the values above 0 with the children that have them.
func partsOf(children []childAmounts, values []int64) []Part {
	var parts []Part
	for i, value := range values {
		if value > 0 {
			parts = append(parts, Part{children[i].queue, value})
		}
	}
	return parts
}

// scaleToLimit cuts each value to the limit, and then scales all of them down in proportion until they add up
// to at most the limit. Of the units that rounding down leaves, one each goes to the values with the largest
// remainders, and to the first of equals. It also returns the sum of the given values, at most Unlimited.
func scaleToLimit(values []int64, limit int64) (scaled []int64, sum int64) {
	scaled = slices.Clone(values)
	var total int64
	for i, value := range values {
		sum = AddSaturating(sum, value)
		// One absurd value must not shrink the others to nothing, so no value counts above the
		// limit.
		scaled[i] = min(value, limit)
		total = AddSaturating(total, scaled[i])
	}

	if limit == Unlimited || total <= limit {
		return scaled, sum
	}

	// A value times the limit, both in bytes, does not fit into 64 bits, and floating point would lose single
	// cards. whole is the exact total, left the part of the limit that no value has yet.
	whole := new(big.Int)
	remainders := make([]*big.Int, len(scaled))
	left := limit

	for _, value := range scaled {
		whole.Add(whole, big.NewInt(value))
	}

	order := make([]int, len(scaled))
	for i, value := range scaled {
		part, remainder := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(value), big.NewInt(limit)), whole, new(big.Int))
		scaled[i] = part.Int64()
		remainders[i] = remainder
		order[i] = i
		left -= scaled[i]
	}

	// Cards are whole. Rounding down alone would leave some that no child deserves.
	slices.SortStableFunc(order, func(a, b int) int { return remainders[b].Cmp(remainders[a]) })
	for _, i := range order[:min(int64(len(order)), left)] {
		scaled[i]++
	}

	return scaled, sum
}

// limitsFor returns the amounts of a queue as the ledger reads them. A queue that can start nothing because of its
// place in the tree keeps no unused guarantee, as a held one, so the ledger treats it as held.
func (t *treeResolver) limitsFor(name string, c *childAmounts) Limits {
	limits := Limits{
		Cards: c.quota.Cards(), AnyCard: t.resolved[name].Written.AnyCard,
		MilliCPU: c.quota[CPU], Memory: c.quota[Memory],
		Deserved: c.deserved, Guarantee: Amounts{}, IsHeld: t.isGuaranteeUseless(name),
	}

	for key, amount := range c.guarantee {
		if amount > 0 {
			limits.Guarantee[key] = amount
		}
	}

	return limits
}

// isGuaranteeUseless reports whether what a queue is guaranteed and does not use is left to others: neither it nor a
// queue below it takes work. Children also has queues that are no part of the tree, such as those of a cycle.
func (t *treeResolver) isGuaranteeUseless(name string) bool {
	r := t.resolved[name]
	isChild := func(child string) bool { return t.isChild(child, name) }
	takesNoWork := r.Written.IsParentOnly || r.Written.IsClosed
	return r.Fault.closesSubtree() || (takesNoWork && !slices.ContainsFunc(r.Children, isChild))
}
