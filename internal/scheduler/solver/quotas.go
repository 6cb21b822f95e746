package solver

import (
	"math"
	"slices"
)

// quotaLevels are the quotas of a problem. The levels of a quota are the queue of the pending pods and the queues above
// it: a pod needs cards in all of them.
type quotaLevels struct {
	levels    []int64 // by quota and level: what is left once Uses are subtracted
	levelsOf  []span  // by quota, in levels
	ofCards   []bool  // by quota: whether the pod sets could use cards of it
	required  []int   // quotas that the pod sets use wherever they run
	maxShared int64   // bounds an amount of one pod so that no sum can overflow
}

// maxLevel bounds what is left of a quota, and the sum of all that pods release or count
// against a limit.
const maxLevel = 1 << 60

// addQuotas lays out what is left of the quotas, within maxLevel.
func (q *quotaLevels) addQuotas(p *Problem) {
	for i := range p.Quotas {
		from := len(q.levels)
		for _, left := range p.Quotas[i].Levels {
			q.levels = append(q.levels, min(max(left, -maxLevel), maxLevel))
		}
		q.levelsOf = append(q.levelsOf, span{from, len(q.levels)})
	}
	q.ofCards = make([]bool, len(q.levelsOf))
}

// subtractUses subtracts from the quotas what the pod sets use wherever they run, and lists these quotas in required.
func (m *model) subtractUses(p *Problem) {
	var used []int64
	for i := range p.PodSets {
		for _, x := range p.PodSets[i].Uses {
			if used == nil {
				used = make([]int64, len(m.levelsOf))
			}
			used[x.Quota] = addSaturating(used[x.Quota], multiplySaturating(x.Amount, int64(p.PodSets[i].Count)))
		}
	}

	for quota, amount := range used {
		// Twice the bound makes any level negative, and cannot overflow.
		if amount > 0 {
			m.required = append(m.required, quota)
			for i := m.levelsOf[quota].from; i < m.levelsOf[quota].end; i++ {
				m.levels[i] -= min(amount, 2*maxLevel)
			}
		}
	}
}

func multiplySaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// exceedsQuotas reports whether the pod sets need more than is left in all quotas that they
// could use, even if all jobs were evicted.
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
				if helpful, ok := m.helpfulRelease(x, p.Jobs[j].Level); ok {
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

// release is what a unit (one elastic pod, or a whole job) gives back to a quota, at a level and all levels above it.
type release struct {
	quota, level int
	amount       int64
}

// helpfulRelease returns what a pod releases of a quota from a level on, false if the pod sets do not use the quota, or
// it has no such level.
func (q *quotaLevels) helpfulRelease(x QuotaAmount, level int) (release, bool) {
	levels := q.levelsOf[x.Quota]
	isNeeded := q.ofCards[x.Quota] || slices.Contains(q.required, x.Quota)
	return release{quota: x.Quota, level: level, amount: min(x.Amount, q.maxShared)}, isNeeded && level < levels.end-levels.from
}

// resetQuotas sets the quotas to what is left before any eviction.
func (c *capacity) resetQuotas() {
	c.levelsLeft = slices.Clone(c.levels)
	c.quotas = make([]int64, len(c.levelsOf))
	for quota, levels := range c.levelsOf {
		c.quotas[quota] = slices.Min(c.levels[levels.from:levels.end])
	}
}

// addRelease adds a release to a quota, or subtracts it if sign is -1.
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

// lacksRequired reports whether a quota has too little for what the pod sets use wherever they run.
func (c *capacity) lacksRequired() bool {
	for _, quota := range c.required {
		if c.quotas[quota] < 0 {
			return true
		}
	}
	return false
}

// lowestLevelBelow returns the lowest level of a quota that has less than a target.
func (c *capacity) lowestLevelBelow(quota int, target int64) (level int, found bool) {
	levels := c.levelsOf[quota]
	for i := levels.from; i < levels.end; i++ {
		if c.levelsLeft[i] < target {
			return i - levels.from, true
		}
	}
	return 0, false
}

// isReleasable reports whether any unit releases some of a quota.
func (m *model) isReleasable(quota int) bool { return m.releases != nil && m.releasable[quota] }

// addShared lays out what a unit releases and what it counts against limits. In problems without
// either the lists stay nil, so that these cost no work.
func (b *jobBuilder) addShared(u int, releases []release, takes []take) {
	if len(releases)+len(takes) == 0 {
		return
	}
	b.releases = growTo(b.releases, u+1)
	b.takes = growTo(b.takes, u+1)
	b.releases[u] = releases
	b.takes[u] = takes
	for _, x := range releases {
		b.releasable = growTo(b.releasable, len(b.levelsOf))
		b.releasable[x.quota] = true
	}
}

// growTo lengthens a list to at least n entries.
func growTo[T any](list []T, n int) []T { return append(list, make([]T, max(0, n-len(list)))...) }

// finishShared lengthens the lists of addShared to all units, unless they are nil.
func (m *model) finishShared() {
	if m.releases == nil {
		return
	}
	m.releases = growTo(m.releases, len(m.units))
	m.takes = growTo(m.takes, len(m.units))
	m.releasable = growTo(m.releasable, len(m.levelsOf))
	m.addUnitsOfLimits()
}

// applyShared adds what a unit releases and counts against limits, or subtracts it if sign is -1. A whole job
// includes what its single pods do.
func (s *state) applyShared(u, sign int) {
	s.addRemainingReleases(&s.capacity, u, sign)
	s.applyTakes(u, sign)
}

// addRemainingReleases adds to a capacity what a unit would release beyond what other victims of its job
// release, or subtracts it if sign is -1.
func (s *state) addRemainingReleases(to *capacity, u, sign int) {
	if s.releases == nil {
		return
	}

	x := s.units[u]
	switch {
	case x.pod == wholeJob:
		to.addReleases(u, sign)
		// The whole job includes its single pods. Those that are victims have released theirs.
		s.forEachSingleVictim(x.job, func(v int) { to.addReleases(v, -sign) })
	case !s.jobStates[x.job].whole: // a whole job has released what its pods do
		to.addReleases(u, sign)
	}
}

// forEachSingleVictim calls a function with the unit of every pod of a job that is a victim alone.
func (s *state) forEachSingleVictim(job int, call func(v int)) {
	if s.jobStates[job].pods == 0 {
		return
	}
	units := s.jobs[job].units
	s.countVisits((units.end - units.from) / workPerVisit)
	for v := units.from; v < units.end; v++ {
		if s.units[v].pod != wholeJob && s.isVictim[v] {
			call(v)
		}
	}
}
