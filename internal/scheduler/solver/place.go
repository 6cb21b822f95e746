package solver

import (
	"cmp"
	"slices"
)

// fill places as many of a claim's pods as there is room for, the preferred nodes first,
// and tells whether that is all of them. It books them in avail, pools and place, which
// are by node and resource, by pool and by claim.
func (m *model) fill(claim int, avail []float64, pools []int64, place [][]int) bool {
	c := &m.claims[claim]
	left := c.Count - len(place[claim])
	m.look(len(c.Nodes))
	for _, node := range c.Nodes {
		have, pool := avail[node*m.dims:(node+1)*m.dims], &pools[m.pool[node]]
		n := min(left, c.fits(have), c.within(*pool))
		if n == 0 {
			continue
		}
		for i, amount := range c.Request {
			have[i] -= float64(n) * amount
		}
		*pool -= int64(n) * c.Cards
		place[claim] = append(place[claim], slices.Repeat([]int{node}, n)...)
		if left -= n; left == 0 {
			return true
		}
	}
	return left == 0
}

// places returns where the waiting pods can run, nil when not all can. Claims are filled
// one after the other, which is exact for one; for several a search is tried then.
func (r *rooms) places() [][]int {
	avail, pools, place := slices.Clone(r.avail), slices.Clone(r.pools), make([][]int, len(r.claims))
	all := true
	for _, claim := range r.order {
		all = all && r.fill(claim, avail, pools, place)
	}
	switch {
	case all:
		return place
	case len(r.order) == 1:
		return nil
	}
	return r.seat()
}

// mostSeatings bounds how many pods are put somewhere else than where they are
// least in the way.
const mostSeatings = 300

// seating tries places for the pods of several claims, in the books of rooms:
// claims of few pods first, each pod where it takes least room from those to
// come. For the last claim room is all that matters.
type seating struct {
	*rooms
	order []int
	pools []int64
	place [][]int  // by claim
	shut  [][]bool // by claim and node: tried before
	tries int
}

// seat returns the places of all pods, nil when none are found.
func (r *rooms) seat() [][]int {
	s := &seating{rooms: r, order: slices.Clone(r.order), pools: slices.Clone(r.pools), place: make([][]int, len(r.claims)), tries: mostSeatings}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(r.claims[a].Count, r.claims[b].Count) })
	for i := range r.claims {
		s.tries += r.claims[i].Count
		s.shut = append(s.shut, make([]bool, len(r.pool)))
	}
	if !s.next(0) {
		return nil
	}
	return s.place
}

// next places the pods that are left of the claims from the k-th on.
func (s *seating) next(k int) bool {
	claim := s.order[k]
	if len(s.place[claim]) == s.claims[claim].Count && k < len(s.order)-1 {
		return s.next(k + 1)
	}
	for _, c := range s.order[k:] {
		if s.total(c, s.pools) < s.claims[c].Count-len(s.place[c]) {
			return false
		}
	}
	if k == len(s.order)-1 {
		return s.fill(claim, slices.Clone(s.avail), s.pools, s.place)
	}
	var tried []int
	defer func() {
		for _, node := range tried {
			s.shut[claim][node] = false
		}
	}()
	for _, node := range s.candidates(k) {
		if s.tries--; s.tries < 0 || s.exhausted() {
			return false
		}
		s.put(claim, node, 1)
		s.place[claim] = append(s.place[claim], node)
		ok := s.next(k)
		s.put(claim, node, -1)
		if ok {
			return true
		}
		s.place[claim] = s.place[claim][:len(s.place[claim])-1]
		s.shut[claim][node] = true
		tried = append(tried, node)
	}
	return false
}

// put books a pod on a node, or takes it from there when sign is -1.
func (s *seating) put(claim, node int, sign float64) {
	s.add(node, s.claims[claim].Request, -sign)
	s.pools[s.pool[node]] -= int64(sign) * s.claims[claim].Cards
}

// candidates lists the nodes that could take a pod of the k-th claim, those
// first where it takes least room from the claims after it, then the preferred.
func (s *seating) candidates(k int) []int {
	claim := s.order[k]
	c := &s.claims[claim]
	s.look(len(c.Nodes))
	var nodes []int
	harm := map[int]int{}
	left := make([]float64, s.dims)
	for _, node := range c.Nodes {
		if s.shut[claim][node] || s.fit[claim][node] == 0 || c.within(s.pools[s.pool[node]]) == 0 {
			continue
		}
		s.look(len(s.order) - k)
		nodes = append(nodes, node)
		for i, amount := range s.at(node) {
			left[i] = amount - c.Request[i]
		}
		for _, other := range s.order[k+1:] {
			if o := &s.claims[other]; o.wants[node] {
				harm[node] += s.fit[other][node] - o.fits(left)
			}
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(harm[a], harm[b]) })
	return nodes
}
