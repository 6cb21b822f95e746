// This file puts queues into a tree. check.go says what a queue of a tree may use and borrow.

package quota

import (
	"maps"

	"cardquota.dev/operator/internal/card"
)

// SetTree puts the queues into a tree, and sets their limits. A queue that is not in it has none, and nothing is kept
// for its pods. If it was in the last tree, it keeps its place while pods are charged to it: a Queue can be deleted
// while its pods run, and they go on using cards of its ancestors. Flat queues have no place, so a new one moves no
// pods.
func (l *Ledger) SetTree(tree *Tree) {
	var root *queueLedger
	positions := map[string]position{}
	if !tree.IsFlat() {
		root = newRoot()
		for name, r := range tree.queues {
			positions[name] = position{r.Parent, r.Written.Weight, r.Written.Created}
			l.ensureQueue(name)
		}
		l.keepPositions(positions)
	}

	for name := range tree.flat {
		l.ensureQueue(name)
	}

	// Limits come after the positions, because unused guarantees add up along the paths.
	l.setPositions(positions, root)
	for name, q := range l.queues {
		q.limits, q.hasLimits = tree.limitsOf(name)
	}

	// Cards that are kept for a pod of a deleted queue would stay out of reach for all others.
	for pod, c := range l.kept {
		if _, exists := tree.limitsOf(c.Queue); !exists {
			l.EndKeeping(pod)
		}
	}
	l.recomputeUnused()
}

// setPositions puts the queues where the positions say, below root in a tree, which is nil for flat queues.
// If a parent changed, it sums up the charges of all pods again. Then it drops what is kept for pods, and
// forgets which queues may not borrow for now.
func (l *Ledger) setPositions(positions map[string]position, root *queueLedger) {
	hasSameParent := func(a, b position) bool { return a.parent == b.parent }
	isSame := (root == nil) == (l.root == nil) && maps.EqualFunc(positions, l.positions, hasSameParent)
	l.positions = positions

	// Charging all pods again is expensive, and almost every session has the tree of the last
	// one.
	if isSame {
		for _, q := range l.queues {
			q.queueOrder = queueOrder{position: positions[q.name], averages: q.averages} // a weight or limit may have changed
		}
		return
	}

	l.root = root
	l.kept = nil

	// Sums along the old paths mean nothing in the new tree, so each queue starts from its pods. Its limits come later.
	for name, q := range l.queues {
		*q = queueLedger{name: name, usage: usage{used: newSums()}, treeSums: newTreeSums(), queueOrder: queueOrder{averages: q.averages}}
	}

	for _, q := range l.queues {
		l.link(q)
	}

	for _, entry := range l.pods {
		if entry.terminating {
			l.ensureQueue(entry.charge.Queue).addTerminating(entry.charge, entry.gracePeriod)
		} else {
			l.addCharge(entry.charge)
		}
	}
}

// keepPositions adds to positions the last ones of queues in use that have none any more, because their
// Queues were deleted, and of the ancestors of such queues.
func (l *Ledger) keepPositions(positions map[string]position) {
	for name, q := range l.queues {
		// An ancestor that exists has its new place, and so has everything above it.
		for at := name; at != "" && q.isInUse(); at = l.positions[at].parent {
			last, hadPosition := l.positions[at]
			if _, exists := positions[at]; exists || !hadPosition {
				break
			}
			positions[at] = last
		}
	}
}

// ForgetUnused forgets every queue without limits, once none of its pods uses anything, nor any pod of a
// queue below it.
func (l *Ledger) ForgetUnused() {
	// A deleted Queue keeps its pods until they end. Their ancestors must go on counting them.
	isAboveUsage := map[string]bool{} // queues with a queue in use below them
	for _, q := range l.queues {
		for at := q.parent; q.isInUse() && at != nil; at = at.parent {
			isAboveUsage[at.name] = true
		}
	}

	for name, q := range l.queues {
		if !q.hasLimits && !q.isInUse() && !isAboveUsage[name] {
			delete(l.queues, name)
		}
	}
}

// SetInventory sets the cards, CPU and memory of all nodes that take pods as the limits of root. Less the
// charges on these nodes, they are what is left for guarantees. Flat queues have no root and no guarantees.
func (l *Ledger) SetInventory(cards map[card.Name]card.Count, milliCPU, memory int64) {
	if l.root != nil {
		l.root.limits = Limits{Cards: cards, MilliCPU: milliCPU, Memory: memory}
	}
}

// recomputeUnused computes the unused guarantees of all queues again, after their limits were set. Flat queues are
// guaranteed nothing.
func (l *Ledger) recomputeUnused() {
	// A changed limit changes the sums of all ancestors, so differences are not enough.
	if l.root != nil {
		clear(l.root.unusedBelow)
	}
	for _, q := range l.queues {
		clear(q.unused)
		clear(q.unusedBelow)
	}

	for _, q := range l.queues {
		for name := range q.limits.Guarantee {
			q.updateUnusedGuarantee(name)
		}
	}
}

// Keep keeps quota of the queue and its ancestors for a pod that reclaimed cards and is not placed yet.
// Pods of other queues cannot use it. A flat queue shares its quota with no other, so this
// changes nothing there. A second call for the same pod replaces the first.
func (l *Ledger) Keep(pod string, c *Charge) {
	l.EndKeeping(pod)
	if l.kept == nil {
		l.kept = map[string]*Charge{}
	}
	l.kept[pod] = c
	l.ensureQueue(c.Queue).addKept(c, 1)
}

// EndKeeping keeps nothing for a pod any more.
func (l *Ledger) EndKeeping(pod string) {
	if c, ok := l.kept[pod]; ok {
		delete(l.kept, pod)
		l.ensureQueue(c.Queue).addKept(c, -1)
	}
}

// EndAllKeeping keeps nothing for any pod any more.
func (l *Ledger) EndAllKeeping() {
	for pod := range l.kept {
		l.EndKeeping(pod)
	}
}

// StopBorrowing keeps a queue from borrowing some resources, because they were reclaimed from it a
// short time ago. It replaces what was stopped before.
func (l *Ledger) StopBorrowing(queue string, resources map[Resource]bool) {
	l.ensureQueue(queue).stopped = resources
}
