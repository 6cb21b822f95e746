package solver

// This file has the limits of what victims may be taken from queues of a tree (TakeLimit). A limit of what is
// borrowed depends on the order in which victims are taken: the last may exceed it, if less than the limit
// was taken before. A unit is one elastic pod or a whole job; u and v are indexes of units. A take that
// onlyCounts uses up a limit, but the limit cannot refuse it. countVisits counts work, which a budget bounds.

import "slices"

// applyTakes adds to the sums what a unit counts against limits, or subtracts it if sign is -1. A whole job counts only
// what its single victims have not counted. A pod that another rule may take too counts, but the limit cannot refuse it
// (onlyCounts), so refusable leaves it out.
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

// canTake reports whether the limits allow that a unit becomes a victim too: in some order of taking all
// victims, all limits must allow each of them. A pod is taken in one step. Of a whole job, the pods that it
// can spare are taken before its last part.
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
		// A limit all of whose victims only count refuses none of them.
		case excess <= 0 || s.refusable[x.limit] == 0:
		// Only a limit of what is borrowed may be exceeded, and only by less than the largest last part of a victim.
		case !limit.borrowed || excess >= limit.largest:
			return false
		default: // the unit can be last if less than the limit is taken before its last part
			canBeLast = canBeLast && !x.onlyCounts && excess < x.last
		}
	}

	// The victims have an order without the unit. If it can be taken last by each limit, it follows them, and no
	// search for another order is needed.
	return canBeLast || s.hasOrder(u)
}

// hasOrder reports whether the victims and one more unit can be taken in some order that satisfies the limits
// of what is borrowed. The order matters to no other limit. It finds an order from its end: the last unit,
// the last but one, and so on. It never has to go back: if all have an order, so have those that are left,
// whichever was put last.
//
// It ends when no limit is exceeded by what is left, for then each order does. A limit all of whose units
// only count allows every order too. Of an exceeded limit, units that only count are never put last
// (canBeLast): what they take first leaves less that is borrowed.
func (s *state) hasOrder(added int) bool {
	left := slices.Clone(s.taken) // what the units that have no place in the order yet count
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
