package solver

import (
	"cmp"
	"container/heap"
	"slices"
)

// chooseGreedily adds the best unit step by step, one pod set after the other. It reports
// whether all pod sets can be placed then.
func (s *state) chooseGreedily() bool {
	quotas, held := slices.Clone(s.quotas), make([][]int, len(s.podSets))
	defer func() {
		for podSet, nodes := range held {
			for _, node := range nodes {
				s.addAvailable(node, s.podSets[podSet].Request, 1)
			}
		}
		s.countFor(none)
	}()
	for _, podSet := range s.order {
		s.countFor(podSet)
		h := &greedySearch{state: s, podSet: podSet, quotas: quotas}
		if !h.makeMoves() {
			return false
		}
		// The state reserves its places for the pod sets that follow.
		all := s.fillNodes(podSet, slices.Clone(s.available), quotas, held)
		for _, node := range held[podSet] {
			s.addAvailable(node, s.podSets[podSet].Request, -1)
		}
		if !all {
			return false
		}
	}
	s.places = held
	return true
}

// greedySearch makes room for one pod set, in a state that has reserved the places of the pod
// sets before it.
type greedySearch struct {
	*state
	podSet int
	quotas []int64

	moves       moveQueue
	versions    []int // by move: how often it was queued again
	gainByQuota []int // reused by countGain
}

// makeMoves adds victims until all pods of the pod set fit, or until nothing helps any more.
// It evaluates a queued move again before it makes it. The move can only have become worse:
// what makes a move better is a change on its nodes, and that queues it again.
func (h *greedySearch) makeMoves() bool {
	count := h.podSets[h.podSet].Count
	room := h.countPlaceable(h.podSet, h.quotas)
	if room >= count {
		return true
	}
	h.queueMoves(count - room)
	for room < count {
		if len(h.moves) == 0 {
			return false
		}
		m := heap.Pop(&h.moves).(move)
		if m.version != h.versions[m.id] {
			continue
		}
		now := h.evaluateMove(m.id, count-room)
		if now.gain == 0 {
			continue
		}
		if now.loss != m.loss || now.gain != m.gain {
			heap.Push(&h.moves, now)
			continue
		}
		taken := []int{m.id}
		if m.id >= len(h.units) {
			taken, _ = h.clearNode(m.id - len(h.units))
		}
		for _, u := range taken {
			if h.canChoose(u) {
				h.addVictim(u, none)
			}
		}
		room = h.countPlaceable(h.podSet, h.quotas)
		if room < count {
			h.requeueAffected(taken, count-room)
		}
	}
	return true
}

// queueMoves queues all moves that help: units, and nodes that can be cleared.
func (h *greedySearch) queueMoves(need int) {
	h.versions = make([]int, len(h.units)+len(h.nodeQuota))
	h.gainByQuota = make([]int, len(h.quotas))
	for id := range h.versions {
		if m := h.evaluateMove(id, need); m.gain > 0 {
			h.moves = append(h.moves, m)
		}
	}
	heap.Init(&h.moves)
}

// requeueAffected queues the moves that new victims may have made better: those on their
// nodes, and their whole jobs.
func (h *greedySearch) requeueAffected(taken []int, need int) {
	changed := map[int]bool{}
	requeue := func(id int) {
		if changed[id] {
			return
		}
		changed[id] = true
		h.versions[id]++
		if m := h.evaluateMove(id, need); m.gain > 0 {
			heap.Push(&h.moves, m)
		}
	}
	for _, u := range taken {
		if job := h.jobs[h.units[u].job]; job.wholeUnit != none {
			requeue(job.wholeUnit)
		}
		h.forEachJobNode(u, func(s int) {
			node := h.jobNodes[s].node
			for _, other := range h.unitsOn[node] {
				requeue(other.unit)
			}
			requeue(len(h.units) + node)
		})
	}
}

// evaluateMove returns a move with its current loss and gain.
func (h *greedySearch) evaluateMove(id, need int) move {
	m := move{id: id, version: h.versions[id]}
	if id >= len(h.units) {
		var units []int
		if units, m.loss = h.clearNode(id - len(h.units)); len(units) > 0 {
			m.gain = 1
		}
	} else if h.canChoose(id) {
		m.loss, m.gain = h.addedLoss(id), min(need, h.countGain(id))
	}
	return m
}

// countGain returns how many more pods can be placed once a unit is a victim.
func (h *greedySearch) countGain(u int) int {
	c, helps := &h.podSets[h.podSet], false
	h.forEachJobNode(u, func(s int) {
		node := h.jobNodes[s].node
		if !c.wantsNode[node] {
			return
		}
		if more := h.countFittingWith(node, h.freedBy(u, s)) - h.fitCounts[h.podSet][node]; more > 0 {
			helps = true
			h.gainByQuota[h.nodeQuota[node]] += more
		}
	})
	if !helps {
		return 0
	}
	gain := 0
	for quota, more := range h.gainByQuota {
		if more > 0 {
			room, most := h.capacity.fitByQuota[h.podSet][quota], c.countWithinQuota(h.quotas[quota])
			gain += min(room+more, most) - min(room, most)
			h.gainByQuota[quota] = 0
		}
	}
	return gain
}

// countFittingWith returns how many of the pods fit on a node with so much more available.
func (h *greedySearch) countFittingWith(node int, more []float64) int {
	h.countVisits(1)
	have := h.availableOn(node)
	var few [8]float64
	sum := append(few[:0], have...)
	for i := range sum {
		sum[i] += more[i]
	}
	return h.podSets[h.podSet].countFitting(sum)
}

// clearNode returns a cheap set of units that together make room for one more pod on a node,
// and its loss. It is useful where no single unit makes room, or none as cheaply. The set is
// empty if there is none. Only this node counts, because gangs may run on hundreds of others.
func (h *greedySearch) clearNode(node int) ([]int, Loss) {
	if !h.podSets[h.podSet].wantsNode[node] || h.podSets[h.podSet].countWithinQuota(h.quotas[h.nodeQuota[node]]) == 0 {
		return nil, Loss{}
	}
	before, target := h.loss, h.fitCounts[h.podSet][node]+1
	var taken []unitOnNode
	for h.fitCounts[h.podSet][node] < target {
		x, found := h.bestUnitTowards(node, target)
		if !found {
			break
		}
		h.addVictim(x.unit, x.jobNode)
		taken = append(taken, x)
	}
	loss, enough := h.loss.minus(before), h.fitCounts[h.podSet][node] >= target
	var units []int
	for _, x := range slices.Backward(taken) {
		h.dropVictim(x.unit, x.jobNode)
		if enough {
			units = append(units, x.unit)
		}
	}
	return units, loss
}

// bestUnitTowards returns the unit with the least loss for its part of what is missing on a
// node for target pods.
func (h *greedySearch) bestUnitTowards(node, target int) (best unitOnNode, found bool) {
	have, request := h.availableOn(node), h.podSets[h.podSet].Request
	gained := 0.0
	var loss Loss
	h.countVisits(len(h.unitsOn[node]))
	for _, x := range h.unitsOn[node] {
		u := x.unit
		if !h.canChoose(u) {
			continue
		}
		gives, part := h.freedBy(u, x.jobNode), 0.0
		for i, amount := range request {
			if lack := amount*float64(target) - have[i]; amount > 0 && lack > tolerance {
				part += min(gives[i], lack) / lack
			}
		}
		if part > 0 {
			if c := h.addedLoss(u); !found || c.ratePer(part).compare(loss.ratePer(gained)) < 0 {
				best, found, loss, gained = x, true, c, part
			}
		}
	}
	return best, found
}

// move is a step of the search: it evicts a unit, or clears a node.
type move struct {
	id      int // of a unit, or of a node after all units
	version int
	loss    Loss
	gain    int // how many more pods can be placed
}

// moveQueue is a heap of the moves, those with the least loss for each pod that they place
// first. The order of jobs decides between equal moves.
type moveQueue []move

func (q moveQueue) Len() int { return len(q) }

func (q moveQueue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	return cmp.Or(a.loss.ratePer(float64(a.gain)).compare(b.loss.ratePer(float64(b.gain))), cmp.Compare(a.id, b.id)) < 0
}

func (q moveQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *moveQueue) Push(m any)   { *q = append(*q, m.(move)) }

func (q *moveQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
