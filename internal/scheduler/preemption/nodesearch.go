package preemption

import (
	"errors"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// The reasons why preempt searches no node for a pod.
var (
	errNothingToPreempt = errors.New("the pod may preempt no other pod")
	errNotSearched      = errors.New("preempt searches no node for the pod in this session")
)

// BeginSearch notes that Volcano begins to search a node for a pod. mayReclaim is set if the pod may reclaim cards
// from other queues in this search.
func (p *Preemption) BeginSearch(r snapshot.CheckInput, mayReclaim bool) {
	p.search.Store(&preemptSearch{CheckInput: r, mayReclaim: mayReclaim})
	p.attempt.Store(nil)
}

// IsReclaimer reports whether Volcano searches a node on which a pod may reclaim cards from
// other queues.
func (p *Preemption) IsReclaimer(task *api.TaskInfo) bool {
	s := p.search.Load()
	return s != nil && s.mayReclaim && s.Task.UID == task.UID
}

// EvictsNothingOn reports whether Volcano, in its search for a pod, evicts no pod of a node that would help: it
// searches cards of other queues to reclaim, or preempt finds no victims there.
func (p *Preemption) EvictsNothingOn(node *api.NodeInfo, task *api.TaskInfo) bool {
	return p.IsReclaimer(task) || (p.run != nil && len(p.PreemptableTasksOn(node, task)) == 0)
}

// IsUseless reports whether preempt runs, and a node cannot help the pod of a search: the quota has no room for
// its card, and preempt can evict no pod there.
func (p *Preemption) IsUseless(r snapshot.CheckInput, node *api.NodeInfo, name card.Name) bool {
	if p.run == nil || p.Ledger.Fits(string(r.Job.Queue), r.Request.On(name).OnlyCards(), quota.Within{}) {
		return false
	}
	return len(p.PreemptableTasksOn(node, r.Task)) == 0
}

// CheckPreemptor returns why preempt searches no node for a pod, nil if it does. It is asked before the search,
// because one in vain costs as much as one that helps.
func (p *Preemption) CheckPreemptor(task *api.TaskInfo) error {
	job := p.Volcano.Jobs[task.Job]
	if job == nil {
		return errNothingToPreempt
	}

	mayPreemptJobs := p.run.hasLowerJob(job) && p.preemptsJobs(task)
	if !mayPreemptJobs && !gang.HasLowerPodOnNode(job, task) {
		return errNothingToPreempt
	}
	// MaySearch counts a search, so it comes last.
	if p.run.hooks.MaySearch != nil && !p.run.hooks.MaySearch(task, p.run.evictions) {
		return errNotSearched
	}

	return nil
}
