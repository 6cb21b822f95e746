// Package solver chooses the victims with the least loss whose eviction lets pending pods run.
// It evicts elastic pods before whole jobs, see Loss.
//
// The package is pure: it has no client, no clock and no logger. The caller decides which pods
// may be evicted, and in which order at equal loss.
//
// In this package, a unit is what is evicted in one step: one elastic pod, or a whole job. u and v are indexes of units.
package solver

// Result is the result of a search.
type Result struct {
	// Plan is nil if the search found none.
	Plan *Plan
	// Work is what the search cost, in the unit of MaxWork.
	Work int
	// OutOfBudget reports whether the search ended at its budget. A cheaper plan, or the first
	// one, may exist then.
	OutOfBudget bool
}

// Solve returns the plan with the least loss that it finds. That is the least there is for a
// small problem, and close to it for a large one. There is no plan if some pending pods cannot
// be placed, whatever is evicted. maxWork bounds the work that makes the first plan cheaper, in the unit of MaxWork. The
// first plan has a budget of its own, also where only a search of all sets of victims finds it.
func Solve(p *Problem, maxWork int) Result {
	pending, indexes := p.withoutEmptyPodSets()
	m := newModel(pending)
	plan := m.findPlan(pending, min(maxWork, MaxWork))

	// The caller's pod sets include empty ones, which have no places.
	if plan != nil {
		places := make([][]int, len(p.PodSets))
		for i, nodes := range plan.Places {
			places[indexes[i]] = nodes
		}
		plan.Places = places
	}
	return Result{Plan: plan, Work: m.work, OutOfBudget: m.outOfBudget}
}

// findPlan returns a plan for the model's problem, nil if it finds none. It looks for one without victims first. maxWork
// bounds the work that makes a plan cheaper.
func (m *model) findPlan(p *Problem, maxWork int) *Plan {
	// No eviction helps beyond what the quotas allow, and to see that needs no layout of the jobs.
	if m.exceedsQuotas(p) {
		return nil
	}

	// A reclaimer that fits into free capacity evicts no pod.
	m.allowPruning()
	free := m.newCapacity()
	if !free.isInsufficient() {
		if place := free.placePods(); place != nil {
			return &Plan{Places: place}
		}
	}

	m.addJobs(p)
	m.refineBudget = maxWork
	best := m.chooseByRank()
	if best == nil {
		return nil
	}

	return best.toPlan(p)
}

// toPlan returns the victims and places as a Plan, with the true losses of the problem.
func (s *state) toPlan(p *Problem) *Plan {
	plan := &Plan{Places: s.places}
	// For one pod set the search only counts pods (see fitsAll), so they have no nodes yet.
	if len(s.order) == 1 {
		plan.Places = s.placePods()
	}

	for j := range s.jobs {
		job := &s.jobs[j]
		victims := JobVictims{Job: j}
		for u := job.units.from; u < job.units.end; u++ {
			if x := s.units[u]; s.isVictim[u] && x.pod == wholeJob { // the last unit of its job
				victims.Whole = true
				victims.Pods = nil
			} else if s.isVictim[u] {
				victims.Pods = append(victims.Pods, x.pod-job.pods.from)
			}
		}

		// The search counts no loss below its rank, and bounds what one victim loses. The plan states the
		// true sums.
		switch {
		case victims.Whole:
			plan.Loss.Jobs++
			plan.Loss.JobSeconds = addSaturating(plan.Loss.JobSeconds, p.Jobs[j].WholeLoss)
			for i := range p.Jobs[j].Pods {
				plan.Loss.JobSeconds = addSaturating(plan.Loss.JobSeconds, p.Jobs[j].Pods[i].Loss)
			}
		case len(victims.Pods) > 0:
			for _, i := range victims.Pods {
				plan.Loss.PodSeconds = addSaturating(plan.Loss.PodSeconds, p.Jobs[j].Pods[i].Loss)
			}
		default:
			continue
		}

		plan.Victims = append(plan.Victims, victims)
	}

	return plan
}
