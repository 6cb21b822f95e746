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

// queue holds the moves, those first that cost least for each pod that they
// place. Of equal moves the first is preferred, so that the order of jobs decides.
type queue struct{ moves []move }

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
	return cmp.Or(cheaper(a.cost, float64(a.gain), b.cost, float64(b.gain)), cmp.Compare(a.id, b.id)) < 0
}

func (q *queue) Swap(i, j int) { q.moves[i], q.moves[j] = q.moves[j], q.moves[i] }
func (q *queue) Push(any)      {}
func (q *queue) Pop() any      { return nil }
