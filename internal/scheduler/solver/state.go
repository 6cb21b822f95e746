package solver

// A unit is what is evicted in one step: one elastic pod, or a whole job. u is the index of a unit. A jobNode is a job on
// one of its nodes. countVisits counts work, which a budget bounds.

import "slices"

// state is the victims chosen so far, and what their eviction frees.
type state struct {
	capacity
	loss        Loss
	isVictim    []bool     // by unit
	jobStates   []jobState // by job
	roleVictims []int      // by role: how many pods are victims
	taken       []int64    // by limit: how much the victims count against it
	refusable   []int64    // by limit: the part of taken that the limit could refuse, see take.onlyCounts
	leftToFree  []float64  // by jobNode and resource: what the job's other pods use there
	places      [][]int    // by pod set: the nodes when several pod sets last fitted
}

// jobState is the victims of one job. If the whole job is a victim, the loss of its single
// pods is part of that.
type jobState struct {
	whole bool
	// pods is how many pods are victims alone, loss their loss in card-seconds.
	pods int
	loss int64
}

// newState returns the state without victims.
func newState(m *model) *state {
	s := &state{
		capacity:    m.newCapacity(),
		isVictim:    make([]bool, len(m.units)),
		jobStates:   make([]jobState, len(m.jobs)),
		roleVictims: make([]int, len(m.roleElastic)),
		taken:       make([]int64, len(m.limits)),
		refusable:   make([]int64, len(m.limits)),
		leftToFree:  make([]float64, 0, len(m.jobNodes)*m.dims),
	}
	for i := range m.jobNodes {
		s.leftToFree = append(s.leftToFree, m.jobNodes[i].usage...)
	}

	return s
}

// initialState returns the state in which a choice begins, with the preselected victims.
func (m *model) initialState() *state {
	m.countVisits(len(m.units) / workPerVisit) // a work of 1 for each unit
	s := newState(m)
	for u, given := range m.preselected {
		if given && s.canAddVictim(u) {
			s.addVictim(u, none)
		}
	}
	return s
}

// chosenUnits lists the victims except those that were preselected.
func (s *state) chosenUnits() []int {
	return slices.DeleteFunc(s.openUnits(), func(u int) bool { return !s.isVictim[u] })
}

// fitsAll reports whether all pod sets can be placed. Of several pod sets it stores the places, of one it only counts.
func (s *state) fitsAll() bool {
	if s.isInsufficient() {
		return false
	}
	if len(s.order) == 1 {
		return true
	}

	// Several pod sets can compete for a node, so counts do not prove that all fit.
	place := s.placePods()
	if place != nil {
		s.places = place
	}
	return place != nil
}

// canChoose reports whether the current choice may add a unit to the victims.
func (s *state) canChoose(u int) bool { return s.isOpen(u) && s.canAddVictim(u) }

// canAddVictim reports whether a unit may become a victim beside the others: its job has enough elastic pods left, in all
// and of the pod's role, and the limits allow it.
func (s *state) canAddVictim(u int) bool {
	x := s.units[u]
	job := &s.jobs[x.job]
	victims := &s.jobStates[x.job]
	switch {
	case s.isVictim[u] || victims.whole:
		return false
	case x.pod == wholeJob:
		return s.takes == nil || s.canTake(u)
	case victims.pods >= job.elastic:
		return false
	}

	role := s.pods[x.pod].role
	return (role == none || s.roleVictims[role] < s.roleElastic[role]) && (s.takes == nil || s.canTake(u))
}

// addedLoss returns what adding a unit to the victims adds to the loss. A whole job includes its single victims.
func (s *state) addedLoss(u int) Loss {
	loss := s.unitLoss(u)
	if s.units[u].pod == wholeJob {
		loss.PodSeconds -= s.jobStates[s.units[u].job].loss
	}
	return loss
}

// freedBy returns what a unit frees at a jobNode when it becomes a victim. A whole job frees what its single victims have
// not freed yet.
func (s *state) freedBy(u, jobNode int) []float64 {
	if p := s.units[u].pod; p != wholeJob {
		return s.pods[p].usage
	}
	return s.leftToFree[jobNode*s.dims : (jobNode+1)*s.dims]
}

// nowhere, as a jobNode, means that a whole job frees nothing on nodes.
const nowhere = -2

// addVictim adds a unit to the victims. With a jobNode instead of none, a whole job frees only what it uses there, which
// saves the work for its other nodes during a trial. dropVictim must get the same jobNode.
func (s *state) addVictim(u, jobNode int) {
	s.loss = s.loss.plus(s.addedLoss(u))
	s.applyUnit(u, jobNode, 1)
	s.isVictim[u] = true
}

// dropVictim undoes addVictim.
func (s *state) dropVictim(u, jobNode int) {
	s.isVictim[u] = false
	s.applyUnit(u, jobNode, -1)
	// The loss of a whole job includes that of its single pods, so a pod beside it takes no loss away.
	if s.units[u].pod == wholeJob || !s.jobStates[s.units[u].job].whole {
		s.loss = s.loss.minus(s.addedLoss(u))
	}
}

// applyUnit adds to the state what a unit frees on nodes, releases of quotas and counts against limits, or subtracts it if
// sign is -1. A whole job frees what its single victims have not freed: on all its nodes if jobNode is none, on no node if
// it is nowhere (where only quotas matter), otherwise at that jobNode alone (where only one node matters).
func (s *state) applyUnit(u, jobNode, sign int) {
	// releases is nil if no unit releases a quota or counts against a limit. What a unit still releases
	// depends on the job's other victims, so it is applied before these change.
	if s.releases != nil {
		s.applyShared(u, sign)
	}

	x := s.units[u]
	victims := &s.jobStates[x.job]
	if x.pod == wholeJob {
		victims.whole = sign > 0
		jobNodes := s.jobs[x.job].jobNodes
		switch jobNode {
		case none:
		case nowhere:
			jobNodes = span{}
		default:
			jobNodes = span{jobNode, jobNode + 1}
		}

		for i := jobNodes.from; i < jobNodes.end; i++ {
			s.addAvailable(s.jobNodes[i].node, s.freedBy(u, i), float64(sign))
		}

		return
	}

	pod := &s.pods[x.pod]
	victims.pods += sign
	victims.loss += int64(sign) * s.unitLoss(u).PodSeconds

	if pod.role != none {
		s.roleVictims[pod.role] += sign
	}

	// No pending pod could run on the node, so what is freed there does not matter.
	if pod.jobNode == none {
		return
	}

	// The whole job would free only what this pod has not freed.
	left := s.leftToFree[pod.jobNode*s.dims : (pod.jobNode+1)*s.dims]
	for i, amount := range pod.usage {
		left[i] -= float64(sign) * amount
	}

	// If the job is a victim as a whole too, it has freed the pod already.
	if !victims.whole {
		s.addAvailable(s.jobNodes[pod.jobNode].node, pod.usage, float64(sign))
	}
}

// pruneVictims drops every victim of the current choice that is not needed, those with the largest loss first. It
// tries each once: what all others cannot replace, fewer cannot either. If the budget
// ends before that, it drops only victims that the current places of the pending pods do not need.
func (s *state) pruneVictims() {
	for _, u := range s.chosenUnits() {
		if x := s.units[u]; x.pod != wholeJob && s.jobStates[x.job].whole {
			s.dropVictim(u, none) // the whole job includes it
		}
	}
	s.dropNeedless(s.byDescendingLoss(s.chosenUnits()))
	if s.exceedsBudget() {
		s.pruneForPlaces()
	}
}

// pruneForPlaces drops every victim that the current places of the pending pods do not need. That costs less
// than another placement of the pods without each victim. Victims of the highest rank come first, then those
// with the largest loss.
func (s *state) pruneForPlaces() {
	places := s.places
	if len(s.order) == 1 { // fitsAll stores the places of several pod sets only
		places = s.placePods()
	}

	needed := make([]bool, len(s.available))    // by node and resource
	neededQuotas := make([]bool, len(s.quotas)) // by quota; the pods use required ones wherever they run
	for _, quota := range s.required {
		neededQuotas[quota] = true
	}

	// reserve subtracts what the pods use in their places, or adds it again if sign is -1. It also notes in
	// needed and neededQuotas what they use.
	reserve := func(sign int) {
		for podSet, nodes := range places {
			for _, node := range nodes {
				s.useCards(podSet, node, -sign)
				neededQuotas[s.nodeQuota[node]] = neededQuotas[s.nodeQuota[node]] || s.podSets[podSet].Cards > 0
				s.addAvailable(node, s.podSets[podSet].Request, -float64(sign))
				for r, request := range s.podSets[podSet].Request {
					needed[node*s.dims+r] = needed[node*s.dims+r] || request > 0
				}
			}
		}
	}

	// With the places reserved, a victim is needless if nothing that the pods use falls below 0 without it.
	reserve(1)
	for _, u := range s.byDescendingLoss(s.chosenUnits()) {
		s.dropVictim(u, none)
		if s.lacksNeeded(u, needed, neededQuotas) {
			s.addVictim(u, none)
		}
	}

	reserve(-1)
}

// lacksNeeded reports whether, with the places reserved, a node of a unit has too little of a resource that is needed
// there, or a needed quota that the unit releases is below 0.
func (s *state) lacksNeeded(u int, needed, neededQuotas []bool) (lacks bool) {
	if s.releases != nil {
		for _, x := range s.releases[u] {
			lacks = lacks || (neededQuotas[x.quota] && s.quotas[x.quota] < 0)
		}
	}

	s.forEachJobNode(u, func(jobNode int) {
		node := s.jobNodes[jobNode].node
		for r, have := range s.availableOn(node) {
			lacks = lacks || (needed[node*s.dims+r] && have < -Tolerance)
		}
	})

	return lacks
}

// dropNeedless drops those of the given victims without which the pending pods still fit: all at once if
// possible, otherwise it tries each half in the same way. It stops where the budget ends.
func (s *state) dropNeedless(units []int) {
	if len(units) == 0 || s.exceedsBudget() {
		return
	}

	for _, u := range units {
		s.dropVictim(u, none)
	}

	if s.fitsAll() {
		return
	}

	for _, u := range units {
		s.addVictim(u, none)
	}

	// Where few victims are needed, one placement of the pods decides about many at once.
	if half := len(units) / 2; half > 0 {
		s.dropNeedless(units[:half])
		s.dropNeedless(units[half:])
	}
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
	s.countVisits((units.end - units.from) / workPerVisit) // a work of 1 for each unit
	for v := units.from; v < units.end; v++ {
		if s.units[v].pod != wholeJob && s.isVictim[v] {
			call(v)
		}
	}
}
