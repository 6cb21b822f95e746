package quota

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// This file counts the pods of a tree once more, as plainly as possible: every number is computed from
// scratch, from the amounts in force. The properties compare the ledger with it. test/observer/rule has
// the rules of the amounts in force, and test/observer/differential compares ResolveTree with these.

// naiveIsCard reports whether a name is that of a card, and not CPU or memory.
func naiveIsCard(name Resource) bool { return name != CPU && name != Memory }

// naivePath returns the written path of a queue up to root, and what is wrong with it.
func naivePath(queues map[string]TreeQueue, name string) (path []string, wrong FaultKind) {
	for at := name; at != ""; at = queues[at].Parent {
		if _, exists := queues[at]; !exists {
			return path, ParentNotFound
		}
		if slices.Contains(path, at) {
			return path, ParentCycle
		}
		path = append(path, at)
	}

	if len(path) > 6 {
		return path, TooDeep
	}

	return path, NoFault
}

// naiveFault returns why a queue takes no new work.
func naiveFault(queues map[string]TreeQueue, name string) FaultKind {
	path, wrong := naivePath(queues, name)
	if wrong != NoFault {
		return wrong
	}

	for _, at := range path {
		if queues[at].IsHeld {
			return IsHeld
		}
	}

	for _, q := range queues {
		if q.Parent == name {
			return IsParent
		}
	}

	if queues[name].IsParentOnly {
		return IsParent
	}

	return NoFault
}

// naiveChildren returns the children of a queue that have a path to root, sorted.
func naiveChildren(queues map[string]TreeQueue, parent string) (children []string) {
	for name, q := range queues {
		if _, wrong := naivePath(queues, name); q.Parent == parent && wrong == NoFault {
			children = append(children, name)
		}
	}
	slices.Sort(children)
	return children
}

// naiveHasShare reports whether a queue or one below it writes what it deserves, or a guarantee.
func naiveHasShare(queues map[string]TreeQueue, name string, key Resource) bool {
	for at, q := range queues {
		path, wrong := naivePath(queues, at)
		isBelow := wrong == NoFault && slices.Contains(path, name)
		_, deserves := q.Deserved[key]
		if (deserves || q.Guarantee[key] > 0) && (at == name || isBelow) {
			return true
		}
	}
	return false
}

// naivePod is what one pod uses, keeps while it terminates, or waits for.
type naivePod struct {
	queue                         string
	amounts                       map[Resource]int64
	isUnreclaimable, isOff, isEnd bool
	// isNotOffered is set if the node of the pod does not offer its cards.
	isNotOffered bool
}

// naiveLedger counts the pods of a tree.
type naiveLedger struct {
	parent    map[string]string // of every queue, "" under root
	limits    map[string]Limits
	pods      map[string]naivePod
	kept      map[string]naivePod
	stopped   map[string]map[Resource]bool
	inventory map[Resource]int64
}

// path returns the queue and its ancestors.
func (n *naiveLedger) path(queue string) (path []string) {
	for at := queue; at != ""; at = n.parent[at] {
		path = append(path, at)
	}
	return path
}

// sum adds the amounts of those pods of a queue and everything below it that are counted, of all
// queues for "".
func (n *naiveLedger) sum(queue string, name Resource, pods map[string]naivePod, counts func(naivePod) bool) (sum int64) {
	for _, p := range pods {
		if counts(p) && (queue == "" || slices.Contains(n.path(p.queue), queue)) {
			sum += p.amounts[name]
		}
	}
	return sum
}

func (n *naiveLedger) used(queue string, name Resource) int64 {
	return n.sum(queue, name, n.pods, func(p naivePod) bool {
		isOff := p.isOff || (p.isNotOffered && naiveIsCard(name))
		return !p.isEnd && (queue != "" || !isOff)
	})
}

func (n *naiveLedger) terminating(queue string, name Resource) int64 {
	return n.sum(queue, name, n.pods, func(p naivePod) bool { return p.isEnd })
}

func (n *naiveLedger) unreclaimable(queue string, name Resource) int64 {
	return n.sum(queue, name, n.pods, func(p naivePod) bool { return p.isUnreclaimable && !p.isEnd })
}

// keptForOthers is what is kept in a queue for pods of other queues than leaf.
func (n *naiveLedger) keptForOthers(queue, leaf string, name Resource) int64 {
	return n.sum(queue, name, n.kept, func(p naivePod) bool { return p.queue != leaf })
}

// keptAgainst is what is kept in a queue for pods to which one more pod must leave it: those of
// other queues, and of its own queue if that borrows with it.
func (n *naiveLedger) keptAgainst(after *naiveLedger, queue string, name Resource, more naivePod) int64 {
	leaf := more.queue
	borrows := naiveIsCard(name) && !n.deservesAnyAmount(leaf, name) && after.used(leaf, name) > n.deserved(leaf, name)
	return n.sum(queue, name, n.kept, func(p naivePod) bool { return p.queue != leaf || borrows })
}

// unused is the unused guarantee of a queue and everything below it.
func (n *naiveLedger) unused(queue string, name Resource) int64 {
	if n.limits[queue].IsHeld {
		return 0
	}
	return max(n.unusedBelow(queue, name), n.limits[queue].Guarantee[name]-n.used(queue, name), 0)
}

func (n *naiveLedger) unusedBelow(queue string, name Resource) (sum int64) {
	for child, parent := range n.parent {
		if parent == queue {
			sum += n.unused(child, name)
		}
	}
	return sum
}

// limit returns the quota of a name, and false if the queue does not limit it.
func (n *naiveLedger) limit(queue string, name Resource) (int64, bool) {
	l := n.limits[queue]
	switch {
	case queue == "":
		return n.inventory[name], n.inventory[name] != Unlimited
	case name == CPU:
		return l.MilliCPU, l.MilliCPU != Unlimited
	case name == Memory:
		return l.Memory, l.Memory != Unlimited
	}
	return int64(l.Cards[name.Card()]), !l.AnyCard
}

// deservesAnyAmount reports whether a queue deserves any amount of a name.
func (n *naiveLedger) deservesAnyAmount(queue string, name Resource) bool {
	if name == CPU || name == Memory {
		return n.deserved(queue, name) == Unlimited
	}
	return n.limits[queue].AnyCard
}

func (n *naiveLedger) deserved(queue string, name Resource) int64 {
	if l := n.limits[queue]; l.Deserved != nil {
		if deserved, isWritten := l.Deserved[name]; isWritten || (name != CPU && name != Memory) {
			return deserved
		}
		return l.Quota(name)
	}
	limit, _ := n.limit(queue, name)
	return limit
}

// with returns the ledger with one more pod.
func (n *naiveLedger) with(p naivePod) *naiveLedger {
	after := *n
	after.pods = maps.Clone(n.pods)
	after.pods["one more"] = p
	return &after
}

// refusal returns why a queue may not use so many more of a name, "" if it may.
func (n *naiveLedger) refusal(queue string, name Resource, count int64, isUnreclaimable bool) string {
	more := naivePod{queue: queue, amounts: map[Resource]int64{name: count}, isUnreclaimable: isUnreclaimable}
	after := n.with(more)
	for _, at := range append(n.path(queue), "") {
		if why := cmp.Or(n.refusalOfLimits(after, at, name, more), n.refusalForOthers(after, at, name, more)); why != "" {
			return why
		}
	}
	return ""
}

// refusalOfLimits returns which limit of one queue refuses one more pod. Root has none.
func (n *naiveLedger) refusalOfLimits(after *naiveLedger, at string, name Resource, more naivePod) string {
	limit, isLimited := n.limit(at, name)
	switch {
	case at == "":
		return ""
	case isLimited && after.used(at, name)+n.keptAgainst(after, at, name, more) > limit:
		return "quota of " + at
	case n.terminatesOverQuota(at, name):
		return "terminating in " + at
	case more.isUnreclaimable && !n.deservesAnyAmount(at, name) && after.unreclaimable(at, name) > n.deserved(at, name):
		return "not reclaimable in " + at
	}

	return ""
}

// refusalForOthers returns why one queue, or root, keeps what one more pod asks for others.
func (n *naiveLedger) refusalForOthers(after *naiveLedger, at string, name Resource, more naivePod) string {
	limit, isLimited := n.limit(at, name)
	used := after.used(at, name)
	kept := n.keptAgainst(after, at, name, more)
	others := after.unusedBelow(at, name)
	isStopped := n.stopped[at][name] && !n.deservesAnyAmount(at, name) && used > n.deserved(at, name)
	borrows := n.deservesAnyAmount(more.queue, name) || after.used(more.queue, name) > n.deserved(more.queue, name)

	switch {
	case isStopped && borrows:
		return "recently reclaimed from " + at
	case isLimited && others > 0 && used+kept+others > limit && others+more.amounts[name] > n.unusedBelow(at, name):
		return "guaranteed in " + at
	}
	return ""
}

// terminatesOverQuota reports whether cards of terminating pods alone exceed the quota of a queue.
func (n *naiveLedger) terminatesOverQuota(queue string, name Resource) bool {
	limit, isLimited := n.limit(queue, name)
	return isLimited && naiveIsCard(name) && n.terminating(queue, name) > limit
}

// charge returns the pod as the ledger takes it.
func (p naivePod) charge() *Charge {
	c := &Charge{Queue: p.queue, MilliCPU: p.amounts[CPU], Memory: p.amounts[Memory], IsUnreclaimable: p.isUnreclaimable, IsOffInventory: p.isOff}
	for _, name := range slices.Sorted(maps.Keys(p.amounts)) {
		if name != CPU && name != Memory && p.amounts[name] > 0 {
			c.Cards = append(c.Cards, card.Amount{Name: name.Card(), Count: card.Count(p.amounts[name])})
		}
	}
	if p.isNotOffered {
		c.NotOffered = c.Cards
	}
	return c
}

// huge reports whether an amount stands for no limit.
func huge(amount int64) bool { return amount > math.MaxInt64/2 }
