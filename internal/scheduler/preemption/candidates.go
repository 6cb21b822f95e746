package preemption

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/victims"
)

// preemptionCandidates returns the possible victims of a preemptor in the order of eviction, and
// those of them that break a gang. Of equal priority elastic pods come first, then the smallest loss.
func (p *Preemption) preemptionCandidates(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, map[api.TaskID]bool) {
	var candidates []*api.TaskInfo
	for _, preemptee := range preemptees {
		if p.mayPreempt(preemptor, preemptee) && p.IsEvictable(preemptee) && !p.IsEvictionInProgress(preemptee) {
			candidates = append(candidates, preemptee)
		}
	}

	// This order decides which pods of a gang are elastic, and these come first in the end.
	slices.SortStableFunc(candidates, p.precedence.compareByPriority)
	candidates, breaks := p.protectGangs(preemptor, candidates)
	slices.SortStableFunc(candidates, func(a, b *api.TaskInfo) int {
		return cmp.Or(p.precedence.comparePriorities(a, b), victims.CompareBool(breaks[a.UID], breaks[b.UID]), cmp.Compare(p.prices.LossOfEviction(a, breaks), p.prices.LossOfEviction(b, breaks)))
	})
	return candidates, breaks
}

// protectGangs returns the candidates that may be evicted: elastic pods, and others of gangs that may be
// evicted as a whole. breaks are those others: the eviction of one breaks its gang, which means that all of
// it is evicted.
func (p *Preemption) protectGangs(preemptor *api.TaskInfo, candidates []*api.TaskInfo) (remaining []*api.TaskInfo, breaks map[api.TaskID]bool) {
	run := p.run
	allowances := map[api.JobID]*victims.Allowance{}
	if run == nil {
		run = &preemptRun{preemption: p} // Volcano's own action runs, which does not complete gangs
	}

	breaks = map[api.TaskID]bool{}
	for _, candidate := range candidates {
		job := p.Volcano.Jobs[candidate.Job]
		if allowances[job.UID] == nil {
			allowances[job.UID] = run.allowanceFor(job)
		}

		// A job never breaks for one of its own pods. Volcano's own action breaks only jobs with one placed
		// pod. TakeElastic counts the pod as taken.
		if allowances[job.UID].TakeElastic(candidate) {
			remaining = append(remaining, candidate)
		} else if allowances[job.UID].WholeJob && job.UID != preemptor.Job && (p.run != nil || len(tasksOnNodes(job)) == 1) {
			remaining = append(remaining, candidate)
			breaks[candidate.UID] = true
		}
	}

	return remaining, breaks
}

// mayPreempt reports whether one pod may take the place of another one of its queue. Pods of
// other jobs go only for pods that are jobs of their own, and for the minimum of a job.
func (p *Preemption) mayPreempt(preemptor, preemptee *api.TaskInfo) bool {
	return p.precedence.hasHigherPriority(preemptor, preemptee) && (preemptor.Job == preemptee.Job || p.preemptsJobs(preemptor))
}

// preemptsJobs reports whether pods of other jobs may go for a pod. The answer stays true for the
// whole node search.
func (p *Preemption) preemptsJobs(task *api.TaskInfo) bool {
	compute := func() bool {
		job := p.Volcano.Jobs[task.Job]
		return job != nil && (arePodsSeparate(job) || completesMinimum(job, task))
	}
	s := p.search.Load()
	if s == nil || s.Task.UID != task.UID {
		return compute()
	}
	s.preemptsOnce.Do(func() { s.preemptsJobs = compute() })
	return s.preemptsJobs
}

// PreemptableTasksOn returns the pods of a node that may be evicted for another pod of their
// queue.
func (p *Preemption) PreemptableTasksOn(node *api.NodeInfo, preemptor *api.TaskInfo) []*api.TaskInfo {
	queue := p.Volcano.Jobs[preemptor.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.Volcano.Jobs[task.Job]
		isInQueue := job != nil && job.Queue == queue
		if isInQueue && api.PreemptableStatus(task.Status) && p.mayPreempt(preemptor, task) && p.IsEvictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// IsEvictableAsAWhole reports whether a job has pods to evict and can be evicted as a whole.
func (p *Preemption) IsEvictableAsAWhole(job *api.JobInfo) bool {
	run := &preemptRun{preemption: p, hooks: Hooks{PolicyFor: p.Cache.EvictionPolicies}}
	return p.precedence.hasPodToEvict(job) && run.canEvictWholeJob(job)
}
