package cardreclaim

import (
	"cmp"
	"container/heap"
)

// move is a step of the search: a unit, or a node that is cleared.
type move struct {
	id      int // a unit, or a node after all units
	version int
	cost    cost
	gain    int // how many more pods can be placed
}

// score compares two moves: negative when the first is preferred.
type score func(a, b *move) int

// scores are ways to prefer one move to another: by what it costs for each pod
// that it places; by what it costs at all, which is better for the last few; and
// by what it gives. Of equal moves the first is preferred, so that the order of
// jobs decides.
var scores = []score{
	func(a, b *move) int { return cheaper(a.cost, float64(a.gain), b.cost, float64(b.gain)) },
	func(a, b *move) int { return cmp.Or(a.cost.compare(b.cost), cmp.Compare(b.gain, a.gain)) },
	func(a, b *move) int { return cmp.Or(cmp.Compare(b.gain, a.gain), a.cost.compare(b.cost)) },
}

// queue holds the moves, the preferred first.
type queue struct {
	moves  []move
	better score
}

func (q *queue) order() { heap.Init(q) }

func (q *queue) push(m move) {
	q.moves = append(q.moves, m)
	heap.Fix(q, len(q.moves)-1)
}

func (q *queue) pop() (move, bool) {
	last := len(q.moves) - 1
	if last < 0 {
		return move{}, false
	}
	first := q.moves[0]
	q.moves[0] = q.moves[last]
	q.moves = q.moves[:last]
	if last > 0 {
		heap.Fix(q, 0)
	}
	return first, true
}

// Len, Less, Swap, Push and Pop make it a heap.
func (q *queue) Len() int { return len(q.moves) }

func (q *queue) Less(i, j int) bool {
	a, b := &q.moves[i], &q.moves[j]
	return cmp.Or(q.better(a, b), cmp.Compare(a.id, b.id)) < 0
}

func (q *queue) Swap(i, j int) { q.moves[i], q.moves[j] = q.moves[j], q.moves[i] }
func (q *queue) Push(any)      {}
func (q *queue) Pop() any      { return nil }
