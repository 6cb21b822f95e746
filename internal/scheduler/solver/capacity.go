package solver

// This file counts what nodes and quotas have available. u is the index of a unit: one elastic pod, or a whole job. A quota
// has a level for each queue from the pending pods' own up to the root. countVisits counts work, which a budget bounds.

import "slices"

// capacity is what is available on every node, and how many pods of each pod set fit there.
type capacity struct {
	*model
	available  []float64 // by node and resource
	levelsLeft []int64   // by quota and level
	quotas     []int64   // by quota: the least of its levels
	fitCounts  [][]int   // by pod set and node; none where the pod set cannot run
	fitByQuota [][]int   // by pod set and quota
	onlyPodSet int       // the pod set that is counted, none for all
}

// newCapacity returns what is available before any eviction.
func (m *model) newCapacity() capacity {
	c := capacity{model: m, available: slices.Clone(m.nodeFree)}
	c.resetQuotas()
	for range m.podSets {
		c.fitCounts = append(c.fitCounts, make([]int, len(m.nodeQuota)))
		c.fitByQuota = append(c.fitByQuota, make([]int, len(m.levelsOf)))
	}
	c.countFor(none)
	return c
}

// resetQuotas sets the quotas to what is left before any eviction.
func (c *capacity) resetQuotas() {
	c.levelsLeft = slices.Clone(c.levels)
	c.quotas = make([]int64, len(c.levelsOf))
	for quota, levels := range c.levelsOf {
		c.quotas[quota] = slices.Min(c.levels[levels.from:levels.end])
	}
}

// clone returns a deep copy.
func (c *capacity) clone() *capacity {
	c.countVisits(len(c.fitCounts) * len(c.nodeQuota) / 8) // copying is fast
	copied := &capacity{model: c.model, onlyPodSet: c.onlyPodSet, available: slices.Clone(c.available), levelsLeft: slices.Clone(c.levelsLeft), quotas: slices.Clone(c.quotas)}
	for i := range c.fitCounts {
		copied.fitCounts = append(copied.fitCounts, slices.Clone(c.fitCounts[i]))
		copied.fitByQuota = append(copied.fitByQuota, slices.Clone(c.fitByQuota[i]))
	}
	return copied
}

func (c *capacity) availableOn(node int) []float64 { return c.available[node*c.dims : (node+1)*c.dims] }

// addAvailable adds amounts to what a node has available, or subtracts them if sign is -1.
func (c *capacity) addAvailable(node int, amounts []float64, sign float64) {
	have := c.availableOn(node)
	for i := range have {
		have[i] += sign * amounts[i]
	}
	if c.onlyPodSet != none {
		c.updateFit(c.onlyPodSet, node)
		return
	}
	for i := range c.podSets {
		c.updateFit(i, node)
	}
}

// updateFit counts again how many pods of a pod set fit on a node, after a change there.
func (c *capacity) updateFit(podSet, node int) {
	c.countVisits(1)
	if set := &c.podSets[podSet]; set.wantsNode[node] {
		n := set.countFitting(c.availableOn(node))
		c.fitByQuota[podSet][c.nodeQuota[node]] += n - c.fitCounts[podSet][node]
		c.fitCounts[podSet][node] = n
	}
}

// countFor counts for one pod set from now on, or for all of them if that is none. The counts of the others become stale,
// which saves work while only one pod set is placed.
func (c *capacity) countFor(only int) {
	c.onlyPodSet = only
	for i := range c.podSets {
		if only != none && only != i {
			continue
		}

		set := &c.podSets[i]
		c.countVisits(len(set.Nodes))
		clear(c.fitByQuota[i])
		for _, node := range set.Nodes {
			c.fitCounts[i][node] = set.countFitting(c.availableOn(node))
			c.fitByQuota[i][c.nodeQuota[node]] += c.fitCounts[i][node]
		}
	}
}

// countPlaceable returns how many pods of a pod set fit on nodes, at most all of them. quotas has by quota how many cards
// are left.
func (c *capacity) countPlaceable(podSet int, quotas []int64) int {
	set := &c.podSets[podSet]
	n := 0
	for quota, placeable := range c.fitByQuota[podSet] {
		n += min(placeable, set.countWithinQuota(quotas[quota]), set.Count)
	}
	return min(n, set.Count)
}

// isInsufficient reports whether some pod set does not fit even if no other pod set is placed, or a quota of CPU or memory
// does not suffice. False does not mean that several pod sets fit together.
func (c *capacity) isInsufficient() bool {
	if c.lacksRequired() {
		return true
	}
	for i := range c.podSets {
		if c.countPlaceable(i, c.quotas) < c.podSets[i].Count {
			return true
		}
	}
	return false
}

// lacksRequired reports whether a quota has too little for what the pod sets use wherever they run.
func (c *capacity) lacksRequired() bool {
	for _, quota := range c.required {
		if c.quotas[quota] < 0 {
			return true
		}
	}
	return false
}

// exceedsQuotas reports whether the pod sets certainly need more than the quotas have left, even if all jobs
// were evicted: more cards than all quotas of cards together, or more CPU or memory.
func (m *model) exceedsQuotas(p *Problem) bool {
	var need int64
	for i := range m.podSets {
		set := &m.podSets[i]
		need = addSaturating(need, multiplySaturating(set.Cards, int64(set.Count)))
	}

	all := &capacity{model: m}
	all.resetQuotas()
	if !all.lacksQuota(need) {
		return false
	}

	// It takes long to count the releases of all jobs, so that comes only where the quotas do not suffice alone.
	for j := range p.Jobs {
		m.countVisits(len(p.Jobs[j].Pods))
		for i := range p.Jobs[j].Pods {
			for _, x := range p.Jobs[j].Pods[i].Releases {
				if helpful, ok := m.helpfulRelease(x, p.Jobs[j].Level); ok { // the pod sets use the quota
					all.addRelease(helpful, 1)
				}
			}
		}
	}

	return all.lacksQuota(need)
}

// lacksQuota reports whether all quotas of cards together have less left than the needed cards, or a required
// quota has too little.
func (c *capacity) lacksQuota(need int64) bool {
	var have int64
	for quota, hasCards := range c.ofCards {
		if hasCards {
			have = addSaturating(have, max(c.quotas[quota], 0))
		}
	}
	return need > have || c.lacksRequired()
}

// addRelease adds a release to a quota, or subtracts it if sign is -1. It counts at its own level and at all above.
func (c *capacity) addRelease(x release, sign int) {
	c.countVisits(1)
	levels := c.levelsLeft[c.levelsOf[x.quota].from:c.levelsOf[x.quota].end]
	for level := x.level; level < len(levels); level++ {
		levels[level] += int64(sign) * x.amount
	}
	c.quotas[x.quota] = slices.Min(levels)
}

// addReleases adds to the quotas all that a unit releases, for a whole job that of all its pods. It subtracts that if sign
// is -1.
func (c *capacity) addReleases(u, sign int) {
	for _, x := range c.releases[u] {
		c.addRelease(x, sign)
	}
}

// useCards subtracts a placed pod's cards from the quota of its node if sign is -1, and adds them again if it is 1.
func (c *capacity) useCards(podSet, node, sign int) {
	if cards := c.podSets[podSet].Cards; cards > 0 {
		levels := c.levelsOf[c.nodeQuota[node]]
		for i := levels.from; i < levels.end; i++ {
			c.levelsLeft[i] += int64(sign) * cards
		}
		c.quotas[c.nodeQuota[node]] += int64(sign) * cards
	}
}

// lowestLevelBelow returns the lowest level of a quota that has less than a target: 0 is the pending pods' own queue.
func (c *capacity) lowestLevelBelow(quota int, target int64) (level int, found bool) {
	levels := c.levelsOf[quota]
	for i := levels.from; i < levels.end; i++ {
		if c.levelsLeft[i] < target {
			return i - levels.from, true
		}
	}
	return 0, false
}
