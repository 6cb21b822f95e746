package solver

// This file has upper bounds of what victims can give back within the limits of takes.go. A unit is one elastic pod or a
// whole job; u is the index of a unit.

import (
	"cmp"
	"slices"
)

// limitBound bounds what units give back within the limits.
type limitBound struct{ *state }

// limitsForbid reports whether the limits keep the units from giving back enough of some
// resource. True is a proof, false is none: it counts each part of a job against only one of its limits, and
// takes the most that parts can give within each limit.
func (s *state) limitsForbid(units []int) bool {
	if s.takes == nil {
		return false
	}

	bound := limitBound{s}
	groups := bound.groupByLimit(bound.partsOf(units))
	for r, need := range s.neededAmounts() {
		given := 0.0
		for limit, group := range groups {
			// The first group has no limit, and none is the number before the first limit.
			given += bound.mostGiven(limit-1, group, r)
			if given >= need*(1-epsilon) {
				break
			}
		}

		if need > 0 && given < need*(1-epsilon) {
			return true
		}
	}

	return false
}

// jobPart is a pod that may be evicted alone, or a whole job without such pods. Each choice of
// a job's units is a choice of its parts.
type jobPart struct {
	unit  int
	minus []int // of a whole job: the units of its pods that are parts of their own
}

// partsOf returns the parts that units consist of: each pod, and what is left of each whole job without these pods.
func (b limitBound) partsOf(units []int) (parts []jobPart) {
	single := make([][]int, len(b.jobs))
	b.countVisits(len(units))
	for _, u := range units {
		if x := b.units[u]; x.pod != wholeJob {
			single[x.job] = append(single[x.job], u)
			parts = append(parts, jobPart{unit: u})
		}
	}

	// All single pods are known now: a whole job is only what they leave of it.
	for _, u := range units {
		if x := b.units[u]; x.pod == wholeJob {
			parts = append(parts, jobPart{unit: u, minus: single[x.job]})
		}
	}

	return parts
}

// takenOf returns how much a part counts against a limit.
func (b limitBound) takenOf(part jobPart, limit int) (amount int64) {
	of := func(u int) int64 {
		i := slices.IndexFunc(b.takes[u], func(x take) bool { return x.limit == limit })
		if i < 0 {
			return 0
		}
		return b.takes[u][i].amount
	}

	amount = of(part.unit)
	for _, u := range part.minus {
		amount -= of(u)
	}

	return amount
}

// groupByLimit groups parts, each by the tightest of its limits: the one that allows the smallest fraction of all parts
// that count against it. The first group is of parts without a limit that could refuse them, and of jobs that have victims
// already.
func (b limitBound) groupByLimit(parts []jobPart) [][]jobPart {
	sums := make([]float64, len(b.limits))
	for _, part := range parts {
		for _, x := range b.takes[part.unit] {
			if !x.onlyCounts {
				sums[x.limit] += float64(b.takenOf(part, x.limit))
			}
		}
	}

	groups := make([][]jobPart, len(b.limits)+1)
	for _, part := range parts {
		at := 0
		least := 1.0
		for _, x := range b.takes[part.unit] {
			fraction := b.leftToTake(x.limit) / max(sums[x.limit], 1)
			// A job with victims counts only what it adds, which its parts do not say. So no limit bounds it here.
			if !x.onlyCounts && fraction < least && b.jobStates[b.units[part.unit].job].pods == 0 && b.takenOf(part, x.limit) > 0 {
				at = x.limit + 1
				least = fraction
			}
		}
		groups[at] = append(groups[at], part)
	}

	return groups
}

// leftToTake returns an upper bound of how much more may be taken by a limit.
func (b limitBound) leftToTake(limit int) float64 {
	l := &b.limits[limit]
	left := l.most - b.taken[limit]
	// The last step may begin where one less than most is taken, and take as much as the largest one.
	if l.borrowed && l.most > 0 {
		left += max(l.largest, 1) - 1
	}
	return float64(max(left, 0))
}

// mostGiven returns an upper bound of how much of a resource parts of jobs give back within a limit, or without
// one if it is none. It is the most if fractions of parts could be taken.
func (b limitBound) mostGiven(limit int, parts []jobPart, resource int) (most float64) {
	type offer struct{ amount, taken float64 }
	var offers []offer
	for _, part := range parts {
		x := offer{amount: b.amountOf(part.unit, resource)}
		for _, u := range part.minus {
			x.amount -= b.amountOf(u, resource)
		}

		most += max(0, x.amount)
		if limit != none {
			x.taken = float64(b.takenOf(part, limit))
			offers = append(offers, x)
		}
	}

	if limit == none {
		return most
	}

	// Fractions of offers, those that give most for what they count first, give at least as much as any
	// choice of whole offers.
	slices.SortFunc(offers, func(a, b offer) int { return cmp.Compare(b.amount*a.taken, a.amount*b.taken) })
	most = 0
	left := b.leftToTake(limit)
	for _, x := range offers {
		part := min(1, left/x.taken)
		most += part * max(0, x.amount)
		left -= part * x.taken
	}

	return most
}
