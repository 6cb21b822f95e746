package rule

import (
	"fmt"
	"slices"
)

// TreeUse is what the pods of each queue hold of one card, or of CPU or Memory, by queue.
type TreeUse map[string]int64

// UsedIn returns what the pods of a queue and of its subtree hold.
func (t *Tree) UsedIn(queue string, use TreeUse) int64 {
	sum := use[queue]
	for _, child := range t.children[queue] {
		sum += t.UsedIn(child, use)
	}
	return sum
}

// occupied returns what a subtree holds or is guaranteed: use, and unused guarantees that no
// other queue may take.
func (t *Tree) occupied(queue, card string, use TreeUse) int64 {
	sum := t.Occupied(queue, card, use)
	if t.KeepsGuarantee(queue) {
		sum = max(sum, t.queues[queue].GuaranteeOf(card))
	}
	return sum
}

// KeepsGuarantee reports whether others leave a queue what it is guaranteed and does not use. A
// held queue keeps nothing, nor does one without children that takes no jobs by itself.
func (t *Tree) KeepsGuarantee(queue string) bool {
	isChild := func(name string) bool { return len(t.queues[name].Path) > 0 }
	q := t.queues[queue]
	return q != nil && q.Stop == "" && (!q.takesNoJobs || slices.ContainsFunc(t.children[queue], isChild))
}

// Occupied returns what the pods of a queue and of its subtree hold, and what is guaranteed to
// queues below it and not used. It leaves out the queue's own guarantee. "" is root.
func (t *Tree) Occupied(queue, card string, use TreeUse) int64 {
	sum := use[queue]
	for _, child := range t.children[queue] {
		sum += t.occupied(child, card, use)
	}
	return sum
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

// AboveQuota returns which queue on the path of a queue holds more of a card than its quota, or
// "".
func (t *Tree) AboveQuota(queue, card string, use TreeUse) string {
	for _, name := range t.PathOf(queue) {
		q := t.queues[name]
		switch used := t.UsedIn(name, use); {
		case q == nil:
			return "queue <" + name + "> does not exist"
		case used > q.QuotaOf(card):
			return fmt.Sprintf("queue <%s> now holds %d of <%s>, and its quota was at most %d", name, used, card, q.QuotaOf(card))
		}
	}
	return ""
}

// AboveDeserved returns which queue on the path of a queue holds more of a card than it
// deserves, or "". use counts only pods that cannot be reclaimed.
func (t *Tree) AboveDeserved(queue, card string, use TreeUse) string {
	for _, name := range t.PathOf(queue) {
		q := t.queues[name]
		if used := t.UsedIn(name, use); q != nil && used > q.DeservedOf(card) {
			return fmt.Sprintf("queue <%s> now holds %d of <%s> that cannot be reclaimed, and deserves %d", name, used, card, q.DeservedOf(card))
		}
	}
	return ""
}

// TakesGuarantee returns where the last cards of a queue took an unused guarantee of others, or
// "". schedulable is the number of cards at root, less what pods hold on nodes that are not
// schedulable. From the level on at which the queue's own guarantee covers the cards, they take
// nothing.
func (t *Tree) TakesGuarantee(queue, card string, count int64, use TreeUse, schedulable int64) string {
	before := TreeUse{}
	for name, n := range use {
		before[name] = n
	}

	before[queue] -= count
	path := t.PathOf(queue)
	for i, name := range path {
		if t.occupied(name, card, before) == t.occupied(name, card, use) {
			return "" // covered
		}

		parent := ""
		limit := schedulable
		if i+1 < len(path) {
			q := t.queues[path[i+1]]
			if q.QuotaOf(card) == Unlimited {
				continue
			}
			parent = q.Name
			limit = q.QuotaOf(card)
		}

		if sum := t.Occupied(parent, card, use); sum > limit && sum > t.usedBelow(parent, use) {
			return fmt.Sprintf("%d of <%s> are used or guaranteed below <%s>, of %d", sum, card, orRoot(parent), limit)
		}
	}

	return ""
}

// usedBelow returns what the pods of a queue and its subtree hold, "" for all queues.
func (t *Tree) usedBelow(queue string, use TreeUse) int64 {
	if queue != "" {
		return t.UsedIn(queue, use)
	}
	var sum int64
	for _, top := range t.children[""] {
		sum += t.UsedIn(top, use)
	}
	return sum
}

func orRoot(queue string) string {
	if queue == "" {
		return rootQueue
	}
	return queue
}

// Selects reports whether a queue and its ancestors all take a namespace with these labels.
func (t *Tree) Selects(queue string, namespace map[string]string) bool {
	return !slices.ContainsFunc(t.PathOf(queue), func(name string) bool {
		q := t.queues[name]
		return q != nil && !q.Selector.Selects(namespace)
	})
}
