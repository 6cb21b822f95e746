package solver

// This file finds a first plan step by step. A unit is one elastic pod or a whole job; u is the index of a unit. A move is
// one step: a unit alone, or a cheap set of units that makes room together (greedysets.go). The id of a move is that of
// its unit. Larger ids are sets: after the units one for each node, and after these one for each quota.

import (
	"container/heap"
	"slices"
)

// chooseGreedily adds the victims with the least loss for each pod that they make room for, move by move, one pod set
// after the other. It reports whether all pod sets can be placed then.
func (s *state) chooseGreedily() bool {
	places := make([][]int, len(s.podSets))
	// Places are reserved only while pod sets choose. fitsAll places all pods again.
	defer func() {
		for podSet, nodes := range places {
			for _, node := range nodes {
				s.addAvailable(node, s.podSets[podSet].Request, 1)
				s.useCards(podSet, node, 1)
			}
		}
		s.countFor(none)
	}()

	for _, podSet := range s.order {
		s.countFor(podSet)
		g := &greedySearch{state: s, podSet: podSet}
		if !g.makeMoves() {
			return false
		}

		// The pod sets that follow must leave these places.
		hasPlacedAll := s.fillNodes(podSet, slices.Clone(s.available), slices.Clone(s.quotas), places)
		for _, node := range places[podSet] {
			s.addAvailable(node, s.podSets[podSet].Request, -1)
			s.useCards(podSet, node, -1)
		}

		if !hasPlacedAll {
			return false
		}
	}

	s.places = places
	return s.releaseRequired() // CPU and memory, which the pods use of their queues on any node
}

// makeMoves adds victims until all pods of the pod set fit, or until nothing helps any more. It reports whether all fit.
// It evaluates a queued move again before it makes it. The move can only have become worse:
// what makes a move better is a change on its nodes, and that queues it again.
func (g *greedySearch) makeMoves() bool {
	count := g.podSets[g.podSet].Count
	placeable := g.countPlaceable(g.podSet, g.quotas)
	if placeable >= count {
		return true
	}

	g.queueMoves(count - placeable)
	for hasMoved := false; placeable < count; {
		// What was released since the queue was filled can have made any move better, also one that helped
		// nothing then. Without a move since, or if no unit releases a quota, a new queue would be empty too.
		if len(g.moves) == 0 {
			if !hasMoved || g.releases == nil {
				return false
			}
			hasMoved = false
			g.queueMoves(count - placeable)
			continue
		}

		next := heap.Pop(&g.moves).(move)
		// A newer entry of this move has its true value.
		if next.version != g.versions[next.id] {
			continue
		}

		// Quotas are shared by all nodes, so moves elsewhere can have made this one worse.
		now := g.evaluateMove(next.id, count-placeable)
		if now.gain == 0 {
			continue
		}
		if now.loss != next.loss || now.gain != next.gain {
			heap.Push(&g.moves, now)
			continue
		}

		taken := g.makeMove(next.id)
		hasMoved = true
		placeable = g.countPlaceable(g.podSet, g.quotas)
		if placeable < count {
			g.requeueAffected(taken, count-placeable)
		}
	}

	return true
}

// makeMove adds the units of a move to the victims, as far as their jobs and limits allow it. It returns the units.
func (g *greedySearch) makeMove(id int) (taken []int) {
	taken = []int{id}
	if id >= len(g.units) { // a set
		taken, _ = g.chooseSet(id - len(g.units))
	}

	for _, u := range taken {
		if g.canChoose(u) {
			g.addVictim(u, none)
		}
	}

	return taken
}

// queueMoves queues all moves that help while so many more pods need a place: units, nodes that can be cleared, and
// quotas that victims can release.
func (g *greedySearch) queueMoves(need int) {
	g.versions = make([]int, len(g.units)+len(g.nodeQuota)+len(g.releasable))
	g.gainByQuota = make([]int, len(g.quotas))
	g.sortReleasing()
	for id := range g.versions {
		if m := g.evaluateMove(id, need); m.gain > 0 {
			g.moves = append(g.moves, m)
		}
	}
	heap.Init(&g.moves)
}

// requeueAffected queues the moves that new victims may have made better: those on their nodes, their whole jobs, and the
// sets that release quotas. A new version makes older entries of a move void. need is how many more pods need a place.
func (g *greedySearch) requeueAffected(taken []int, need int) {
	changed := map[int]bool{}
	requeue := func(id int) {
		if changed[id] {
			return
		}
		changed[id] = true
		g.versions[id]++
		if m := g.evaluateMove(id, need); m.gain > 0 {
			heap.Push(&g.moves, m)
		}
	}

	for _, u := range taken {
		// A whole job adds less loss once some of its pods are victims.
		if job := g.jobs[g.units[u].job]; job.wholeUnit != none {
			requeue(job.wholeUnit)
		}

		g.forEachJobNode(u, func(jobNode int) {
			node := g.jobNodes[jobNode].node
			for _, other := range g.unitsOn[node] {
				requeue(other.unit)
			}
			requeue(len(g.units) + node)
		})
	}

	// A victim anywhere can have released part of a quota.
	for quota, isReleasable := range g.releasable {
		if isReleasable {
			requeue(len(g.units) + len(g.nodeQuota) + quota)
		}
	}
}

// evaluateMove returns a move with its current loss and gain, at most the needed one. A gain of 0 means that it does not
// help. A set makes room for one pod.
func (g *greedySearch) evaluateMove(id, need int) move {
	m := move{id: id, version: g.versions[id]}
	if id >= len(g.units) { // a set
		var units []int
		units, m.loss = g.chooseSet(id - len(g.units))
		if len(units) > 0 {
			m.gain = 1
		}
	} else if g.canChoose(id) {
		m.loss = g.addedLoss(id)
		m.gain = min(need, g.countGain(id))
	}

	return m
}

// countGain returns how many more pods of the pod set can be placed once a unit is a victim. gainByQuota is
// all 0 before and after it.
func (g *greedySearch) countGain(u int) int {
	set := &g.podSets[g.podSet]
	makesRoom := false
	g.forEachJobNode(u, func(jobNode int) {
		node := g.jobNodes[jobNode].node
		if !set.wantsNode[node] {
			return
		}
		if more := g.countFittingWith(node, g.freedBy(u, jobNode)) - g.fitCounts[g.podSet][node]; more > 0 {
			makesRoom = true
			g.gainByQuota[g.nodeQuota[node]] += more
		}
	})

	// Cards that the unit releases let pods use nodes that have enough free already, so it may help without
	// making room.
	if g.releases != nil && len(g.releases[u]) > 0 {
		return g.countGainWithReleases(u)
	}
	if !makesRoom {
		return 0
	}

	// Room on nodes is of use only as far as the quota of their cards has cards left.
	gain := 0
	for quota, more := range g.gainByQuota {
		if more > 0 {
			fitting := g.fitByQuota[g.podSet][quota]
			withinQuota := set.countWithinQuota(g.quotas[quota])
			gain += min(fitting+more, withinQuota) - min(fitting, withinQuota)
			g.gainByQuota[quota] = 0
		}
	}

	return gain
}
