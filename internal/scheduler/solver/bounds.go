package solver

// This file has upper bounds of what victims can free. They prove early that no choice suffices. u is the index of a unit:
// one elastic pod, or a whole job. A jobNode is a job on one of its nodes. countVisits counts work, which a budget bounds.

import (
	"cmp"
	"slices"
)

// capacityWithout returns what is available if all units were victims, beside those that are. That is an upper bound:
// they may be more than their jobs can lose.
func (s *state) capacityWithout(units []int) *capacity {
	all := s.clone()
	wholly := make(map[int]bool, len(units))
	for _, u := range units {
		if x := s.units[u]; x.pod == wholeJob {
			wholly[x.job] = true
		}
	}

	for _, u := range units {
		// A whole job includes its single pods, which would count twice.
		if x := s.units[u]; x.pod == wholeJob || !wholly[x.job] {
			s.forEachJobNode(u, func(jobNode int) { all.addAvailable(s.jobNodes[jobNode].node, s.freedBy(u, jobNode), 1) })
			s.addRemainingReleases(all, u, 1)
		}
	}

	return all
}

// cannotSuffice reports whether the pod sets certainly do not fit, even if all units were victims. False
// proves nothing.
func (s *state) cannotSuffice(units []int) bool {
	all := s.capacityWithout(units)
	if all.isInsufficient() || s.limitsForbid(units) {
		return true
	}

	// A job of which the units have only single pods can lose no more of them, on each node and in each
	// quota, than it has elastic ones left. all counts every unit, so it loses again what such a job keeps.
	wholly, podsAt := s.splitUnits(units)
	for j := range s.jobs {
		job := &s.jobs[j]
		left := max(0, s.jobs[j].elastic-s.jobStates[j].pods)
		// The job may lose any of them, so the bound assumes that the smallest ones stay.
		for i := job.jobNodes.from; i < job.jobNodes.end && !wholly[j]; i++ {
			if len(podsAt[i]) > left {
				all.addAvailable(s.jobNodes[i].node, s.smallestUsages(podsAt[i], len(podsAt[i])-left), -1)
			}
		}

		if s.releases != nil && !wholly[j] && !s.jobStates[j].whole {
			s.subtractSmallestReleases(all, job, left)
		}
	}

	return all.isInsufficient()
}

// splitUnits reports by job whether it is among the units as a whole, and lists by jobNode, which is a job on one of its
// nodes, the pods that are among them alone.
func (s *state) splitUnits(units []int) (wholly []bool, podsAt [][]int) {
	wholly = make([]bool, len(s.jobs))
	podsAt = make([][]int, len(s.jobNodes))
	for _, u := range units {
		if x := s.units[u]; x.pod == wholeJob {
			wholly[x.job] = true
		} else if s.pods[x.pod].jobNode != none {
			podsAt[s.pods[x.pod].jobNode] = append(podsAt[s.pods[x.pod].jobNode], x.pod)
		}
	}

	return wholly, podsAt
}

// smallestUsages returns by resource the sum of the n smallest usages of some pods.
func (s *state) smallestUsages(pods []int, n int) []float64 {
	s.countVisits(len(pods))
	sum := make([]float64, s.dims)
	usages := make([]float64, len(pods))
	for r := range sum {
		for i, p := range pods {
			usages[i] = s.pods[p].usage[r]
		}
		slices.Sort(usages)
		for _, usage := range usages[:n] {
			sum[r] += usage
		}
	}

	return sum
}

// subtractSmallestReleases corrects a capacity that counts the releases of all open single pods of a job, of which the job
// can lose no more than maxPods. It subtracts the smallest releases of each quota, so that an upper bound is left.
func (s *state) subtractSmallestReleases(all *capacity, job *job, maxPods int) {
	releases := map[int][]release{}
	for u := job.units.from; u < job.units.end; u++ {
		if s.units[u].pod != wholeJob && !s.isVictim[u] && s.isOpen(u) {
			for _, x := range s.releases[u] {
				releases[x.quota] = append(releases[x.quota], x)
			}
		}
	}

	for _, list := range releases {
		slices.SortFunc(list, func(a, b release) int { return cmp.Compare(a.amount, b.amount) })
		for _, x := range list[:max(0, len(list)-maxPods)] {
			all.addRelease(x, -1)
		}
	}
}

// scarcestResource returns the resource of which the pod sets need the largest part of what the units give
// back, and how much of it they need. Quotas count as resources too: their indexes follow, as in
// neededAmounts.
func (s *state) scarcestResource(units []int) (resource int, need float64) {
	needs := s.neededAmounts()
	given := make([]float64, s.dims)
	for _, u := range units {
		s.countVisits(1)
		s.forEachJobNode(u, func(jobNode int) {
			for r, amount := range s.freedBy(u, jobNode) {
				given[r] += amount
			}
		})
	}

	// freedBy has amounts of nodes only. Those of quotas follow.
	for r := s.dims; r < len(needs); r++ {
		given = append(given, 0)
		for _, u := range units {
			given[r] += s.amountOf(u, r)
		}
	}

	largest := 0.0
	for r := range needs {
		// A needed resource of which the units give nothing back is the scarcest. epsilon avoids the division
		// by 0.
		if part := needs[r] / max(given[r], epsilon); part > largest {
			resource = r
			need = needs[r]
			largest = part
		}
	}

	return resource, need
}
