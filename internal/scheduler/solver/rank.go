package solver

import (
	"slices"
	"sort"
)

// addRanks numbers the ranks of all units from 0 on without gaps. A job as a whole has
// at least the rank of each of its pods.
func (m *model) addRanks(p *Problem) {
	m.rank, m.given = make([]int, len(m.units)), make([]bool, len(m.units))
	for u, x := range m.units {
		job := &p.Jobs[x.job]
		if x.pod != whole {
			m.rank[u] = job.Pods[x.pod-m.jobs[x.job].pods.from].Rank
			continue
		}
		m.rank[u] = job.Rank
		for i := range job.Pods {
			m.rank[u] = max(m.rank[u], job.Pods[i].Rank)
		}
	}
	ranks := slices.Compact(slices.Sorted(slices.Values(m.rank)))
	for u, rank := range m.rank {
		m.rank[u], _ = slices.BinarySearch(ranks, rank)
	}
	m.top = len(ranks) - 1
}

// chooseByRank takes units of a rank only where those below it do not suffice, and of
// each rank those that lose least. Beginning with the highest rank that must lose
// anything, it decides about one rank after the other: with what the ranks above gave,
// and with all that the ranks below could give. When the effort for ranks ends, that is
// taken and pruned, the highest rank first.
func (m *model) chooseByRank() *state {
	if m.top <= 0 {
		return m.choose()
	}
	highest, fixed := m.top, []int(nil)
	m.decideAbout(highest, fixed)
	if m.start().potential(m.open()).short() {
		return nil
	}
	top, end := m.needed(highest, fixed), m.effort+m.linear(mostRanking)
	last := m.chooseIn(top, fixed)
	if last == nil {
		return nil
	}
	for top > 0 && m.effort <= end {
		for _, u := range last.chosen() {
			if m.rank[u] == top {
				fixed = append(fixed, u)
			}
		}
		m.decideAbout(none, fixed)
		if s := m.start(); s.enough() {
			return m.settle(s, highest)
		}
		next := m.needed(top-1, fixed)
		if m.effort > end {
			break
		}
		s := m.chooseIn(next, fixed)
		if s == nil { // it suffices, and how was not found
			break
		}
		last, top = s, next
	}
	m.cut = m.cut || top > 0
	return m.settle(last, highest)
}

// chooseIn chooses units of one rank beside fixed ones. That something was cut before stays
// known, unless it is certain now that nobody suffices.
func (m *model) chooseIn(rank int, fixed []int) *state {
	cut := m.cut
	m.decideAbout(rank, fixed)
	s := m.choose()
	m.cut = m.cut || cut && s != nil
	return s
}

// needed is the highest rank that must lose anything beside fixed units, where all ranks
// up to top suffice. Mostly that is top: the ranks below did not suffice before.
func (m *model) needed(top int, fixed []int) int {
	if top > 0 && !m.suffices(top-1, fixed) {
		return top
	}
	return sort.Search(max(0, top-1), func(rank int) bool { return m.suffices(rank, fixed) })
}

// settle takes back what the choices about lower ranks made needless: pods that a job
// can spare in either rank replace each other.
func (m *model) settle(s *state, highest int) *state {
	m.top = highest
	clear(m.given)
	m.allowPruning()
	s.prune()
	return s
}

// suffices reports whether units up to a rank are enough together with fixed ones.
func (m *model) suffices(rank int, fixed []int) (enough bool) {
	cut := m.cut
	defer func() { m.cut = cut || m.cut && !enough }()
	m.cut = false
	m.decideAbout(rank, fixed)
	if m.start().potential(m.open()).short() {
		return false
	}
	m.allowPruning()
	return m.everything() != nil || m.choose() != nil
}

// decideAbout prepares the choice of units of one rank. Fixed units are taken, units of
// higher ranks are not. Units of lower ranks lose nothing for now, and those that stand
// in nobody's way are taken until the choice about their own rank.
func (m *model) decideAbout(rank int, fixed []int) {
	m.look(len(m.units) / ofLook)
	m.top = rank
	clear(m.given)
	for _, u := range fixed {
		m.given[u] = true
	}
	for j := range m.jobs {
		m.giveBelow(&m.jobs[j])
	}
}

// giveBelow gives what a job could lose in lower ranks than the one that is decided
// about: the whole job, else its single pods, unless it cannot spare all of those that
// are asked for.
func (m *model) giveBelow(job *job) {
	m.look(1)
	if job.whole != none && m.rank[job.whole] < m.top {
		m.given[job.whole] = true
		return
	}
	asked, roles := 0, map[int]int{}
	for u := job.units.from; u < job.units.end; u++ {
		if x := m.units[u]; x.pod != whole && (m.rank[u] <= m.top || m.given[u]) {
			asked++
			if role := m.pods[x.pod].role; role != none {
				if roles[role]++; roles[role] > m.roles[role] {
					return
				}
			}
		}
	}
	if asked > job.spare {
		return
	}
	for u := job.units.from; u < job.units.end; u++ {
		if m.units[u].pod != whole && m.rank[u] < m.top {
			m.given[u] = true
		}
	}
}

// isOpen reports whether a unit is up to the choice.
func (m *model) isOpen(u int) bool { return m.rank[u] <= m.top && !m.given[u] }

// open lists the units that are up to the choice.
func (m *model) open() []int {
	var open []int
	for u := range m.units {
		if m.isOpen(u) {
			open = append(open, u)
		}
	}
	return open
}

// start is the state in which a choice begins: what is given is taken.
func (m *model) start() *state {
	m.look(len(m.units) / ofLook)
	s := newState(m)
	for u, given := range m.given {
		if given && s.canTake(u) {
			s.take(u, none)
		}
	}
	return s
}
