package solver

// This file finds a node for each pending pod. countVisits counts work, which a budget bounds.

import (
	"cmp"
	"slices"
)

// fillNodes places as many pods of a pod set as fit, on the preferred nodes first, and reports
// whether that is all of them. It subtracts what they use from avail, which is by node and resource, and from quotas. It
// adds their nodes to place, which is by pod set.
func (m *model) fillNodes(podSet int, avail []float64, quotas []int64, place [][]int) bool {
	set := &m.podSets[podSet]
	left := set.Count - len(place[podSet])
	m.countVisits(len(set.Nodes))
	for _, node := range set.Nodes {
		have := avail[node*m.dims : (node+1)*m.dims]
		quota := &quotas[m.nodeQuota[node]]
		n := min(left, set.countFitting(have), set.countWithinQuota(*quota))
		if n == 0 {
			continue
		}

		for i, amount := range set.Request {
			have[i] -= float64(n) * amount
		}

		*quota -= int64(n) * set.Cards
		place[podSet] = append(place[podSet], slices.Repeat([]int{node}, n)...)
		left -= n
		if left == 0 {
			return true
		}
	}

	return left == 0
}

// placePods returns by pod set the nodes of its pods, nil if it cannot place all. To fill nodes
// is exact for one pod set. For several, it tries the hardest first, then the reverse order, and then
// backtracks within a budget, which may miss a way.
func (c *capacity) placePods() [][]int {
	reversed := slices.Clone(c.order)
	slices.Reverse(reversed)
	for _, order := range [][]int{c.order, reversed} {
		avail := slices.Clone(c.available)
		quotas := slices.Clone(c.quotas)
		place := make([][]int, len(c.podSets))

		all := true
		for _, podSet := range order {
			all = all && c.fillNodes(podSet, avail, quotas, place)
		}

		switch {
		case all:
			return place
		case len(order) == 1:
			return nil
		}
	}

	return c.placeWithBacktracking()
}

// maxPlacementTries bounds how many pods the search tries beside the first choice of each.
const maxPlacementTries = 300

// placementSearch places the pods of several pod sets with backtracking. Small pod sets come
// first, and each pod goes where it leaves most room for later ones. The last pod set simply
// fills nodes.
type placementSearch struct {
	*capacity
	order     []int    // the pod sets
	quotas    []int64  // by quota: the cards left
	places    [][]int  // by pod set
	visited   [][]bool // by pod set and node: a pod of the set failed there
	triesLeft int
}

// placeWithBacktracking returns by pod set the nodes of all pods, nil if it finds none within maxPlacementTries and the
// budget.
func (c *capacity) placeWithBacktracking() [][]int {
	s := &placementSearch{capacity: c, order: slices.Clone(c.order), quotas: slices.Clone(c.quotas), places: make([][]int, len(c.podSets)), triesLeft: maxPlacementTries}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(c.podSets[a].Count, c.podSets[b].Count) })
	for i := range c.podSets {
		s.triesLeft += c.podSets[i].Count
		s.visited = append(s.visited, make([]bool, len(c.nodeQuota)))
	}
	if !s.placeFrom(0) {
		return nil
	}
	return s.places
}

// placeFrom places the remaining pods of the pod sets from the k-th in order on, one pod in each recursive call. It
// reports whether it placed all.
func (s *placementSearch) placeFrom(k int) bool {
	podSet := s.order[k]
	if len(s.places[podSet]) == s.podSets[podSet].Count && k < len(s.order)-1 {
		return s.placeFrom(k + 1)
	}

	// A pod set that does not fit any more ends this branch before its turn comes.
	for _, later := range s.order[k:] {
		if s.countPlaceable(later, s.quotas) < s.podSets[later].Count-len(s.places[later]) {
			return false
		}
	}

	if k == len(s.order)-1 {
		return s.fillNodes(podSet, slices.Clone(s.available), s.quotas, s.places)
	}

	var tried []int
	// Pods of a set are alike: where one failed, the next need not be tried until an earlier choice
	// changes.
	defer func() {
		for _, node := range tried {
			s.visited[podSet][node] = false
		}
	}()

	for _, node := range s.candidateNodes(k) {
		s.triesLeft--
		if s.triesLeft < 0 || s.exceedsBudget() {
			return false
		}

		s.movePod(podSet, node, 1)
		s.places[podSet] = append(s.places[podSet], node)
		ok := s.placeFrom(k)
		// The capacity is the caller's, so the pod leaves it even if all could be placed.
		s.movePod(podSet, node, -1)
		if ok {
			return true
		}

		s.places[podSet] = s.places[podSet][:len(s.places[podSet])-1]
		s.visited[podSet][node] = true
		tried = append(tried, node)
	}

	return false
}

// movePod places a pod on a node, or removes it from there if sign is -1.
func (s *placementSearch) movePod(podSet, node int, sign float64) {
	s.addAvailable(node, s.podSets[podSet].Request, -sign)
	s.quotas[s.nodeQuota[node]] -= int64(sign) * s.podSets[podSet].Cards
}

// candidateNodes lists the nodes where a pod of the k-th pod set fits. Those come first that
// leave most room for later pod sets, then the preferred ones.
func (s *placementSearch) candidateNodes(k int) []int {
	podSet := s.order[k]
	set := &s.podSets[podSet]
	s.countVisits(len(set.Nodes))

	var candidates []candidateNode
	left := make([]float64, s.dims)
	for _, node := range set.Nodes {
		if s.visited[podSet][node] || s.fitCounts[podSet][node] == 0 || set.countWithinQuota(s.quotas[s.nodeQuota[node]]) == 0 {
			continue
		}

		s.countVisits(len(s.order) - k)
		for i, amount := range s.availableOn(node) {
			left[i] = amount - set.Request[i]
		}

		displaced := 0
		for _, other := range s.order[k+1:] {
			if fits := s.fitCounts[other][node]; fits > 0 { // 0 also where it cannot run
				displaced += fits - s.podSets[other].countFitting(left)
			}
		}
		candidates = append(candidates, candidateNode{node, displaced})
	}

	slices.SortStableFunc(candidates, func(a, b candidateNode) int { return cmp.Compare(a.displaced, b.displaced) })
	nodes := make([]int, len(candidates))
	for i, x := range candidates {
		nodes[i] = x.node
	}

	return nodes
}

// candidateNode is a node where a pod fits, and how many pods of later pod sets it displaces there.
type candidateNode struct{ node, displaced int }
