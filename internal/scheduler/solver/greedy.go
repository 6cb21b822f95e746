package solver

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
				s.add(node, s.claims[claim].Request, 1)
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
		all := s.fill(claim, slices.Clone(s.avail), pools, held)
		for _, node := range held[claim] {
			s.add(node, s.claims[claim].Request, -1)
		}
		if !all {
			return false
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
}

// pick takes units until the claim has room for all its pods, or until nothing helps any
// more. A move is weighed again before it is made: it can only have become worse, because
// what makes one better is a change on its nodes, and then it is queued again.
func (h *hunt) pick() bool {
	count := h.claims[h.claim].Count
	room := h.total(h.claim, h.pools)
	if room >= count {
		return true
	}
	h.start(count - room)
	for room < count {
		if len(h.queue) == 0 {
			return false
		}
		m := heap.Pop(&h.queue).(move)
		if m.version != h.current[m.id] {
			continue
		}
		now := h.weigh(m.id, count-room)
		if now.gain == 0 {
			continue
		}
		if now.cost != m.cost || now.gain != m.gain {
			heap.Push(&h.queue, now)
			continue
		}
		taken := []int{m.id}
		if m.id >= len(h.units) {
			taken, _ = h.clear(m.id - len(h.units))
		}
		for _, u := range taken {
			if h.possible(u) {
				h.take(u, none)
			}
		}
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
	for id := range h.current {
		if m := h.weigh(id, need); m.gain > 0 {
			h.queue = append(h.queue, m)
		}
	}
	heap.Init(&h.queue)
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
			heap.Push(&h.queue, m)
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
		var units []int
		if units, m.cost = h.clear(id - len(h.units)); len(units) > 0 {
			m.gain = 1
		}
	} else if h.possible(id) {
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

// clear is a cheap set of units that makes room for one more of the claim's pods on a node
// together, because none of them alone would or not as cheaply, and what it costs. It is
// empty when there is none. Only that node is looked at: gangs may be on hundreds of others.
func (h *hunt) clear(node int) ([]int, Loss) {
	if !h.claims[h.claim].wants[node] || h.claims[h.claim].within(h.pools[h.pool[node]]) == 0 {
		return nil, Loss{}
	}
	before, target := h.cost, h.fit[h.claim][node]+1
	var taken []touch
	for h.fit[h.claim][node] < target {
		x, found := h.towards(node, target)
		if !found {
			break
		}
		h.take(x.unit, x.site)
		taken = append(taken, x)
	}
	price, enough := h.cost.minus(before), h.fit[h.claim][node] >= target
	var units []int
	for _, x := range slices.Backward(taken) {
		h.drop(x.unit, x.site)
		if enough {
			units = append(units, x.unit)
		}
	}
	return units, price
}

// towards is the unit that costs least for what it gives of what a node lacks
// for so many of the claim's pods.
func (h *hunt) towards(node, target int) (best touch, found bool) {
	have, request := h.at(node), h.claims[h.claim].Request
	gained := 0.0
	var price Loss
	h.look(len(h.on[node]))
	for _, x := range h.on[node] {
		u := x.unit
		if !h.possible(u) {
			continue
		}
		gives, part := h.gives(u, x.site), 0.0
		for i, amount := range request {
			if lack := amount*float64(target) - have[i]; amount > 0 && lack > tolerance {
				part += min(gives[i], lack) / lack
			}
		}
		if part > 0 {
			if c := h.adds(u); !found || c.over(part).compare(price.over(gained)) < 0 {
				best, found, price, gained = x, true, c, part
			}
		}
	}
	return best, found
}

// move is a step of the search: a unit, or a node that is cleared.
type move struct {
	id      int // a unit, or a node after all units
	version int
	cost    Loss
	gain    int // how many more pods can be placed
}

// queue is a heap of the moves, those first that cost least for each pod that they
// place. Of equal moves the first is preferred, so that the order of jobs decides.
type queue []move

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	return cmp.Or(a.cost.over(float64(a.gain)).compare(b.cost.over(float64(b.gain))), cmp.Compare(a.id, b.id)) < 0
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(m any)   { *q = append(*q, m.(move)) }

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
