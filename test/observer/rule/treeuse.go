package rule

import (
	"cmp"
	"fmt"
	"slices"

	"cardquota.dev/operator/internal/testing/queuetree"
)

// TreeUse is what the pods of each queue use of one card, or of CPU or Memory, by queue.
type TreeUse = queuetree.Use

// treeOf returns the tree with the amounts of a card, CPU or Memory. Root has no quota.
func (t *Tree) treeOf(name string) *queuetree.Tree { return t.withCards(name, Unlimited) }

// withCards returns the tree with the amounts of a card, CPU or Memory, and with so much of it in the inventory.
func (t *Tree) withCards(name string, inventory int64) *queuetree.Tree {
	return &queuetree.Tree{Parents: t.inForce, InForce: func(queue string) (amounts queuetree.InForce) {
		if queue == "" {
			return queuetree.InForce{Quota: inventory, Deserved: Unlimited}
		}

		q := t.queues[queue]
		amounts.Quota = q.QuotaOf(name)
		amounts.Deserved = q.DeservedOf(name)
		if t.KeepsGuarantee(queue) {
			amounts.Guarantee = q.GuaranteeOf(name)
		}
		return amounts
	}}
}

// UsedIn returns what the pods of a queue and of its subtree use.
func (t *Tree) UsedIn(queue string, use TreeUse) int64 { return t.treeOf(CPU).Used(queue, use) }

// Occupied returns what the pods of a queue and of its subtree use, and what is guaranteed to
// queues below it and not used. The queue's own guarantee does not count. "" is root.
func (t *Tree) Occupied(queue, card string, use TreeUse) int64 {
	return t.treeOf(card).Occupied(queue, use)
}

// KeepsGuarantee reports whether others leave a queue what it is guaranteed and does not use. A
// held queue keeps nothing, nor does one without children that takes no jobs by itself.
func (t *Tree) KeepsGuarantee(queue string) bool {
	q := t.queues[queue]
	return q != nil && q.Stop == "" && (!q.takesNoJobs || len(t.written.Children(queue)) > 0)
}

// WhyClosed returns why no job may start in a queue, or "".
func (t *Tree) WhyClosed(queue string) string {
	q := t.queues[queue]
	switch {
	case q == nil:
		return "it does not exist"
	case q.Closed != "":
		return q.Closed
	case q.Stop != "":
		return "it is held: " + q.Stop
	}
	return ""
}

// AboveQuota returns which queue on the path of a queue uses more of a card than its quota, or
// "".
func (t *Tree) AboveQuota(queue, card string, use TreeUse) string {
	for _, name := range t.PathOf(queue) {
		q := t.queues[name]
		switch {
		case q == nil:
			return "queue <" + name + "> does not exist"
		case t.treeOf(card).IsAboveQuota(name, use):
			return fmt.Sprintf("queue <%s> now uses %d of <%s>, and its quota was at most %d", name, t.UsedIn(name, use), card, q.QuotaOf(card))
		}
	}
	return ""
}

// AboveDeserved returns which queue on the path of a queue uses more of a card than it
// deserves, or "". use counts only pods that cannot be reclaimed.
func (t *Tree) AboveDeserved(queue, card string, use TreeUse) string {
	for _, name := range t.PathOf(queue) {
		q := t.queues[name]
		if q != nil && t.treeOf(card).IsAboveDeserved(name, use) {
			return fmt.Sprintf("queue <%s> now uses %d of <%s> that cannot be reclaimed, and deserves %d", name, t.UsedIn(name, use), card, q.DeservedOf(card))
		}
	}
	return ""
}

// TakesGuarantee returns where the last cards of a queue took an unused guarantee of others, or
// "". schedulable is the number of cards at root, less what pods use on nodes that are not
// schedulable. From the level on at which the queue's own guarantee covers the cards, they take
// nothing.
func (t *Tree) TakesGuarantee(queue, card string, count int64, use TreeUse, schedulable int64) string {
	tree := t.withCards(card, schedulable)
	for _, name := range append(t.PathOf(queue)[1:], "") {
		if tree.TakesGuarantee(name, use.With(queue, -count), use, 0) {
			return fmt.Sprintf("%d of <%s> are used or guaranteed below <%s>, of %d", tree.Occupied(name, use), card, cmp.Or(name, rootQueue), tree.InForce(name).Quota)
		}
	}
	return ""
}

// Selects reports whether a queue and its ancestors all take a namespace with these labels.
func (t *Tree) Selects(queue string, namespace map[string]string) bool {
	return !slices.ContainsFunc(t.PathOf(queue), func(name string) bool {
		q := t.queues[name]
		return q != nil && !q.Selector.Selects(namespace)
	})
}
