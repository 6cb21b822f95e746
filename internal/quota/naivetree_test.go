package quota

import (
	"maps"
	"math"
	"slices"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/queuetree"
)

// This file hands the pods of a tree to package queuetree, which sums every number up from scratch, from the amounts in
// force. test/observer/rule has the rules of the amounts in force, and test/observer/differential compares ResolveTree
// with these.

// naiveIsCard reports whether a name is that of a card, and not CPU or memory.
func naiveIsCard(name Resource) bool { return name != CPU && name != Memory }

// writtenParents returns the parents that queues write.
func writtenParents(queues map[string]TreeQueue) queuetree.Parents {
	parents := queuetree.Parents{}
	for name, q := range queues {
		parents[name] = q.Parent
	}
	return parents
}

// naivePath returns the written path of a queue up to root, and what is wrong with it.
func naivePath(queues map[string]TreeQueue, name string) (path []string, wrong FaultKind) {
	path, broken := writtenParents(queues).Path(name)
	return path, map[queuetree.Break]FaultKind{queuetree.ParentNotFound: ParentNotFound, queuetree.ParentCycle: ParentCycle, queuetree.TooDeep: TooDeep}[broken]
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

// naiveWritesAmount reports whether a queue or one below it writes what it deserves, or a guarantee.
func naiveWritesAmount(queues map[string]TreeQueue, name string, key Resource) bool {
	return slices.ContainsFunc(writtenParents(queues).Subtree(name), func(at string) bool {
		_, deserves := queues[at].Deserved[key]
		return deserves || queues[at].Guarantee[key] > 0
	})
}

// naivePod is what one pod uses, keeps while it terminates, or waits for.
type naivePod struct {
	queue                         string
	amounts                       map[Resource]int64
	isUnreclaimable, isOff, isEnd bool
	// isNotOffered is set if the node of the pod does not offer its cards.
	isNotOffered bool
}

// naiveLedger has the pods of a tree.
type naiveLedger struct {
	parent    queuetree.Parents // of every queue, "" under root
	limits    map[string]Limits
	pods      map[string]naivePod
	kept      map[string]naivePod
	stopped   map[string]map[Resource]bool
	inventory map[Resource]int64
}

// treeOf returns the tree with the amounts of a name.
func (n *naiveLedger) treeOf(name Resource) *queuetree.Tree {
	return &queuetree.Tree{Parents: n.parent, IsCard: naiveIsCard(name), InForce: func(queue string) queuetree.InForce { return n.inForce(queue, name) }}
}

// inForce returns the amounts of a queue. Root has cards of the inventory only, and all pods of the tree count there.
func (n *naiveLedger) inForce(queue string, name Resource) queuetree.InForce {
	amounts := queuetree.InForce{Quota: n.quotaOf(queue, name), Deserved: n.deservedOf(queue, name)}

	if limits := n.limits[queue]; !limits.IsHeld {
		amounts.Guarantee = limits.Guarantee[name]
	}

	if queue == "" && amounts.Quota != Unlimited {
		amounts.Quota += n.treeOf(name).Used("", n.use(name, naivePod.isPlaced)) - n.used("", name)
	}
	return amounts
}

// quotaOf returns the quota of a name, Unlimited for none. That of root is the inventory.
func (n *naiveLedger) quotaOf(queue string, name Resource) int64 {
	limits := n.limits[queue]

	switch {
	case queue == "":
		return n.inventory[name]
	case name == CPU:
		return limits.MilliCPU
	case name == Memory:
		return limits.Memory
	case limits.AnyCard:
		return Unlimited
	}
	return int64(limits.Cards[name.Card()])
}

// deservedOf returns what a queue deserves of a name, Unlimited for any amount.
func (n *naiveLedger) deservedOf(queue string, name Resource) int64 {
	limits := n.limits[queue]
	deserved, isWritten := limits.Deserved[name]
	isQuota := limits.Deserved == nil || (!isWritten && !naiveIsCard(name))
	if isQuota || (naiveIsCard(name) && limits.AnyCard) {
		return n.quotaOf(queue, name)
	}
	return deserved
}

// use returns what those pods that are counted use of a name, by queue.
func (n *naiveLedger) use(name Resource, counts func(naivePod) bool) queuetree.Use {
	use := queuetree.Use{}
	for _, p := range n.pods {
		if counts(p) {
			use[p.queue] += p.amounts[name]
		}
	}
	return use
}

// useOfKept returns what is kept of a name for pods that wait, by queue.
func (n *naiveLedger) useOfKept(name Resource) queuetree.Use {
	return (&naiveLedger{pods: n.kept}).use(name, naivePod.isPlaced)
}

func (p naivePod) isPlaced() bool          { return !p.isEnd }
func (p naivePod) isTerminating() bool     { return p.isEnd }
func (p naivePod) cannotBeReclaimed() bool { return p.isUnreclaimable && !p.isEnd }

// used returns what a queue and its subtree use. Root, "", has only the pods that use the inventory.
func (n *naiveLedger) used(queue string, name Resource) int64 {
	isCounted := naivePod.isPlaced
	if queue == "" {
		isCounted = func(p naivePod) bool { return !p.isEnd && !p.isOff && (!p.isNotOffered || !naiveIsCard(name)) }
	}
	return n.treeOf(name).Used(queue, n.use(name, isCounted))
}

func (n *naiveLedger) unreclaimable(queue string, name Resource) int64 {
	return n.treeOf(name).Used(queue, n.use(name, naivePod.cannotBeReclaimed))
}

// unusedBelow returns the unused guarantees below a queue.
func (n *naiveLedger) unusedBelow(queue string, name Resource) int64 {
	return n.treeOf(name).UnusedBelow(queue, n.use(name, naivePod.isPlaced))
}

// with returns the ledger with one more pod.
func (n *naiveLedger) with(p naivePod) *naiveLedger {
	after := *n
	after.pods = maps.Clone(n.pods)
	after.pods["one more"] = p
	return &after
}

// findRefusal returns why a queue may not use so many more of a name, "" if it may.
func (n *naiveLedger) findRefusal(queue string, name Resource, count int64, isUnreclaimable bool) string {
	pods := queuetree.Pods{
		Used: n.use(name, naivePod.isPlaced), Unreclaimable: n.use(name, naivePod.cannotBeReclaimed),
		Terminating: n.use(name, naivePod.isTerminating), Kept: n.useOfKept(name), Stopped: map[string]bool{},
	}
	for at, stopped := range n.stopped {
		pods.Stopped[at] = stopped[name]
	}

	return n.treeOf(name).Refusal(queuetree.Request{Queue: queue, Count: count, IsUnreclaimable: isUnreclaimable}, pods)
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
