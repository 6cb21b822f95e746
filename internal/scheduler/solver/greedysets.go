package solver

// This file has the moves of the greedy search, and finds sets of units that together make room for one more pod: on a
// node, or in a quota. A unit is one elastic pod or a whole job; u is the index of a unit. A jobNode is a job on one of
// its nodes. countVisits counts work, which a budget bounds.

import (
	"cmp"
	"slices"
)

// greedySearch makes room for one pod set, in a state that has reserved the places of the pod
// sets before it.
type greedySearch struct {
	*state
	podSet int

	moves    moveQueue
	versions []int // by id of a move: how often it was queued again
	// gainByQuota is how many more pods fit on nodes of a quota with one more victim. It is all 0 but inside
	// countGain, which uses it again and again.
	gainByQuota []int
	releasing   [][][]int // by quota and level: the units that release some, the cheapest first
}

// move is a step of the search: it evicts a unit, clears a node, or releases a quota.
type move struct {
	id      int // of a unit, of a node after all units, or of a quota after all nodes
	version int
	loss    Loss
	gain    int // how many more pods can be placed
}

// moveQueue is a heap of the moves, those with the least loss for each pod that they place
// first. The order of jobs decides between equal moves.
type moveQueue []move

func (q moveQueue) Len() int { return len(q) }

func (q moveQueue) Less(i, j int) bool {
	a := &q[i]
	b := &q[j]
	return cmp.Or(a.loss.ratePer(float64(a.gain)).compare(b.loss.ratePer(float64(b.gain))), cmp.Compare(a.id, b.id)) < 0
}

func (q moveQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *moveQueue) Push(m any) { *q = append(*q, m.(move)) }

func (q *moveQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// countFittingWith returns how many of the pods fit on a node with so much more available.
func (g *greedySearch) countFittingWith(node int, more []float64) int {
	g.countVisits(1)
	have := g.availableOn(node)
	// The array saves an allocation in the innermost loop of the search.
	var few [8]float64
	sum := append(few[:0], have...)
	for i := range sum {
		sum[i] += more[i]
	}
	return g.podSets[g.podSet].countFitting(sum)
}

// chooseSet returns a cheap set of units that together make room for one more pod, and its loss. It leaves the state as it
// is. id is that of a node, or of a quota after all nodes.
func (g *greedySearch) chooseSet(id int) ([]int, Loss) {
	if id < len(g.nodeQuota) {
		return g.clearNode(id)
	}
	return g.clearQuota(id - len(g.nodeQuota))
}

// clearNode returns a cheap set of units that together make room for one more pod on a node,
// and its loss. It is useful where no single unit makes room, or none as cheaply. The set is
// empty if there is none, if the quota has no cards left for the pod and cannot get any, or if
// each unit makes room alone. Only this node counts, because gangs may run on hundreds of others.
func (g *greedySearch) clearNode(node int) ([]int, Loss) {
	set := &g.podSets[g.podSet]
	quota := g.nodeQuota[node]
	fitting := g.fitByQuota[g.podSet][quota]
	withinQuota := set.countWithinQuota(g.quotas[quota])
	switch {
	case !set.wantsNode[node]:
		return nil, Loss{}
	// More room on nodes is of no use: the quota is what lacks cards.
	case fitting > withinQuota, fitting == withinQuota && !g.isReleasable(quota):
		return nil, Loss{}
	// Moves of single units do the same.
	case fitting < withinQuota && !g.hasUnitTooSmall(node):
		return nil, Loss{}
	}

	// The units become victims one by one, as a trial that is undone.
	before := g.loss
	target := g.fitCounts[g.podSet][node] + 1
	var taken []unitOnNode
	for g.fitCounts[g.podSet][node] < target {
		x, found := g.bestUnitTowards(node, target)
		if !found {
			break
		}
		g.addVictim(x.unit, x.jobNode)
		taken = append(taken, x)
	}

	// Where the quota is used up too, room on the node is of use only with cards released for the pod.
	needed := g.cardsFor(fitting + 1)
	if fitting == withinQuota {
		taken = append(taken, g.releaseUpTo(quota, needed)...)
	}

	return g.trimAndUndo(taken, before, func() bool {
		return g.fitCounts[g.podSet][node] >= target && (fitting < withinQuota || g.quotas[quota] >= needed)
	})
}

// trimAndUndo ends the trial of a set whose units are victims now: it drops the superfluous ones, takes the loss
// of the others, and drops these as well. It returns the needed units and their loss, no units if all together are
// not enough. before is the loss without the set.
func (g *greedySearch) trimAndUndo(taken []unitOnNode, before Loss, isEnough func() bool) (units []int, loss Loss) {
	enough := isEnough()
	if enough {
		taken = g.dropSuperfluous(taken, isEnough)
	}

	loss = g.loss.minus(before)
	// What a whole job frees depends on its single pods that became victims before it, so the last one is dropped first.
	for _, x := range slices.Backward(taken) {
		g.dropVictim(x.unit, x.jobNode)
		if enough {
			units = append(units, x.unit)
		}
	}

	return units, loss
}

// dropSuperfluous drops the victims of a set that it does not need, those with the largest loss
// first. It returns the others in the order in which they are victims now.
func (g *greedySearch) dropSuperfluous(taken []unitOnNode, isEnough func() bool) (needed []unitOnNode) {
	jobNodes := make(map[int]int, len(taken))
	units := make([]int, len(taken))
	for i, x := range taken {
		jobNodes[x.unit] = x.jobNode
		units[i] = x.unit
	}

	for _, u := range g.byDescendingLoss(units) {
		g.dropVictim(u, jobNodes[u])
		if !isEnough() {
			g.addVictim(u, jobNodes[u])
			needed = append(needed, unitOnNode{u, jobNodes[u]})
		}
	}

	return needed
}

// hasUnitTooSmall reports whether a node has a unit that alone makes no room for a pod there.
func (g *greedySearch) hasUnitTooSmall(node int) bool {
	return slices.ContainsFunc(g.unitsOn[node], func(x unitOnNode) bool {
		return g.canChoose(x.unit) && g.countFittingWith(node, g.freedBy(x.unit, x.jobNode)) <= g.fitCounts[g.podSet][node]
	})
}

// bestUnitTowards returns the unit with the least loss for what it frees of the resources that a node lacks for
// target pods of the pod set. Resources have different units, so it adds up which fraction of each lack a unit frees.
func (g *greedySearch) bestUnitTowards(node, target int) (best unitOnNode, found bool) {
	have := g.availableOn(node)
	request := g.podSets[g.podSet].Request
	var least lossRate

	g.countVisits(len(g.unitsOn[node]))
	for _, x := range g.unitsOn[node] {
		u := x.unit
		if !g.canChoose(u) {
			continue
		}

		freed := g.freedBy(u, x.jobNode)
		part := 0.0
		for i, amount := range request {
			if lack := amount*float64(target) - have[i]; amount > 0 && lack > Tolerance {
				// Amounts beyond the lack place no further pod.
				part += min(freed[i], lack) / lack
			}
		}

		if part > 0 {
			if rate := g.addedLoss(u).ratePer(part); !found || rate.compare(least) < 0 {
				best = x
				least = rate
				found = true
			}
		}
	}

	return best, found
}

// cardsFor returns the cards that so many pods use.
func (g *greedySearch) cardsFor(pods int) int64 {
	return multiplySaturating(g.podSets[g.podSet].Cards, int64(pods))
}

// clearQuota returns a cheap set of units that together release a quota's cards for one more pod
// that fits on a node, and its loss. The set is empty if there is none, or if nodes lack room rather than the quota cards.
func (g *greedySearch) clearQuota(quota int) ([]int, Loss) {
	withinQuota := g.podSets[g.podSet].countWithinQuota(g.quotas[quota])
	if g.fitByQuota[g.podSet][quota] <= withinQuota || !g.isReleasable(quota) {
		return nil, Loss{}
	}

	before := g.loss
	needed := g.cardsFor(withinQuota + 1)
	return g.trimAndUndo(g.releaseUpTo(quota, needed), before, func() bool { return g.quotas[quota] >= needed })
}

// releaseUpTo adds victims until a quota has a target left at every level, as far as units release
// it. It returns the new victims in the order in which they were added. A whole job frees nothing on its nodes here,
// which may be hundreds: only the quota counts.
func (g *greedySearch) releaseUpTo(quota int, target int64) (taken []unitOnNode) {
	for {
		level, lacks := g.lowestLevelBelow(quota, target)
		if !lacks {
			return taken
		}

		u, found := g.bestReleasing(quota, level, target)
		if !found {
			return taken
		}

		jobNode := nowhere // a whole job then frees nothing on its nodes
		if g.jobStates[g.units[u].job].pods > 0 {
			jobNode = none // its single pods may be dropped as superfluous, and what they freed must stay free
		}
		g.addVictim(u, jobNode)
		taken = append(taken, unitOnNode{u, jobNode})
	}
}

// maxReleasingTries bounds how many units the search compares for one step at each level.
const maxReleasingTries = 256

// bestReleasing returns the unit with the least loss for what it releases of what a quota lacks at a level. It is
// the best of those it compares, see maxReleasingTries.
func (g *greedySearch) bestReleasing(quota, level int, target int64) (best int, found bool) {
	lack := target - g.levelsLeft[g.levelsOf[quota].from+level]
	var least lossRate
	// A release counts at its level and at all levels above, so those of lower levels count here too.
	for _, units := range g.releasing[quota][:level+1] {
		tries := 0
		for _, u := range units {
			g.countVisits(1)
			if !g.canChoose(u) {
				continue
			}

			rate := g.addedLoss(u).ratePer(float64(min(lack, g.releaseOf(u, quota))))
			if !found || rate.compare(least) < 0 {
				best = u
				least = rate
				found = true
			}

			// The list begins with the least loss, so its end is not worth the work.
			tries++
			if tries == maxReleasingTries {
				break
			}
		}
	}

	return best, found
}

// releaseOf returns how much of a quota a unit releases, at least 1 so that a loss can be divided by it.
func (m *model) releaseOf(u, quota int) int64 {
	for _, x := range m.releases[u] {
		if x.quota == quota {
			return max(1, x.amount)
		}
	}
	return 1
}

// sortReleasing sets releasing: by quota and level the units that release some, those with the least loss
// for it first. Nothing is set if no unit releases any.
func (g *greedySearch) sortReleasing() {
	if g.releases == nil {
		return
	}

	g.releasing = make([][][]int, len(g.levelsOf))
	for quota, levels := range g.levelsOf {
		g.releasing[quota] = make([][]int, levels.end-levels.from)
	}

	for u, releases := range g.releases {
		for _, x := range releases {
			g.releasing[x.quota][x.level] = append(g.releasing[x.quota][x.level], u)
		}
	}

	g.countVisits(len(g.units))
	for quota, levels := range g.releasing {
		for _, units := range levels {
			rates := make(map[int]lossRate, len(units))
			for _, u := range units {
				rates[u] = g.addedLoss(u).ratePer(float64(g.releaseOf(u, quota)))
			}
			slices.SortFunc(units, func(a, b int) int { return cmp.Or(rates[a].compare(rates[b]), cmp.Compare(a, b)) })
		}
	}
}

// countGainWithReleases returns how many more pods can be placed once a unit is a victim that
// also releases quotas. gainByQuota has how many more fit on nodes then; it is cleared.
func (g *greedySearch) countGainWithReleases(u int) (gain int) {
	set := &g.podSets[g.podSet]
	placeable := func(quota, fitting int) int { return min(fitting, set.countWithinQuota(g.quotas[quota]), set.Count) }

	// Room on nodes and cards of quotas bound each other, so the gain is the difference of two counts: without the releases
	// of the unit, and with them.
	for quota, fitting := range g.fitByQuota[g.podSet] {
		gain -= placeable(quota, fitting)
	}

	g.addRemainingReleases(&g.capacity, u, 1)
	for quota, fitting := range g.fitByQuota[g.podSet] {
		gain += placeable(quota, fitting+g.gainByQuota[quota])
	}

	g.addRemainingReleases(&g.capacity, u, -1)
	clear(g.gainByQuota)
	return max(0, gain)
}

// releaseRequired adds victims until the quotas suffice for what the pods use wherever they
// run, such as CPU and memory, and reports whether they do.
func (s *state) releaseRequired() bool {
	if !s.lacksRequired() {
		return true
	}
	if s.releases == nil {
		return false
	}

	// What all pods use is subtracted from these quotas already, so 0 is enough.
	g := &greedySearch{state: s, podSet: none}
	g.sortReleasing()
	for _, quota := range s.required {
		g.freeNodes(g.releaseUpTo(quota, 0))
	}

	return !s.lacksRequired()
}

// freeNodes makes victims that releaseUpTo added for their quota alone free their nodes too. It drops all of them before,
// the last one first, because what a whole job frees depends on the single pods that became victims before it.
func (g *greedySearch) freeNodes(taken []unitOnNode) {
	for _, x := range slices.Backward(taken) {
		g.dropVictim(x.unit, x.jobNode)
	}
	for _, x := range taken {
		g.addVictim(x.unit, none)
	}
}
