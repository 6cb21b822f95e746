package solver

// This file makes a plan cheaper. A unit is one elastic pod or a whole job; u and v are indexes of units. A neighborhood
// is a few units around a victim, about which a search decides again: which of them are victims. countVisits counts work,
// which a budget bounds.

import (
	"cmp"
	"math"
	"slices"
)

const (
	// maxJobNeighbors bounds the units of a victim's job and of jobs that share nodes with it in a neighborhood,
	// maxNeighborhood all units in it.
	maxJobNeighbors = 24
	maxNeighborhood = 32
	// maxSearchTries bounds how many sets of units of a neighborhood are tried.
	maxSearchTries = 5_000
	// sharedSearchFactor is how many times that are tried if victims release quotas or count
	// against limits. The lower bound of the loss leaves out less of those sets.
	sharedSearchFactor = 8
)

// refineVictims searches the neighborhood of each victim for a choice with less loss, until none is
// found or the budget ends. It reports whether it changed any.
func (s *state) refineVictims() (changed bool) {
	// Where the lower bound of all units reaches the loss, no search can help.
	all := s.initialState().newBranchAndBound(s.openUnits())
	if s.exceedsBudget() || !all.canImprove(0, s.loss) {
		return false
	}

	tried := make([]bool, len(s.units)) // a cheaper choice makes its neighbors untried again
	for again := true; again; {
		again = false
		for _, u := range s.byDescendingLoss(s.chosenUnits()) {
			if tried[u] || !s.isVictim[u] {
				continue
			}
			if s.exceedsBudget() {
				return changed
			}

			tried[u] = true
			neighborhood := s.neighborhoodOf(u, all.options)
			if s.searchCheaper(neighborhood) {
				s.pruneVictims()
				again = true
				changed = true
				// Other victims around a unit can make a choice cheaper that was not before.
				for _, v := range neighborhood {
					tried[v] = false
				}
			}
		}
	}

	return changed
}

// neighborhoodOf lists units around a victim, nearest first: those of its job, those of jobs that share nodes
// with it, directly or through other jobs, and then those of promising jobs, whose units have the least loss for what they
// free.
func (s *state) neighborhoodOf(u int, promising []option) []int {
	n := &neighborhood{state: s, seen: map[int]bool{}, open: map[int][]int{}}
	job := s.units[u].job
	n.addJob(job, maxJobNeighbors)
	if len(n.jobs) == 0 { // its job alone has too many units
		n.units = n.neighborsInJob(u, n.open[job], promising)
		n.seen[job] = true
	}

	n.addJobsOnSharedNodes()
	n.addPromisingJobs(u, promising)
	return n.units
}

// addJobsOnSharedNodes adds jobs on the nodes of the jobs in the neighborhood. Those jobs add their neighbors in
// turn.
func (n *neighborhood) addJobsOnSharedNodes() {
	for i := 0; i < len(n.jobs) && len(n.units) < maxJobNeighbors; i++ {
		jobNodes := n.model.jobs[n.jobs[i]].jobNodes
		for j := jobNodes.from; j < jobNodes.end; j++ {
			n.countVisits(1)
			for _, x := range n.unitsOn[n.jobNodes[j].node] {
				n.addJob(n.model.units[x.unit].job, maxJobNeighbors)
			}
		}
	}
}

// addPromisingJobs adds the jobs of promising units that could replace the victim u: they use cards of its quota, or
// of one with cards left, or release quotas themselves.
func (n *neighborhood) addPromisingJobs(u int, promising []option) {
	isUsable := n.quotasLeft()
	n.forEachJobNode(u, func(jobNode int) { isUsable[n.nodeQuota[n.jobNodes[jobNode].node]] = true })
	for i := range promising {
		v := promising[i].unit
		if len(n.units) >= maxNeighborhood {
			break
		}

		job := n.model.units[v].job
		n.forEachJobNode(v, func(jobNode int) {
			n.countVisits(1)
			if isUsable[n.nodeQuota[n.jobNodes[jobNode].node]] {
				n.addJob(job, maxNeighborhood)
			}
		})
		if n.releases != nil && len(n.releases[v]) > 0 {
			n.addJob(job, maxNeighborhood)
		}
	}
}

// neighborhood is units that the search decides about together.
type neighborhood struct {
	*state
	jobs, units []int
	seen        map[int]bool  // by job
	open        map[int][]int // open units by job: a large job is listed once, not for each of its units
}

// addJob adds the open units of a job, unless the neighborhood would then have more units than most.
func (n *neighborhood) addJob(job, most int) {
	if n.seen[job] {
		return
	}

	open, listed := n.open[job]
	if !listed {
		open = n.openUnitsOfJob(job)
		n.open[job] = open
		n.countVisits(len(open))
	}

	if len(n.units)+len(open) <= most {
		n.seen[job] = true
		n.jobs = append(n.jobs, job)
		n.units = append(n.units, open...)
	}
}

// openUnitsOfJob lists the units of a job that the current choice decides about.
func (n *neighborhood) openUnitsOfJob(job int) (open []int) {
	for u := n.state.jobs[job].units.from; u < n.state.jobs[job].units.end; u++ {
		if n.isOpen(u) {
			open = append(open, u)
		}
	}
	return open
}

// quotasLeft reports for each quota whether more room on its nodes can help: it has cards left for more pods than fit
// there now, or victims release it.
func (n *neighborhood) quotasLeft() []bool {
	quotas := make([]bool, len(n.quotas))
	for quota := range quotas {
		quotas[quota] = n.isReleasable(quota)
	}
	for podSet := range n.podSets {
		for quota, placeable := range n.fitByQuota[podSet] {
			quotas[quota] = quotas[quota] || placeable < n.podSets[podSet].countWithinQuota(n.quotas[quota])
		}
	}
	return quotas
}

// neighborsInJob lists units around a victim of a job with too many units: its other victims by descending loss in at most
// half of the places, then the most promising units that could replace them.
func (n *neighborhood) neighborsInJob(u int, open []int, promising []option) []int {
	n.countVisits(len(open) + len(promising))
	taken := n.byDescendingLoss(slices.DeleteFunc(open, func(v int) bool { return v == u || !n.isVictim[v] }))
	units := append([]int{u}, taken[:min(len(taken), maxJobNeighbors/2)]...)
	for i := range promising {
		if v := promising[i].unit; len(units) < maxJobNeighbors && n.state.units[v].job == n.state.units[u].job && !n.isVictim[v] {
			units = append(units, v)
		}
	}
	return units
}

// searchCheaper decides again which of some units are victims, and reports whether that found a smaller loss. If not,
// the victims stay as they are.
func (s *state) searchCheaper(units []int) bool {
	before := s.loss
	var dropped []int
	for _, u := range units {
		if s.isVictim[u] {
			s.dropVictim(u, none)
			dropped = append(dropped, u)
		}
	}

	search := s.newBranchAndBound(units)
	search.potential = s.capacityWithout(units)
	search.lossBound = before
	search.hasBound = true
	search.triesLeft = maxSearchTries
	if s.releases != nil {
		search.triesLeft *= sharedSearchFactor
	}

	search.searchFrom(0, true) // no option is decided yet, and the victims left are unchecked
	// Without a cheaper set the former victims must come back.
	if !search.found {
		search.bestSet = dropped
	}

	for _, u := range search.bestSet {
		s.addVictim(u, none)
	}

	return search.found
}

// searchAllSets looks for any set of units that suffices, and makes its units victims. complete reports whether it tried
// all sets, so that finding none is a proof.
func (s *state) searchAllSets() (found, complete bool) {
	search := s.newBranchAndBound(s.openUnits())
	search.potential = s.capacityWithout(s.openUnits())
	search.triesLeft = 10 * maxSearchTries // without it there is no plan, so it may try more than a search for a cheaper one
	search.searchFrom(0, true)
	for _, u := range search.bestSet {
		s.addVictim(u, none)
	}
	return search.found, search.triesLeft >= 0 && !search.exceedsBudget()
}

// branchAndBound tries sets of units in order: with each unit, then without it.
//
// Its lower bound of the loss looks at the scarcest resource alone. It assumes that units
// can be evicted in part, those with the least loss per amount first.
type branchAndBound struct {
	*state
	options  []option
	cheapest []int // indexes of options, the lowest rate first
	// need is how much of the scarcest resource was lacking at the beginning, gained how much of that the
	// chosen options free.
	need, gained float64
	potential    *capacity // the capacity if all units that are not left out are victims
	lossBound    Loss      // what a set must stay below
	hasBound     bool
	triesLeft    int
	bestSet      []int
	found        bool
}

// newBranchAndBound returns a search that has not begun. It sorts units by their loss per amount of the scarcest resource.
// Whole jobs come before single pods, which depend on the decision about their job.
func (s *state) newBranchAndBound(units []int) *branchAndBound {
	resource, need := s.scarcestResource(units)
	search := &branchAndBound{state: s, need: need, options: make([]option, len(units)), cheapest: make([]int, len(units))}
	// epsilon avoids a division by 0 for a unit that frees nothing of that resource.
	for i, u := range units {
		x := option{unit: u, loss: s.unitLoss(u)}
		x.amount = s.amountOf(u, resource)
		x.rate = x.loss.ratePer(max(x.amount, epsilon))
		search.options[i] = x
		search.cheapest[i] = i
	}

	single := func(x option) int { return min(s.units[x.unit].pod-wholeJob, 1) } // 0 for a whole job, 1 for a pod
	slices.SortFunc(search.options, func(a, b option) int {
		return cmp.Or(cmp.Compare(single(a), single(b)), a.rate.compare(b.rate), cmp.Compare(a.unit, b.unit))
	})

	slices.SortFunc(search.cheapest, func(a, b int) int {
		return cmp.Or(search.options[a].rate.compare(search.options[b].rate), cmp.Compare(a, b))
	})
	return search
}

// searchFrom decides about the options from an index on, and records the best set that it finds. It leaves the state as it
// is. isUnchecked means that it must check whether the current victims suffice: after a victim was added, not after an
// option was left out.
func (b *branchAndBound) searchFrom(at int, isUnchecked bool) {
	b.triesLeft--
	if b.triesLeft < 0 || b.exceedsBudget() || (b.hasBound && !b.canImprove(at, b.lossBound)) {
		return
	}

	if isUnchecked && b.fitsAll() {
		// More victims can only lose more, so nothing below this set is better.
		b.recordBest(at)
		return
	}

	if at == len(b.options) || b.potential.isInsufficient() {
		return
	}

	u := b.options[at].unit
	// Its job is a victim as a whole and includes it, so there is nothing to decide.
	if b.jobStates[b.model.units[u].job].whole {
		b.searchFrom(at+1, false)
		return
	}

	if b.canChoose(u) {
		b.addVictim(u, none)
		b.gained += b.options[at].amount
		b.searchFrom(at+1, true)
		b.gained -= b.options[at].amount
		b.dropVictim(u, none)
	}

	b.leaveOut(u, -1)
	b.searchFrom(at+1, false)
	b.leaveOut(u, 1)
}

// recordBest records the current set of victims as the best so far. Options from an index on are not decided yet.
func (b *branchAndBound) recordBest(at int) {
	b.lossBound = b.loss
	b.hasBound = true
	b.found = true
	b.bestSet = b.bestSet[:0]
	for i := range b.options[:at] {
		if u := b.options[i].unit; b.isVictim[u] {
			b.bestSet = append(b.bestSet, u)
		}
	}
}

// leaveOut subtracts from the potential capacity what a unit frees if sign is -1, and adds it again if it is 1. A
// job that is not evicted as a whole can still lose its elastic pods, so their part stays.
func (b *branchAndBound) leaveOut(u int, sign float64) {
	if b.releases != nil {
		b.potential.addReleases(u, int(sign))
	}

	if p := b.units[u].pod; p != wholeJob {
		if jobNode := b.pods[p].jobNode; jobNode != none {
			b.potential.addAvailable(b.jobNodes[jobNode].node, b.pods[p].usage, sign)
		}
		return
	}

	job := &b.jobs[b.units[u].job]
	for i := job.jobNodes.from; i < job.jobNodes.end; i++ {
		b.potential.addAvailable(b.jobNodes[i].node, b.jobNodes[i].usage, sign)
	}

	for v := job.units.from; v < job.units.end; v++ {
		if b.units[v].pod != wholeJob {
			b.leaveOut(v, -sign)
		}
	}
}

// option is a unit with its loss and its amount of the scarcest resource.
type option struct {
	unit   int
	amount float64
	loss   Loss
	rate   lossRate // loss per amount
}

// canImprove reports whether the current victims, with some of the options from an index on, may free enough and
// lose less than most. It compares most with a lower bound of the loss: the least if each option could be evicted in
// part. What is lacking and what an option frees are amounts of the scarcest resource.
func (b *branchAndBound) canImprove(at int, most Loss) bool {
	if b.loss.compare(most) >= 0 {
		return false
	}

	lacking := b.need - b.gained
	lowerBound := b.loss.ratePer(1) // the loss itself, in fractions
	for _, i := range b.cheapest {
		x := &b.options[i]
		if lacking <= 0 {
			break
		}
		if i < at || x.amount == 0 { // it is decided already, or frees nothing of this resource
			continue
		}

		part := min(1, lacking/x.amount)
		for k, loss := range x.loss.ratePer(1) {
			lowerBound[k] += part * loss
		}

		lacking -= x.amount
	}

	// Where something is lacking still, all options together do not free enough.
	return lacking <= epsilon*b.need && lowerBound.canBeBelow(most.ratePer(1))
}

// canBeBelow reports whether a loss of at least l can be below most. The first part that differs by more than rounding
// decides: losses of whole jobs come before those of single pods.
func (l lossRate) canBeBelow(most lossRate) bool {
	for i, part := range most {
		if margin := epsilon * math.Max(1, part); math.Abs(l[i]-part) > margin {
			return l[i] < part
		}
	}
	return false
}
