package solver

// This file has the limits of what victims may be taken from queues of a tree (TakeLimit). A limit of what is borrowed
// depends on the order in which victims are taken. A unit is one elastic pod or a whole job; u and v are indexes of units.

import (
	"cmp"
	"slices"
)

// take is how much a unit counts against a limit.
type take struct {
	limit  int
	amount int64
	// last is the part of amount that the last step takes. A pod is taken in one step. Of a whole job the pods that
	// it can spare are taken before, one by one.
	last int64
	// onlyCounts is set if the limit does not refuse the unit, see Pod.OnlyCounts.
	onlyCounts bool
}

// takeLimit is a TakeLimit with the units that count against it.
type takeLimit struct {
	most     int64
	borrowed bool // see TakeLimit.Borrowed: what the last step takes may exceed most
	units    []int
	largest  int64 // the most that the last step can take: the largest last part of one unit
	// isTight reports whether the jobs have more than most. Otherwise the limit allows any
	// choice.
	isTight bool
}

// takesOf returns what a pod counts against limits, false if that is too much to add up without overflow.
func (b *jobBuilder) takesOf(fromPod *Pod) ([]take, bool) {
	var takes []take
	for _, x := range fromPod.Takes {
		if x.Amount > b.maxShared {
			return nil, false
		}
		if x.Amount > 0 {
			onlyCounts := fromPod.OnlyCounts && b.problem.TakeLimits[x.Limit].Borrowed
			takes = addTake(takes, take{x.Limit, x.Amount, x.Amount, onlyCounts})
		}
	}

	isTooMuch := func(x take) bool { return x.amount > b.maxShared }
	return takes, !slices.ContainsFunc(takes, isTooMuch)
}

// addTake adds a take to a list that has each limit once. A limit may refuse the sum if it may refuse a part of it.
func addTake(takes []take, x take) []take {
	if i := slices.IndexFunc(takes, func(y take) bool { return y.limit == x.limit }); i >= 0 {
		takes[i].amount = takes[i].amount + x.amount
		takes[i].last = takes[i].last + x.last
		takes[i].onlyCounts = takes[i].onlyCounts && x.onlyCounts
		return takes
	}
	return append(takes, x)
}

// elasticTake is what a pod that may be evicted alone counts against limits, and its role.
type elasticTake struct {
	role  int
	takes []take
}

// setLastTakes sets for each limit of what is borrowed which part of a whole job is taken last: what is left without
// as many pods as the job can spare, at least one pod. Those with the least amounts are taken
// before, because then the last part is the largest. pods are those that may be evicted alone.
func (b *jobBuilder) setLastTakes(fromJob *Job, whole []take, pods []elasticTake) {
	for i := range whole {
		x := &whole[i]
		if !b.limits[x.limit].borrowed {
			continue
		}

		slices.SortStableFunc(pods, func(a, b elasticTake) int { return cmp.Compare(a.amountOf(x.limit), b.amountOf(x.limit)) })
		elastic := min(fromJob.Elastic, len(fromJob.Pods)-1)
		roles := slices.Clone(fromJob.RoleElastic)
		for _, pod := range pods {
			if elastic <= 0 || (roles != nil && roles[pod.role] <= 0) {
				continue
			}

			elastic--
			if roles != nil {
				roles[pod.role]--
			}
			x.last -= pod.amountOf(x.limit)
		}
	}
}

// amountOf returns what the pod counts against a limit.
func (e *elasticTake) amountOf(limit int) int64 {
	if i := slices.IndexFunc(e.takes, func(x take) bool { return x.limit == limit }); i >= 0 {
		return e.takes[i].amount
	}
	return 0
}

// addRelease adds a release to a list that has each quota once. All of its releases are of one job, so they begin at the
// same level.
func addRelease(releases []release, x release) []release {
	if i := slices.IndexFunc(releases, func(y release) bool { return y.quota == x.quota }); i >= 0 {
		releases[i].amount += x.amount
		return releases
	}
	return append(releases, x)
}

// addLimits lays out the limits, within maxLevel.
func (m *model) addLimits(p *Problem) {
	for _, limit := range p.TakeLimits {
		m.limits = append(m.limits, takeLimit{most: min(limit.Most, maxLevel), borrowed: limit.Borrowed})
	}
}

// addUnitsOfLimits sets for each limit the units that count against it, and what follows from these.
func (m *model) addUnitsOfLimits() {
	for u, takes := range m.takes {
		for _, x := range takes {
			limit := &m.limits[x.limit]
			limit.units = append(limit.units, u)
			if !x.onlyCounts {
				limit.largest = max(limit.largest, x.last)
			}
		}
	}

	for i := range m.limits {
		m.limits[i].isTight = m.mostTaken(i) > m.limits[i].most
	}
}

// mostTaken returns what all jobs together could count against a limit.
func (m *model) mostTaken(limit int) (most int64) {
	units := m.limits[limit].units
	for k := 0; k < len(units); {
		// A job is a victim as a whole or by its pods, and its units follow each other.
		job := m.units[units[k]].job
		var whole, pods int64
		for ; k < len(units) && m.units[units[k]].job == job; k++ {
			for _, x := range m.takes[units[k]] {
				switch {
				case x.limit != limit:
				case m.units[units[k]].pod == wholeJob:
					whole += x.amount
				default:
					pods += x.amount
				}
			}
		}
		most += max(whole, pods)
	}

	return most
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

// applyTakes adds to the sums what a unit counts against limits, or subtracts it if sign is -1. A whole job counts only
// what its single victims have not counted.
func (s *state) applyTakes(u, sign int) {
	add := func(v, sign int) {
		for _, x := range s.takes[v] {
			s.taken[x.limit] += int64(sign) * x.amount
			if !x.onlyCounts {
				s.refusable[x.limit] += int64(sign) * x.amount
			}
		}
	}

	x := s.units[u]
	if x.pod == wholeJob {
		add(u, sign)
		s.forEachSingleVictim(x.job, func(v int) { add(v, -sign) })
	} else if !s.jobStates[x.job].whole {
		add(u, sign)
	}
}

// canTake reports whether the limits allow that a unit becomes a victim too. Some order of taking all of them must allow
// each by all its limits, see TakeLimit.
func (s *state) canTake(u int) bool {
	if len(s.takes[u]) == 0 {
		return true
	}

	// The unit is counted only during this check.
	s.applyTakes(u, 1)
	defer s.applyTakes(u, -1)

	canBeLast := true // for each limit that is exceeded
	for _, x := range s.takes[u] {
		limit := &s.limits[x.limit]
		excess := s.taken[x.limit] - limit.most
		switch {
		case excess <= 0 || s.refusable[x.limit] == 0:
		case !limit.borrowed || excess >= limit.largest:
			return false
		default:
			canBeLast = canBeLast && !x.onlyCounts && excess < x.last
		}
	}

	// The victims have an order without the unit. If it can be taken last by each limit, it follows them, and no
	// search for another order is needed.
	return canBeLast || s.hasOrder(u)
}

// hasOrder reports whether some order of taking the victims and one more unit satisfies the
// limits of what is borrowed. It finds an order from its end: the last unit, the last but one, and so on. It never
// has to go back: if all have an order, so have those that are left, whichever was put last.
//
// It ends when no limit is exceeded by what is left, for then each order does. A limit all of whose units only
// count allows every order too. Units that only count come first: what is taken by another rule leaves less that
// is borrowed.
func (s *state) hasOrder(added int) bool {
	left := slices.Clone(s.taken)
	refusable := slices.Clone(s.refusable)
	removed := map[int]bool{}
	for {
		last := none
		exceeded := false
		for i := range s.limits {
			limit := &s.limits[i]
			if !limit.borrowed || left[i] <= limit.most || refusable[i] == 0 {
				continue
			}

			exceeded = true
			s.countVisits(len(limit.units))
			if k := slices.IndexFunc(limit.units, func(v int) bool {
				return !removed[v] && s.isTakenWith(v, added) && s.canBeLast(v, left, refusable)
			}); k >= 0 {
				last = limit.units[k]
				break
			}
		}

		if last == none {
			return !exceeded
		}

		removed[last] = true
		for _, x := range s.takes[last] {
			left[x.limit] -= x.amount
			if !x.onlyCounts {
				refusable[x.limit] -= x.amount
			}
		}
	}
}

// isTakenWith reports whether a unit counts against limits once another is added to the victims.
// A pod does not count beside its whole job, which includes it.
func (s *state) isTakenWith(v, added int) bool {
	if v == added {
		return true
	}
	job := s.units[v].job
	isPart := s.units[v].pod != wholeJob && (s.jobStates[job].whole || s.units[added] == unit{job, wholeJob})
	return s.isVictim[v] && !isPart
}

// canBeLast reports whether all limits allow that a unit is taken last. taken is what all units count against them,
// this one included. refusable is the part of it that the limits could refuse.
func (s *state) canBeLast(v int, taken, refusable []int64) bool {
	for _, x := range s.takes[v] {
		limit := &s.limits[x.limit]
		switch {
		case !limit.borrowed:
		case x.onlyCounts && refusable[x.limit] > 0 && taken[x.limit] > limit.most:
			return false // the others of the limit must come after it
		case !x.onlyCounts && taken[x.limit]-x.last >= limit.most:
			return false
		}
	}
	return true
}
