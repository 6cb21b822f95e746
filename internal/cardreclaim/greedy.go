package cardreclaim

import (
	"cmp"
	"container/heap"
	"slices"
)

// greedy takes what is best step by step, claim by claim, on top of what is
// taken already, and tells whether all can be placed that way.
func (s *state) greedy() bool {
	pools, held := slices.Clone(s.pools), make([][]int, len(s.claims))
	defer func() {
		for claim, nodes := range held {
			for _, node := range nodes {
				s.add(node, s.claims[claim].request, 1)
			}
		}
		s.keep(none)
	}()
	for _, claim := range s.order {
		s.keep(claim)
		h := &hunt{state: s, claim: claim, pools: pools}
		if !h.pick() {
			return false
		}
		// Its places are reserved in the state's own books.
		p := s.placement()
		p.pools = pools
		if !p.fill(claim) {
			return false
		}
		held[claim] = p.place[claim]
		for _, node := range held[claim] {
			s.add(node, s.claims[claim].request, -1)
		}
	}
	s.place = held
	return true
}

// hunt serves one claim in a state in which the claims before it have their
// places reserved.
type hunt struct {
	*state
	claim int
	pools []int64

	queue   queue
	current []int // by move: how often it has changed
	byPool  []int // scratch
	// gains are what sets of units give in this state, by the set, and joined is how
	// many sites were looked at to find out.
	gains  map[string]int
	joined int
}

// pick takes units until the claim has room for all its pods, or until nothing
// helps any more. A move that was put off is looked at again before it is made:
// it can only have become worse, because what makes one better is a change on
// its nodes, and then it is queued again.
func (h *hunt) pick() bool {
	count := h.claims[h.claim].count
	room := h.total(h.claim, h.pools)
	if room >= count {
		return true
	}
	h.start(count - room)
	for room < count {
		m, ok := h.queue.pop()
		if !ok {
			return false
		}
		if m.version != h.current[m.id] {
			continue
		}
		now := h.weigh(m.id, count-room)
		if now.gain == 0 {
			continue
		}
		if now.cost != m.cost || now.gain != m.gain {
			h.queue.push(now)
			continue
		}
		taken := []int{m.id}
		if m.id >= len(h.units) {
			taken = h.clear(m.id-len(h.units), count-room).units
		}
		for _, u := range taken {
			if h.possible(u) {
				h.take(u)
			}
		}
		clear(h.gains)
		room = h.total(h.claim, h.pools)
		if room < count {
			h.again(taken, count-room)
		}
	}
	return true
}

// start looks at every move there is: units, and nodes that can be cleared.
func (h *hunt) start(need int) {
	h.current = make([]int, len(h.units)+len(h.pool))
	h.byPool = make([]int, len(h.pools))
	h.queue = queue{moves: make([]move, 0, len(h.units)+64)}
	for u := range h.units {
		if m := h.weigh(u, need); m.gain > 0 {
			h.queue.moves = append(h.queue.moves, m)
		}
	}
	for _, node := range h.claims[h.claim].nodes {
		if m := h.weigh(len(h.units)+node, need); m.gain > 0 {
			h.queue.moves = append(h.queue.moves, m)
		}
	}
	h.queue.order()
}

// again queues what taking some units may have made better: moves on their
// nodes, and the jobs that they are part of.
func (h *hunt) again(taken []int, need int) {
	changed := map[int]bool{}
	requeue := func(id int) {
		if changed[id] {
			return
		}
		changed[id] = true
		h.current[id]++
		if m := h.weigh(id, need); m.gain > 0 {
			h.queue.push(m)
		}
	}
	for _, u := range taken {
		if job := h.jobs[h.units[u].job]; job.whole != none {
			requeue(job.whole)
		}
		h.each(u, func(s int) {
			node := h.sites[s].node
			for _, other := range h.on[node] {
				requeue(other.unit)
			}
			requeue(len(h.units) + node)
		})
	}
}

// weigh tells what a move would cost and give now.
func (h *hunt) weigh(id, need int) move {
	m := move{id: id, version: h.current[id]}
	if id >= len(h.units) {
		if cleared := h.clear(id-len(h.units), need); cleared != nil {
			m.cost, m.gain = cleared.cost, cleared.gain
		}
		return m
	}
	if h.possible(id) {
		m.cost, m.gain = h.adds(id), min(need, h.gain(id))
	}
	return m
}

// gain is how many more pods can be placed once a unit is taken.
func (h *hunt) gain(u int) int {
	c, helps := &h.claims[h.claim], false
	h.each(u, func(s int) {
		node := h.sites[s].node
		if !c.wants[node] {
			return
		}
		if more := h.fitsWith(node, h.gives(u, s)) - h.fit[h.claim][node]; more > 0 {
			helps = true
			h.byPool[h.pool[node]] += more
		}
	})
	if !helps {
		return 0
	}
	gain := 0
	for pool, more := range h.byPool {
		if more > 0 {
			room, most := h.rooms.byPool[h.claim][pool], c.within(h.pools[pool])
			gain += min(room+more, most) - min(room, most)
			h.byPool[pool] = 0
		}
	}
	return gain
}

// fitsWith is how many of the claim's pods fit on a node with so much more.
func (h *hunt) fitsWith(node int, more []float64) int {
	h.look(1)
	have := h.at(node)
	var few [8]float64
	sum := append(few[:0], have...)
	for i := range sum {
		sum[i] += more[i]
	}
	return h.claims[h.claim].fits(sum)
}

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
