package solver

// This file decides about one rank after the other, and chooses victims in each. Ranks come from the caller (Job.Rank,
// Pod.Rank): for cardreclaim, victimorder.go of that package sets them. A unit is one elastic pod or a whole job, u is
// its index. chosen are the units that the choices in higher ranks made victims. Preselected units are victims before a
// choice begins, and open ones are those about which it decides.

import (
	"slices"
	"sort"
)

// chooseByRank chooses units of a rank only where lower ranks do not suffice, and in each rank
// those with the least loss. It decides about one rank after the other, beginning with the
// highest that must lose anything. For each it assumes that lower ranks lose all they can. When the budget for ranks
// ends, the ranks below do lose all they can, except what is needless: that is dropped, the highest rank first.
func (m *model) chooseByRank() *state {
	// With one rank there is nothing to decide about ranks. Where limits count, the proof that they leave too
	// little costs less than a search.
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

	m.outOfBudget = m.outOfBudget || rank > 0 // lower ranks are undecided, and may lose more than they must
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
	clear(m.preselected) // so that it decides about all units
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
	m.countVisits(len(m.units) / workPerVisit) // a work of 1 for each unit
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
	pods := 0
	roles := map[int]int{}
	for u := job.units.from; u < job.units.end; u++ {
		if x := m.units[u]; x.pod != wholeJob && (m.unitRanks[u] <= m.currentRank || m.preselected[u]) {
			pods++
			if role := m.pods[x.pod].role; role != none {
				roles[role]++
				if roles[role] > m.roleElastic[role] {
					return false
				}
			}
		}
	}

	return pods <= job.elastic
}

// chooseUnits chooses victims among the open units: it finds a first plan, and makes it cheaper as far as the budget
// allows. It returns nil if it finds none, and sets outOfBudget if that is no proof.
func (m *model) chooseUnits() *state {
	s := m.firstPlan()
	if s == nil {
		s = m.initialState()
		// This is a proof that no plan exists, so it does not matter what the budget left untried.
		if s.cannotSuffice(m.openUnits()) {
			m.outOfBudget = false
			return nil
		}

		// A greedy choice can use up what the only sufficient set needs, so all sets get a try.
		m.allowSearchingAll()
		found, complete := s.searchAllSets()
		if !found {
			m.outOfBudget = !complete
			return nil
		}

		m.allowPruning()
		s.pruneVictims()
	}

	before := m.work
	m.allowRefining()
	changed := s.refineVictims()
	// All ranks share one budget for cheaper plans.
	m.refineBudget = max(0, m.refineBudget-(m.work-before))
	if changed {
		m.allowPruning()
		s.pruneVictims()
	}

	return s
}

// firstPlan returns a plan without trying alternatives, nil if it finds none. It chooses victims
// greedily, or takes all open units if that fails, and drops the needless ones.
func (m *model) firstPlan() *state {
	s := m.initialState()
	greedy := s.chooseGreedily()
	// The greedy search has no bound, but its work counts. Pruning gets a bound that begins after it.
	m.allowPruning()
	if !greedy {
		s = m.chooseAllUnits()
		if s == nil {
			return nil
		}
		m.allowPruning()
	}

	s.pruneVictims()
	return s
}

// chooseAllUnits returns the state with all open units as victims. It returns nil if they do not suffice.
func (m *model) chooseAllUnits() *state {
	all := m.initialState()
	// A job that is a victim as a whole frees what its elastic pods would, so whole jobs come first.
	for _, wholeJobs := range []bool{true, false} {
		for u, x := range m.units {
			if (x.pod == wholeJob) == wholeJobs && all.canChoose(u) {
				all.addVictim(u, none)
			}
		}
	}

	if !all.fitsAll() {
		return nil
	}

	return all
}

// hasTightLimit reports whether a limit may forbid some choice of a job's units.
func (m *model) hasTightLimit(job *job) bool {
	if m.takes == nil {
		return false
	}
	for u := job.units.from; u < job.units.end; u++ {
		for _, x := range m.takes[u] {
			if m.limits[x.limit].isTight {
				return true
			}
		}
	}
	return false
}
