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
// be placed, whatever is evicted. most bounds the work that makes the first plan cheaper. The
// first plan has a budget of its own, also where only a search of all sets finds it.
func Solve(p *Problem, most int) Result {
	asked, indexes := p.withoutEmptyPodSets()
	m := newModel(asked)
	plan := m.findPlan(asked, min(most, MaxWork))

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

// findPlan returns a plan for the model's problem, nil if it finds none. It looks for one without victims first. most
// bounds the work that makes a plan cheaper.
func (m *model) findPlan(p *Problem, most int) *Plan {
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
	m.refineBudget = most
	best := m.chooseByRank()
	if best == nil {
		return nil
	}

	return best.toPlan(p)
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

// MaxWork bounds the work of one search beside its first plan, whatever its caller allows. The same search costs the
// same on every machine: work is counted, and one takes about 5 ns, so this is less than a second.
const MaxWork = 150_000_000

// budget bounds the work of a search, so that it ends in time on every problem. Each step sets a bound of its own.
type budget struct {
	work    int // done so far, in about 5 ns each
	maxWork int // where the current step must stop
	// refineBudget is how much work is left for making plans cheaper.
	refineBudget int
	outOfBudget  bool // a step stopped at its bound
}

// workPerVisit is the work of counting or changing one node for one pod set.
const workPerVisit = 4

// countVisits adds the work of so many visits, of nodes for pod sets or of anything as cheap.
func (b *budget) countVisits(visits int) { b.work += workPerVisit * visits }

// exceedsBudget reports whether the current step must stop at its bound. It sets outOfBudget then.
func (b *budget) exceedsBudget() bool {
	if b.work <= b.maxWork {
		return false
	}
	b.outOfBudget = true
	return true
}

// linearWork returns the work of so many visits of all nodes and pods for all pod sets.
func (m *model) linearWork(visits int) int {
	return workPerVisit * visits * (len(m.nodeQuota) + len(m.pods) + minProblemSize) * len(m.podSets)
}

// minProblemSize is added to the size of each problem in its budgets, so that small problems are solved
// exactly.
const minProblemSize = 10_000

// Bounds of work, in visits of all nodes and pods for all pod sets.
const (
	pruneVisits  = 20 // for placing pods and pruning a first plan
	rankVisits   = 40 // for deciding about all ranks
	searchVisits = 20 // for trying all sets of victims, if the greedy search found no plan
	refineVisits = 20 // for making a plan cheaper
)

// allowPruning sets the bound for placing pods and pruning victims.
func (m *model) allowPruning() { m.maxWork = m.work + m.linearWork(pruneVisits) }

// allowSearchingAll sets the bound for finding any plan. What is left for making plans cheaper does not
// reduce it.
func (m *model) allowSearchingAll() { m.maxWork = m.work + m.linearWork(searchVisits) }

// allowRefining sets the bound for making a plan cheaper, at most what is left of the budget
// for that.
func (m *model) allowRefining() { m.maxWork = m.work + min(m.refineBudget, m.linearWork(refineVisits)) }
