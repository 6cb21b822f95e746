package capacitycard

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// preemptRun is what Volcano's action preempt evicts in one session. Volcano evicts single pods
// and could leave a gang running below its minimum. The plugin evicts the rest of such a gang
// in the session, so that later preemptors use what it releases.
type preemptRun struct {
	p     *preemption
	hooks PreemptHooks
	// lowest is the lowest priority of a job with pods to evict, by queue. isAsked are the jobs
	// for which Volcano asked whether they starve.
	lowest  map[api.QueueID]int32
	isAsked map[api.JobID]bool
	// evicted are the pods that Volcano evicts, by job.
	evicted map[api.JobID]map[api.TaskID]*api.TaskInfo
	// evictedFor is the job for which a pod is evicted.
	evictedFor map[api.TaskID]api.JobID
	// restOfGangs are the other pods of jobs that are evicted as a whole.
	restOfGangs map[api.JobID]*restOfGang
	// allowances caches what each job can lose while evictions is unchanged. Volcano calls the
	// plugin for each node, and a large gang is on many.
	allowances struct {
		sync.Mutex
		evictions int
		jobs      map[api.JobID]*victims.Allowance
	}
	// elsewhere caches the last answer of cheapestEvictions.
	elsewhere struct {
		sync.Mutex
		pod       api.TaskID
		evictions int
		least     *evictionCost
	}
	// evictions counts evictions and undone evictions.
	evictions int
	// evictingRest is set while the rest of a gang is evicted or restored.
	evictingRest bool
}

// restOfGang are the pods of a gang that are evicted because others of it are.
type restOfGang struct {
	// statement is never committed: the caller evicts the whole gang together.
	statement *framework.Statement
	tasks     []*api.TaskInfo
	// bound are the pods that had not started.
	bound []*api.TaskInfo
}

// preempt runs Volcano's action preempt and returns the pods it evicts, by job. A gang loses
// only elastic pods, or all pods. The caller carries out the evictions.
func (p *preemption) preempt(hooks PreemptHooks, execute func()) [][]*api.TaskInfo {
	p.Cache.EvictionPolicies = hooks.PolicyFor
	g := newPreemptRun(p, hooks)
	p.run = g
	defer func() {
		p.run = nil
		p.victims.LimitBorrowing(nil)
	}()
	defer p.hideOldNominations()()

	// Volcano does not tell for whom it evicts. Its preemptors are the pods that it pipelines
	// meanwhile.
	before := p.pipelinedPods()
	p.executeByQueue(execute)
	p.kept.Preemptors = p.pipelinedPods()
	maps.DeleteFunc(p.kept.Preemptors, func(uid types.UID, _ bool) bool { return before[uid] })
	// Gangs are completed when the next search begins. No search follows the last evictions.
	g.completeGangs()
	p.keepFreedCards(g.victimsByPreemptor())

	var jobs [][]*api.TaskInfo
	for id, evicted := range g.evicted {
		tasks := slices.Collect(maps.Values(evicted))
		if rest := g.restOfGangs[id]; rest != nil {
			tasks = append(tasks, rest.tasks...)
		}
		if len(tasks) > 0 {
			slices.SortFunc(tasks, func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
			jobs = append(jobs, tasks)
		}
	}

	slices.SortFunc(jobs, func(a, b []*api.TaskInfo) int { return cmp.Compare(a[0].Job, b[0].Job) })
	return jobs
}

// keepFreedCards keeps what preempt freed for the pods that it pipelined. victims are the pods that it evicts,
// by the job for which it does.
func (p *preemption) keepFreedCards(victims map[api.JobID][]*api.TaskInfo) {
	for id, evicted := range victims {
		job := p.Volcano.Jobs[id]
		// Volcano takes back what it did for a job that cannot start.
		if job == nil || !p.Volcano.JobPipelined(job) {
			continue
		}

		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if p.kept.Preemptors[task.Pod.UID] {
				tasks = append(tasks, task)
			}
		}
		p.kept.KeepPreemptedCards(tasks, evicted)
	}
}

// newPreemptRun returns the state of a run that has evicted nothing yet.
func newPreemptRun(p *preemption, hooks PreemptHooks) *preemptRun {
	return &preemptRun{
		p: p, hooks: hooks, lowest: p.lowestPriorities(), isAsked: map[api.JobID]bool{},
		evicted: map[api.JobID]map[api.TaskID]*api.TaskInfo{}, evictedFor: map[api.TaskID]api.JobID{}, restOfGangs: map[api.JobID]*restOfGang{},
	}
}

// victimsByPreemptor returns the pods that are evicted, by the job for which they are. The rest of a gang
// is evicted for each job for which a pod of it is.
func (p *preemptRun) victimsByPreemptor() map[api.JobID][]*api.TaskInfo {
	victims := map[api.JobID][]*api.TaskInfo{}
	withRest := map[[2]api.JobID]bool{}
	for id, evicted := range p.evicted {
		for _, task := range evicted {
			by, known := p.evictedFor[task.UID]
			if !known {
				continue
			}

			victims[by] = append(victims[by], task)
			if rest := p.restOfGangs[id]; rest != nil && !withRest[[2]api.JobID{id, by}] {
				withRest[[2]api.JobID{id, by}] = true
				victims[by] = append(victims[by], rest.tasks...)
			}
		}
	}

	return victims
}

// pipelinedPods returns the pods that are pipelined.
func (p *preemption) pipelinedPods() map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			pods[task.Pod.UID] = true
		}
	}
	return pods
}

// recordEviction records a pod that Volcano evicts.
func (p *preemptRun) recordEviction(task *api.TaskInfo) {
	if p == nil || p.evictingRest {
		return
	}
	p.evictions++
	if p.evicted[task.Job] == nil {
		p.evicted[task.Job] = map[api.TaskID]*api.TaskInfo{}
	}
	p.evicted[task.Job][task.UID] = task
	if s := p.p.search.Load(); s != nil {
		p.evictedFor[task.UID] = s.Task.Job
	}
}

// undoEviction records an undone eviction and restores the rest of the gang. The rest is
// evicted again if the gang is still broken.
func (p *preemptRun) undoEviction(task *api.TaskInfo) {
	if p == nil || p.evictingRest {
		return
	}

	p.evictions++
	delete(p.evicted[task.Job], task.UID)
	delete(p.evictedFor, task.UID)
	rest := p.restOfGangs[task.Job]
	if rest == nil {
		return
	}

	delete(p.restOfGangs, task.Job)
	p.evictingRest = true
	defer func() { p.evictingRest = false }()
	rest.statement.Discard()
	snapshot.RestoreBound(p.p.Volcano, rest.bound)
}

// completeGangs evicts, in the session, the rest of each job that would run below its minimum.
func (p *preemptRun) completeGangs() {
	if p == nil {
		return
	}

	// recordEviction counts only what Volcano evicts.
	p.evictingRest = true
	defer func() { p.evictingRest = false }()

	for id := range p.evicted {
		if !p.mustCompleteGang(id) {
			continue
		}

		job := p.p.Volcano.Jobs[id]
		rest := &restOfGang{statement: framework.NewStatement(p.p.Volcano)}
		for _, task := range tasksOnNodes(job) {
			status := task.Status
			if err := rest.statement.Evict(task, schedulerconfig.Preempt); err != nil {
				klog.ErrorS(err, "Cannot evict the rest of a gang", "pod", klog.KObj(task.Pod))
				continue
			}

			rest.tasks = append(rest.tasks, task)
			if status == api.Bound {
				rest.bound = append(rest.bound, task)
			}
		}

		p.restOfGangs[id] = rest
		p.evictions++
	}
}

// mustCompleteGang reports whether the rest of a job must go, and is not evicted yet.
func (p *preemptRun) mustCompleteGang(id api.JobID) bool {
	job := p.p.Volcano.Jobs[id]
	return len(p.evicted[id]) > 0 && p.restOfGangs[id] == nil && job != nil && p.isBroken(job)
}

// tasksToComplete returns the pods that completeGangs will evict. Volcano evicts pods of one node
// only, and the rest of their gangs goes before the next pod is tried.
func (p *preemptRun) tasksToComplete() (rest []*api.TaskInfo) {
	if p == nil {
		return nil
	}
	for id := range p.evicted {
		if p.mustCompleteGang(id) {
			rest = slices.AppendSeq(rest, gang.TasksIn(p.p.Volcano.Jobs[id], gang.IsOnNode))
		}
	}
	return rest
}

// isBroken reports whether a job cannot continue after its evictions.
func (p *preemptRun) isBroken(job *api.JobInfo) bool {
	return job.ReadyTaskNum() < job.MinAvailable || !job.CheckTaskReady() || p.isInelastic(job) || p.p.prices.IsFailing(job)
}

// isInelastic reports whether a job loses all of its pods when it loses one.
func (p *preemptRun) isInelastic(job *api.JobInfo) bool {
	policy, known := p.evictionPolicy(job)
	return !known || policy.Inelastic || job.ContainsSubJobPolicy()
}

// evictionPolicy returns how a job handles evictions, false if that is not known.
func (p *preemptRun) evictionPolicy(job *api.JobInfo) (workload.EvictionPolicy, bool) {
	for _, task := range job.Tasks {
		if name := workload.VCJobOwner(task.Pod); name != "" {
			if p.hooks.PolicyFor == nil {
				return workload.EvictionPolicy{}, false
			}
			return p.hooks.PolicyFor(job.Namespace, name)
		}
		break
	}
	return workload.EvictionPolicy{}, true
}

// canEvictWholeJob reports whether a job can be evicted as a whole: each pod with a charge is
// on its node and may be evicted.
func (p *preemptRun) canEvictWholeJob(job *api.JobInfo) bool {
	if _, known := p.evictionPolicy(job); !known {
		return false
	}
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		if !api.PreemptableStatus(task.Status) || !task.Preemptable || !p.p.IsEvictable(task) || p.p.IsEvictionInProgress(task) {
			return false
		}
	}
	return true
}

// tasksOnNodes returns the pods of a job that are on their nodes, sorted by UID.
func tasksOnNodes(job *api.JobInfo) []*api.TaskInfo {
	return slices.SortedFunc(gang.TasksIn(job, gang.IsOnNode), func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
}

// protectGangs removes from candidates the pods whose eviction breaks a gang that cannot be
// evicted as a whole. breaks are the remaining ones that break a gang.
func (p *preemption) protectGangs(preemptor *api.TaskInfo, candidates []*api.TaskInfo) (kept []*api.TaskInfo, breaks map[api.TaskID]bool) {
	g := p.run
	allowances := map[api.JobID]*victims.Allowance{}
	if g == nil {
		g = &preemptRun{p: p} // Volcano's own action runs, which does not complete gangs
	}

	breaks = map[api.TaskID]bool{}
	for _, candidate := range candidates {
		job := p.Volcano.Jobs[candidate.Job]
		if allowances[job.UID] == nil {
			allowances[job.UID] = g.allowanceFor(job)
		}

		if allowances[job.UID].TakeElastic(candidate) {
			kept = append(kept, candidate)
		} else if allowances[job.UID].WholeJob && job.UID != preemptor.Job && (p.run != nil || len(tasksOnNodes(job)) == 1) {
			kept = append(kept, candidate)
			breaks[candidate.UID] = true
		}
	}

	return kept, breaks
}

// allowanceFor returns what a job can lose, as a copy that the caller may change.
func (p *preemptRun) allowanceFor(job *api.JobInfo) *victims.Allowance {
	// Topology-aware preemption asks from several goroutines.
	p.allowances.Lock()
	defer p.allowances.Unlock()

	if p.allowances.jobs == nil || p.allowances.evictions != p.evictions {
		p.allowances.jobs = map[api.JobID]*victims.Allowance{}
		p.allowances.evictions = p.evictions
	}

	known := p.allowances.jobs[job.UID]
	if known == nil {
		known = &victims.Allowance{WholeJob: p.canEvictWholeJob(job)}
		if !p.isInelastic(job) {
			known.Elastic, known.ElasticByRole = p.p.prices.ElasticPods(job)
		}
		p.allowances.jobs[job.UID] = known
	}

	return &victims.Allowance{Elastic: known.Elastic, ElasticByRole: maps.Clone(known.ElasticByRole), WholeJob: known.WholeJob}
}
