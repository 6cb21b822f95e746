package preemption

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// newPreemptRun returns the state of a run that has evicted nothing yet.
func newPreemptRun(p *Preemption, hooks Hooks) *preemptRun {
	return &preemptRun{
		preemption: p, hooks: hooks, lowest: p.precedence.lowestPriorities(), isAsked: map[api.JobID]bool{},
		evicted: map[api.JobID]map[api.TaskID]*api.TaskInfo{}, evictedFor: map[api.TaskID]api.JobID{}, restOfGangs: map[api.JobID]*restOfGang{},
	}
}

// victimsByPreemptor returns the pods that are evicted, by the job for which they are. The rest of a gang
// is evicted for each job for which a pod of it is.
func (r *preemptRun) victimsByPreemptor() map[api.JobID][]*api.TaskInfo {
	byPreemptor := map[api.JobID][]*api.TaskInfo{}
	withRest := map[[2]api.JobID]bool{} // pairs of a gang and a preemptor that has its rest
	for id, evicted := range r.evicted {
		for _, task := range evicted {
			preemptor, known := r.evictedFor[task.UID]
			if !known { // evicted outside of a search
				continue
			}

			byPreemptor[preemptor] = append(byPreemptor[preemptor], task)
			if rest := r.restOfGangs[id]; rest != nil && !withRest[[2]api.JobID{id, preemptor}] {
				withRest[[2]api.JobID{id, preemptor}] = true
				byPreemptor[preemptor] = append(byPreemptor[preemptor], rest.tasks...)
			}
		}
	}

	return byPreemptor
}

// vacatedNodes returns the nodes that evicted gangs leave.
func (r *preemptRun) vacatedNodes() []string {
	if r == nil {
		return nil
	}
	var names []string
	for _, rest := range r.restOfGangs {
		for _, task := range rest.tasks {
			names = append(names, task.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// evicts reports whether the action evicts a pod in this session.
func (r *preemptRun) evicts(task *api.TaskInfo) bool {
	return r != nil && (r.evicted[task.Job][task.UID] != nil || r.restOfGangs[task.Job] != nil)
}

// recordEviction records a pod that Volcano evicts, and for which job. It leaves out the rest of a gang, which this run
// evicts itself. r is nil outside of the action preempt.
func (r *preemptRun) recordEviction(task *api.TaskInfo) {
	if r == nil || r.evictingRest {
		return
	}
	r.evictions++
	if r.evicted[task.Job] == nil {
		r.evicted[task.Job] = map[api.TaskID]*api.TaskInfo{}
	}
	r.evicted[task.Job][task.UID] = task
	if search := r.preemption.search.Load(); search != nil {
		r.evictedFor[task.UID] = search.Task.Job
	}
}

// undoEviction records an undone eviction of Volcano and restores the rest of the gang. completeGangs evicts the rest again
// if the gang is still broken. r is nil outside of the action preempt.
func (r *preemptRun) undoEviction(task *api.TaskInfo) {
	if r == nil || r.evictingRest {
		return
	}

	r.evictions++
	delete(r.evicted[task.Job], task.UID)
	delete(r.evictedFor, task.UID)
	rest := r.restOfGangs[task.Job]
	if rest == nil {
		return
	}

	delete(r.restOfGangs, task.Job)
	r.evictingRest = true
	defer func() { r.evictingRest = false }()
	rest.statement.Discard()
	snapshot.RestoreBound(r.preemption.Volcano, rest.bound)
}

// completeGangs evicts, in the session, the rest of each job that would run below its minimum. r is nil
// outside of the action preempt.
func (r *preemptRun) completeGangs() {
	if r == nil {
		return
	}

	// While it is set, recordEviction ignores the evictions: it counts only those of Volcano.
	r.evictingRest = true
	defer func() { r.evictingRest = false }()

	for id := range r.evicted {
		if !r.mustCompleteGang(id) {
			continue
		}

		job := r.preemption.Volcano.Jobs[id]
		// The statement is never committed: the caller of Preempt evicts the whole gang.
		rest := &restOfGang{statement: framework.NewStatement(r.preemption.Volcano)}
		for _, task := range tasksOnNodes(job) {
			status := task.Status
			if err := rest.statement.Evict(task, schedulerconfig.Preempt); err != nil {
				klog.ErrorS(err, "Cannot evict the rest of a gang", "pod", klog.KObj(task.Pod))
				continue
			}

			rest.tasks = append(rest.tasks, task)
			if status == api.Bound { // Volcano's Discard would restore it as Running
				rest.bound = append(rest.bound, task)
			}
		}

		r.restOfGangs[id] = rest
		r.evictions++
	}
}

// mustCompleteGang reports whether the rest of a job must go, because Volcano evicts pods without which it cannot
// continue, and is not evicted yet.
func (r *preemptRun) mustCompleteGang(id api.JobID) bool {
	job := r.preemption.Volcano.Jobs[id]
	return len(r.evicted[id]) > 0 && r.restOfGangs[id] == nil && job != nil && r.isBroken(job)
}

// tasksToComplete returns the pods that CompleteGangs will evict. Volcano evicts pods of one node
// only, and the rest of their gangs goes before the next pod is tried.
func (r *preemptRun) tasksToComplete() (rest []*api.TaskInfo) {
	if r == nil {
		return nil
	}
	for id := range r.evicted {
		if r.mustCompleteGang(id) {
			rest = slices.AppendSeq(rest, gang.TasksIn(r.preemption.Volcano.Jobs[id], gang.IsOnNode))
		}
	}
	return rest
}

// isBroken reports whether a job cannot continue after its evictions.
func (r *preemptRun) isBroken(job *api.JobInfo) bool {
	return job.ReadyTaskNum() < job.MinAvailable || !job.CheckTaskReady() || r.isInelastic(job) || r.preemption.prices.IsFailing(job)
}

// isInelastic reports whether a job loses all of its pods when it loses one.
func (r *preemptRun) isInelastic(job *api.JobInfo) bool {
	policy, known := r.evictionPolicy(job)
	return !known || policy.Inelastic || job.ContainsSubJobPolicy()
}

// evictionPolicy returns how a job handles evictions, false if that is not known. Only Volcano jobs have a
// policy: the controllers of other pods replace single ones.
func (r *preemptRun) evictionPolicy(job *api.JobInfo) (workload.EvictionPolicy, bool) {
	for _, task := range job.Tasks { // one pod answers for all
		if name := workload.VCJobOwner(task.Pod); name != "" {
			if r.hooks.PolicyFor == nil {
				return workload.EvictionPolicy{}, false
			}
			return r.hooks.PolicyFor(job.Namespace, name)
		}
		break
	}
	return workload.EvictionPolicy{}, true
}

// canEvictWholeJob reports whether a job can be evicted as a whole: its policy is known, and each pod with a
// charge is on its node and may be evicted.
func (r *preemptRun) canEvictWholeJob(job *api.JobInfo) bool {
	if _, known := r.evictionPolicy(job); !known {
		return false
	}
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		if !api.PreemptableStatus(task.Status) || !task.Preemptable || !r.preemption.IsEvictable(task) || r.preemption.IsEvictionInProgress(task) {
			return false
		}
	}
	return true
}

// tasksOnNodes returns the pods of a job that are on their nodes, sorted by UID.
func tasksOnNodes(job *api.JobInfo) []*api.TaskInfo {
	return slices.SortedFunc(gang.TasksIn(job, gang.IsOnNode), func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
}

// allowanceFor returns what a job can lose, as a copy that the caller may change.
func (r *preemptRun) allowanceFor(job *api.JobInfo) *victims.Allowance {
	// Topology-aware preemption asks from several goroutines.
	r.allowances.Lock()
	defer r.allowances.Unlock()

	// Each eviction changes what jobs can lose.
	if r.allowances.jobs == nil || r.allowances.evictions != r.evictions {
		r.allowances.jobs = map[api.JobID]*victims.Allowance{}
		r.allowances.evictions = r.evictions
	}

	known := r.allowances.jobs[job.UID]
	if known == nil {
		known = &victims.Allowance{WholeJob: r.canEvictWholeJob(job)}
		if !r.isInelastic(job) {
			known.Elastic, known.ElasticByRole = r.preemption.prices.ElasticPods(job)
		}
		r.allowances.jobs[job.UID] = known
	}

	return &victims.Allowance{Elastic: known.Elastic, ElasticByRole: maps.Clone(known.ElasticByRole), WholeJob: known.WholeJob}
}

// RecordEviction records a pod that Volcano evicts.
func (p *Preemption) RecordEviction(task *api.TaskInfo) { p.run.recordEviction(task) }

// UndoEviction records an undone eviction, and restores the rest of the gang.
func (p *Preemption) UndoEviction(task *api.TaskInfo) { p.run.undoEviction(task) }

// CompleteGangs evicts, in the session, the rest of each job that would run below its minimum.
func (p *Preemption) CompleteGangs() { p.run.completeGangs() }

// TasksToComplete returns the pods that CompleteGangs will evict.
func (p *Preemption) TasksToComplete() []*api.TaskInfo { return p.run.tasksToComplete() }
