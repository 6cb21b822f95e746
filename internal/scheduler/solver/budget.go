package solver

// This file bounds the work of a search, and counts it.

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
