package quota

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"
)

// MaxDepth is how many queues a path below root may have.
const MaxDepth = 6

// TreeQueue is one queue of a tree as it is written.
type TreeQueue struct {
	// Parent is the name of the parent queue, "" directly under root.
	Parent string
	// Quota, Deserved and Guarantee are the written amounts. A name in Deserved or Guarantee
	// that Quota lacks inherits the parent's quota. A name that Deserved lacks deserves its
	// quota. CPU and memory that Quota lacks are always inherited, and directly under root they are not limited.
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
	// Weight divides borrowed cards among siblings; at least 1.
	Weight int32
	// Created is when the queue was created, which orders siblings.
	Created time.Time
}

// Equal reports whether two queues are written alike.
func (q *TreeQueue) Equal(o *TreeQueue) bool {
	return q.Parent == o.Parent && q.AnyCard == o.AnyCard && q.IsHeld == o.IsHeld && q.HoldMessage == o.HoldMessage &&
		q.IsParentOnly == o.IsParentOnly && q.IsClosed == o.IsClosed && q.Weight == o.Weight && q.Created.Equal(o.Created) &&
		maps.Equal(q.Quota, o.Quota) && maps.Equal(q.Deserved, o.Deserved) && maps.Equal(q.Guarantee, o.Guarantee)
}

// Resources returns every resource of the queue's entries, sorted.
func (q *TreeQueue) Resources() []Resource {
	all := Amounts{}
	for _, amounts := range []Amounts{q.Quota, q.Deserved, q.Guarantee} {
		maps.Copy(all, amounts)
	}
	return all.Sorted()
}

// writesAmount reports whether the queue has an entry of a resource.
func (q *TreeQueue) writesAmount(of Resource) bool {
	_, hasQuota := q.Quota[of]
	_, deserves := q.Deserved[of]
	_, guarantees := q.Guarantee[of]
	return hasQuota || deserves || guarantees
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

// HasNoPath reports whether the path of the queue does not lead to root.
func (f Fault) HasNoPath() bool { return f.Kind != NoFault && f.Kind < IsParent }

// closesSubtree reports whether the fault closes the queue and everything below it. Then an unused
// guarantee would withhold cards that no queue can get.
func (f Fault) closesSubtree() bool { return f.Kind != NoFault && f.Kind != IsParent }

// ExcessKind is which rule a written amount breaks.
type ExcessKind int

// The kinds of excess.
const (
	// NothingToInherit: a card without a quota directly under root.
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
	// Parts are the amounts above 0 that add up to Sum, by queue.
	Parts []Part
}

// Part is the amount of one queue in a sum.
type Part struct {
	Queue  string
	Amount int64
}

// IsOfSum reports whether the children of the parent have too much together.
func (e *Excess) IsOfSum() bool { return e.Kind >= DeservedAboveParent }

// Over returns by how much the limit is exceeded, at least 1.
func (e *Excess) Over() int64 { return max(1, max(e.Written, e.Sum)-e.Limit) }

// Resolved is one queue of a tree with the amounts that count.
type Resolved struct {
	// Written is the queue as it is written.
	Written TreeQueue
	// Parent is the parent in the tree, "" directly under root and for a queue without a
	// path to root.
	Parent string
	// Path are the queue and its ancestors up to the one directly under root.
	Path []string
	// Children are the queues that name this one as their parent, sorted, also those without a path
	// to root.
	Children []string
	// Limits are the amounts that count.
	Limits Limits
	// WritesCompute says of CPU and memory whether the queue, or one below it, writes an amount.
	WritesCompute map[Resource]bool
	// Fault is why the queue takes no new work.
	Fault Fault
	// Excess lists the written amounts that do not count, by resource.
	Excess []Excess
}

// Equal reports whether two resolved queues have the same parent, children, amounts, fault and excess.
func (r *Resolved) Equal(o *Resolved) bool {
	return r.Parent == o.Parent && r.Fault == o.Fault && slices.Equal(r.Children, o.Children) && reflect.DeepEqual(r.Excess, o.Excess) &&
		maps.Equal(r.WritesCompute, o.WritesCompute) && r.Limits.Equal(&o.Limits)
}

// Tree is where queues are below root, and the amounts that count for each. It never changes. The caller
// must not change what its methods return.
//
// Flat queues are a tree of depth one: each is directly under root, deserves all that it may use, and
// borrows from no other.
type Tree struct {
	// queues are nil if all queues are flat.
	queues map[string]*Resolved
	// flat are the limits of flat queues, which a tree may have beside the others.
	flat map[string]Limits
}

// Flat is the tree of flat queues, without their limits.
var Flat = &Tree{}

// WithFlat returns the tree with other flat queues. The caller must not change their limits afterwards.
func (t *Tree) WithFlat(limits map[string]Limits) *Tree { return &Tree{queues: t.queues, flat: limits} }

// IsFlat reports whether the queues are flat.
func (t *Tree) IsFlat() bool { return t.queues == nil }

// limitsOf returns the limits of a queue, false if the tree does not have it.
func (t *Tree) limitsOf(queue string) (limits Limits, exists bool) {
	if r := t.queues[queue]; r != nil {
		return r.Limits, true
	}
	limits, exists = t.flat[queue]
	return limits, exists
}

// All returns the queues of the tree by name but the flat ones, in no order.
func (t *Tree) All() iter.Seq2[string, *Resolved] { return maps.All(t.queues) }

// Has reports whether the tree has a queue that is not flat.
func (t *Tree) Has(queue string) bool { return t.queues[queue] != nil }

// Queue returns a queue of the tree. Any other queue is directly under root, without limits unless it is flat.
func (t *Tree) Queue(name string) *Resolved {
	if r := t.queues[name]; r != nil {
		return r
	}
	return &Resolved{Path: []string{name}, Limits: t.flat[name]}
}

// Path returns a queue and its ancestors up to the one directly under root.
func (t *Tree) Path(queue string) []string { return t.Queue(queue).Path }

// Ancestors returns the ancestors on the path of a queue, the nearest first.
func (t *Tree) Ancestors(queue string) []string {
	if r := t.queues[queue]; r != nil {
		return r.Path[1:]
	}
	return nil
}

// Limit returns the smallest quota of a resource on the path of a queue.
func (t *Tree) Limit(queue string, of Resource) int64 {
	limit := t.Queue(queue).Limits.Quota(of)
	for _, ancestor := range t.Ancestors(queue) {
		limit = min(limit, t.queues[ancestor].Limits.Quota(of))
	}
	return limit
}

// WrittenAncestors returns the queues above a queue as they are written, also those of a queue without a
// path to root. It ends before a missing one, and before one that repeats.
func (t *Tree) WrittenAncestors(queue string) (above []string) {
	r := t.queues[queue]
	if r == nil || !r.Fault.HasNoPath() {
		return t.Ancestors(queue)
	}

	for at := r.Written.Parent; at != queue && t.Has(at) && !slices.Contains(above, at); at = t.queues[at].Written.Parent {
		above = append(above, at)
	}
	return above
}

// Below returns a queue and all queues whose path leads through it, by level. Children without a path to root are
// below none.
func (t *Tree) Below(queue string) []string {
	below := []string{queue}
	for i := 0; i < len(below); i++ {
		for _, child := range t.Queue(below[i]).Children {
			if t.queues[child].Parent == below[i] {
				below = append(below, child)
			}
		}
	}
	return below
}

// ExcessOfChildren returns what children of a queue exceed: of each kind and resource the largest excess of
// one of them.
func (t *Tree) ExcessOfChildren(queue string) (found []Excess) {
	for _, child := range t.Queue(queue).Children {
		for _, e := range t.queues[child].Excess {
			i := slices.IndexFunc(found, func(f Excess) bool { return f.Kind == e.Kind && f.Of == e.Of })
			switch {
			case e.Parent != queue: // of a child without a path to root, which is in no sum of this queue
			case i < 0:
				found = append(found, e)
			case e.Over() > found[i].Over():
				found[i] = e
			}
		}
	}

	return found
}

// Level returns how far the lowest common ancestor of two queues is above the first: 1 for siblings and
// for flat queues.
func (t *Tree) Level(from, to string) int { return max(1, len(t.PathBelow(to, from))) }

// PathBelow returns the second queue and its ancestors below the lowest common ancestor of both queues. It
// is empty if the second is an ancestor of the first.
func (t *Tree) PathBelow(from, to string) []string {
	other := t.Path(from)
	path := t.Path(to)
	shared := 0
	for shared < min(len(path), len(other)) && path[len(path)-1-shared] == other[len(other)-1-shared] {
		shared++
	}
	return path[:len(path)-shared]
}
