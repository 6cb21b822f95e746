package queuetree

import (
	"maps"
	"math"
	"slices"
)

// Unlimited stands for no limit.
const Unlimited int64 = math.MaxInt64

// InForce are the amounts of one resource that are in force for a queue, after inheritance and scaling. The resource is
// a card, CPU or memory.
type InForce struct {
	// Quota is Unlimited for none, and Deserved for any amount.
	Quota, Deserved int64
	// Guarantee is 0 if the queue keeps nothing for itself, as no job can start in it.
	Guarantee int64
}

// Use is what the pods of each queue use of one resource, or one kind of these pods. It is by queue.
type Use map[string]int64

// With returns the use with more in one queue.
func (u Use) With(queue string, more int64) Use {
	after := Use{}
	maps.Copy(after, u)
	after[queue] += more
	return after
}

// Tree is a tree of queues with the amounts of one resource.
type Tree struct {
	// Parents lead to root from every queue, see Parents.Connected.
	Parents Parents
	// InForce returns the amounts of a queue. Those of root, "", have the inventory as their quota.
	InForce func(queue string) InForce
	// IsCard reports whether the resource is a card, and not CPU or memory.
	IsCard bool
}

// Path returns a queue and its ancestors without root. A queue that does not exist is alone.
func (t *Tree) Path(queue string) (path []string) {
	for at := queue; at != ""; at = t.Parents[at] {
		path = append(path, at)
	}
	return path
}

// PathBelow returns the queue and its ancestors below the lowest ancestor in common with another queue, from the queue
// up.
func (t *Tree) PathBelow(queue, other string) []string {
	path := t.Path(queue)
	others := t.Path(other)
	for i, at := range path {
		if slices.Contains(others, at) {
			return path[:i]
		}
	}
	return path
}

// Used returns what the pods of a queue and of its subtree use, "" for all queues.
func (t *Tree) Used(queue string, use Use) (sum int64) {
	for name, amount := range use {
		if t.isBelow(name, queue) {
			sum += amount
		}
	}
	return sum
}

// isBelow reports whether a queue is another one, or below it. Every queue is below root, "".
func (t *Tree) isBelow(queue, ancestor string) bool {
	at := queue
	for at != ancestor && at != "" {
		at = t.Parents[at]
	}
	return at == ancestor
}

// Unused returns the unused guarantee of a queue and its subtree: what no other queue may take.
func (t *Tree) Unused(queue string, use Use) int64 {
	return max(t.UnusedBelow(queue, use), t.InForce(queue).Guarantee-t.Used(queue, use), 0)
}

// UnusedBelow returns the unused guarantees below a queue, "" for those of all queues. That of the queue itself does
// not count.
func (t *Tree) UnusedBelow(queue string, use Use) (sum int64) {
	for child, parent := range t.Parents {
		if parent == queue {
			sum += t.Unused(child, use)
		}
	}
	return sum
}

// Occupied returns what a queue and its subtree use, and what is guaranteed below the queue and not used. The
// guarantee of the queue itself does not count. "" is root.
func (t *Tree) Occupied(queue string, use Use) int64 {
	return t.Used(queue, use) + t.UnusedBelow(queue, use)
}

// IsAboveQuota reports whether a queue and its subtree use more than its quota.
func (t *Tree) IsAboveQuota(queue string, use Use) bool {
	return t.Used(queue, use) > t.InForce(queue).Quota
}

// IsAboveDeserved reports whether a queue and its subtree use more than the queue deserves.
func (t *Tree) IsAboveDeserved(queue string, use Use) bool {
	return t.Used(queue, use) > t.InForce(queue).Deserved
}

// TakesGuarantee reports whether new pods take from a queue what is guaranteed below it and not used. before is the use
// without these pods. kept is what is kept in the queue for pods that wait. Pods take nothing if the guarantee of a
// queue of their path covers them: then the queues above it are not more occupied than before.
func (t *Tree) TakesGuarantee(queue string, before, after Use, kept int64) bool {
	quota := t.InForce(queue).Quota
	occupied := t.Occupied(queue, after)
	return quota != Unlimited && t.UnusedBelow(queue, after) > 0 && occupied+kept > quota && occupied > t.Occupied(queue, before)
}
