package solver

// This file decides about one rank after the other. Ranks come from the caller (Job.Rank, Pod.Rank): for cardreclaim,
// victimorder.go of that package sets them. A unit is one elastic pod or a whole job, u is its index. chosen are the units
// that the choices in higher ranks made victims.

import (
	"slices"
	"sort"
)

// addRanks sets the rank of each unit, numbered from 0 without gaps. A whole job has at least the
// rank of each of its pods.
func (m *model) addRanks(p *Problem) {
	m.unitRanks = make([]int, len(m.units))
	m.preselected = make([]bool, len(m.units))
	for u, x := range m.units {
		job := &p.Jobs[x.job]
		if x.pod != wholeJob {
			m.unitRanks[u] = job.Pods[x.pod-m.jobs[x.job].pods.from].Rank
			continue
		}

		m.unitRanks[u] = job.Rank
		for i := range job.Pods {
			m.unitRanks[u] = max(m.unitRanks[u], job.Pods[i].Rank)
		}
	}

	// The search counts through the ranks, and would try those in a gap in vain.
	ranks := slices.Compact(slices.Sorted(slices.Values(m.unitRanks)))
	for u, rank := range m.unitRanks {
		m.unitRanks[u], _ = slices.BinarySearch(ranks, rank)
	}

	m.currentRank = len(ranks) - 1
}

// chooseByRank chooses units of a rank only where lower ranks do not suffice, and in each rank
// those with the least loss. It decides about one rank after the other, beginning with the
// highest that must lose anything. For each it assumes that lower ranks lose all they can. When the budget for ranks
// ends, it keeps that for the ranks below, and drops what is needless, the highest rank first.
func (m *model) chooseByRank() *state {
	// With one rank there is nothing to decide about ranks.
	if m.currentRank <= 0 {
		if m.takes != nil && m.initialState().cannotSuffice(m.openUnits()) {
			return nil
		}
		return m.chooseUnits()
	}

	highest := m.currentRank
	chosen := []int(nil)
	m.prepareRank(highest, chosen)
	if m.initialState().cannotSuffice(m.openUnits()) {
		return nil
	}

	rank := m.highestNeededRank(highest, chosen)
	// This budget ends only the choices of lower ranks. Without the first there is no plan.
	end := m.work + m.linearWork(rankVisits)
	best := m.chooseInRank(rank, chosen)
	if best == nil {
		return nil
	}

	for rank > 0 && m.work <= end {
		chosen = append(chosen, best.chosenOfRank(rank)...)
		// What the higher ranks lose may suffice, and then lower ranks lose nothing.
		m.prepareRank(none, chosen)
		if s := m.initialState(); s.fitsAll() {
			return m.pruneAcrossRanks(s, highest)
		}

		next := m.highestNeededRank(rank-1, chosen)
		if m.work > end {
			break
		}

		s := m.chooseInRank(next, chosen)
		if s == nil { // the rank suffices, but the search did not find how
			break
		}

		best = s
		rank = next
	}

	m.outOfBudget = m.outOfBudget || rank > 0
	return m.pruneAcrossRanks(best, highest)
}

// chosenOfRank lists the chosen units of one rank.
func (s *state) chosenOfRank(rank int) []int {
	return slices.DeleteFunc(s.chosenUnits(), func(u int) bool { return s.unitRanks[u] != rank })
}

// chooseInRank chooses units of one rank beside those that higher ranks lose, while lower ranks lose all they can. It
// returns nil if the search finds none that suffice.
func (m *model) chooseInRank(rank int, chosen []int) *state {
	m.prepareRank(rank, chosen)
	return m.chooseUnits()
}

// highestNeededRank returns the highest rank that must lose anything beside what higher ranks lose, if
// all ranks up to top suffice. It asks first whether that is top, as it usually is.
func (m *model) highestNeededRank(top int, chosen []int) int {
	if top > 0 && !m.ranksSuffice(top-1, chosen) {
		return top
	}
	return sort.Search(max(0, top-1), func(rank int) bool { return m.ranksSuffice(rank, chosen) })
}

// pruneAcrossRanks drops victims of all ranks that the choices about lower ranks made needless, and returns the state.
// Elastic pods of different ranks can replace each other. highest is the highest rank of all.
func (m *model) pruneAcrossRanks(s *state, highest int) *state {
	m.currentRank = highest
	clear(m.preselected)
	m.allowPruning()
	s.pruneVictims()
	return s
}

// ranksSuffice reports whether the search finds enough among the units up to a rank, beside those that higher ranks lose.
// It leaves the model prepared for that rank.
func (m *model) ranksSuffice(rank int, chosen []int) (enough bool) {
	wasOutOfBudget := m.outOfBudget
	// A trial that suffices is no reason to report the budget, whatever it left untried.
	defer func() { m.outOfBudget = wasOutOfBudget || (m.outOfBudget && !enough) }()
	m.outOfBudget = false
	m.prepareRank(rank, chosen)
	if m.initialState().cannotSuffice(m.openUnits()) {
		return false
	}
	m.allowPruning()
	return m.chooseAllUnits() != nil || m.chooseUnits() != nil
}

// prepareRank prepares the choice in one rank, in which none has no units. Chosen units, which higher ranks lose, are
// victims, and other units of higher ranks are not. Units of lower ranks have no loss for now, and those that block no
// other choice are victims until their own rank is decided.
func (m *model) prepareRank(rank int, chosen []int) {
	m.countVisits(len(m.units) / workPerVisit)
	m.currentRank = rank
	clear(m.preselected)
	for _, u := range chosen {
		m.preselected[u] = true
	}
	for j := range m.jobs {
		m.preselectLowerRanks(&m.jobs[j])
	}
}

// preselectLowerRanks makes victims of what a job could lose in ranks below the current one: the whole job, or its
// elastic pods. It selects no pods if they are more than the job can lose beside
// those of this rank, and nothing where that could use up a limit that other jobs need.
func (m *model) preselectLowerRanks(job *job) {
	m.countVisits(1)
	if m.hasTightLimit(job) {
		return
	}
	if job.wholeUnit != none && m.unitRanks[job.wholeUnit] < m.currentRank {
		m.preselected[job.wholeUnit] = true
		return
	}

	if !m.canLoseAllPods(job) {
		return
	}

	for u := job.units.from; u < job.units.end; u++ {
		if m.units[u].pod != wholeJob && m.unitRanks[u] < m.currentRank {
			m.preselected[u] = true
		}
	}
}

// canLoseAllPods reports whether a job can lose at once all single pods that are preselected, or of
// ranks up to the current one.
func (m *model) canLoseAllPods(job *job) bool {
	asked := 0
	roles := map[int]int{}
	for u := job.units.from; u < job.units.end; u++ {
		if x := m.units[u]; x.pod != wholeJob && (m.unitRanks[u] <= m.currentRank || m.preselected[u]) {
			asked++
			if role := m.pods[x.pod].role; role != none {
				roles[role]++
				if roles[role] > m.roleElastic[role] {
					return false
				}
			}
		}
	}

	return asked <= job.elastic
}

// isOpen reports whether the current choice decides about a unit: it is not above the current rank, and not a victim
// already.
func (m *model) isOpen(u int) bool { return m.unitRanks[u] <= m.currentRank && !m.preselected[u] }

// openUnits lists the units that the current choice decides about.
func (m *model) openUnits() []int {
	var open []int
	for u := range m.units {
		if m.isOpen(u) {
			open = append(open, u)
		}
	}
	return open
}

// initialState returns the state in which a choice begins, with the preselected victims.
func (m *model) initialState() *state {
	m.countVisits(len(m.units) / workPerVisit)
	s := newState(m)
	for u, given := range m.preselected {
		if given && s.canAddVictim(u) {
			s.addVictim(u, none)
		}
	}
	return s
}
