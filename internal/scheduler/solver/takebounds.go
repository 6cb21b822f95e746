package solver

// This file has what the pod sets need, and upper bounds of what victims can give back of it within the limits of
// takes.go. A unit is one elastic pod or a whole job; u is the index of a unit. A take that onlyCounts uses up a limit, but
// the limit cannot refuse it. countVisits counts work, which a budget bounds.

import (
	"cmp"
	"slices"
)

// epsilon allows for the rounding of sums.
const epsilon = 1e-9

// neededAmounts returns by resource how much the pod sets need beside what is free on nodes. If units release
// quotas, two kinds of resources follow: the cards that the quotas lack in all, and what each required quota
// lacks. A required quota is one that the pods use wherever they run: of CPU or memory. A negative need is
// none.
func (s *state) neededAmounts() []float64 {
	needs := make([]float64, s.dims)
	for i := range s.podSets {
		for r, request := range s.podSets[i].Request {
			needs[r] += request * float64(s.podSets[i].Count)
		}
	}

	s.countVisits(len(s.nodeQuota))
	for node, wanted := range s.wantedNodes {
		if wanted {
			for r, have := range s.availableOn(node) {
				// The pods may run elsewhere, so a node on which too much runs counts as full, not as a need.
				// Requests may exceed by the tolerance what a node has.
				needs[r] -= max(0, have) + s.tolerances[r]
			}
		}
	}

	if s.releases == nil {
		return needs
	}

	// What is left of a required quota has the use of the pod sets subtracted already: below 0 it lacks
	// something.
	needs = append(needs, s.neededCards())
	for _, quota := range s.required {
		needs = append(needs, -float64(s.quotas[quota]))
	}

	return needs
}

// neededCards returns how many cards the pod sets need beside what is left in the quotas of cards that they
// could use. If there is only one such quota and it is below 0, victims must release that too. Of several,
// the pods need not use that one.
func (s *state) neededCards() (need float64) {
	for i := range s.podSets {
		need += float64(s.podSets[i].Cards) * float64(s.podSets[i].Count)
	}

	quotas := 0
	only := 0.0
	for quota, hasCards := range s.ofCards {
		if hasCards {
			quotas++
			only = float64(s.quotas[quota])
			need -= max(0, only)
		}
	}

	if quotas == 1 {
		need -= min(0, only)
	}

	return need
}

// amountOf returns how much a unit gives back of a resource beside its job's victims. Resources are numbered
// as neededAmounts lists them: first those of nodes, then the cards of all quotas, then each required quota.
// A quota has a level for each queue up to the root. Only what the unit releases at the level with the least
// left counts.
func (s *state) amountOf(u, resource int) (amount float64) {
	if resource < s.dims {
		s.forEachJobNode(u, func(jobNode int) { amount += s.freedBy(u, jobNode)[resource] })
		return amount
	}

	addReleases := func(v int, sign float64) {
		for _, x := range s.releases[v] {
			isOfResource := s.ofCards[x.quota] // resource s.dims is the cards of all quotas
			if resource > s.dims {
				isOfResource = x.quota == s.required[resource-s.dims-1]
			}
			// quotas has the least of all levels, so this is the first level that has so little. A release
			// counts at its own level and at all above.
			if level, _ := s.lowestLevelBelow(x.quota, s.quotas[x.quota]+1); isOfResource && x.level <= level {
				amount += sign * float64(x.amount)
			}
		}
	}

	s.countVisits(1)
	addReleases(u, 1)
	if x := s.units[u]; x.pod == wholeJob {
		// Its single victims have released their part already.
		s.forEachSingleVictim(x.job, func(v int) { addReleases(v, -1) })
	}

	return amount
}

// limitBound bounds what units give back within the limits.
type limitBound struct{ *state }

// limitsForbid reports whether the limits keep the units from giving back enough of some resource. True is
// certain: the amounts that it compares with the needs are upper bounds. False is not certain. Each part of a
// job counts against only one of its limits. Within each limit it takes the most that fractions of parts
// could give.
func (s *state) limitsForbid(units []int) bool {
	if s.takes == nil { // no unit counts against a limit
		return false
	}

	bound := limitBound{s}
	groups := bound.groupByLimit(bound.partsOf(units))
	for r, need := range s.neededAmounts() {
		given := 0.0
		for i, group := range groups {
			// Group i is that of limit i-1. Group 0 has no limit: none is -1.
			given += bound.mostGiven(i-1, group, r)
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
	podsOfJob := make([][]int, len(b.jobs))
	b.countVisits(len(units))
	for _, u := range units {
		if x := b.units[u]; x.pod != wholeJob {
			podsOfJob[x.job] = append(podsOfJob[x.job], u)
			parts = append(parts, jobPart{unit: u})
		}
	}

	// All single pods are known now: a whole job is only what they leave of it.
	for _, u := range units {
		if x := b.units[u]; x.pod == wholeJob {
			parts = append(parts, jobPart{unit: u, minus: podsOfJob[x.job]})
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

// groupByLimit groups parts, each by the tightest of its limits: the one that allows the smallest fraction of
// all parts that it could refuse. Group 0 has the parts that no limit could refuse, and those of jobs that
// have victims already. Group i has those of limit i-1.
func (b limitBound) groupByLimit(parts []jobPart) [][]jobPart {
	sums := make([]float64, len(b.limits)) // by limit: what the parts that it could refuse count against it
	for _, part := range parts {
		for _, x := range b.takes[part.unit] {
			if !x.onlyCounts {
				sums[x.limit] += float64(b.takenOf(part, x.limit))
			}
		}
	}

	groups := make([][]jobPart, len(b.limits)+1)
	for _, part := range parts {
		group := 0
		smallest := 1.0 // a limit that allows all of its parts refuses none
		for _, x := range b.takes[part.unit] {
			fraction := b.leftToTake(x.limit) / max(sums[x.limit], 1) // the sum is 0 where all only count
			// A job with victims counts only what it adds, which its parts do not say. So no limit bounds it here.
			if !x.onlyCounts && fraction < smallest && b.jobStates[b.units[part.unit].job].pods == 0 && b.takenOf(part, x.limit) > 0 {
				group = x.limit + 1
				smallest = fraction
			}
		}
		groups[group] = append(groups[group], part)
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
	// An offer is what one part gives back of the resource, and how much it counts against the limit: more
	// than 0, because groupByLimit puts no other part into the group of a limit.
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
	slices.SortFunc(offers, func(x, y offer) int { return cmp.Compare(y.amount*x.taken, x.amount*y.taken) })
	most = 0
	left := b.leftToTake(limit)
	for _, x := range offers {
		fraction := min(1, left/x.taken)
		most += fraction * max(0, x.amount)
		left -= fraction * x.taken
	}

	return most
}
