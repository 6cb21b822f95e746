package capacitycard

import (
	"errors"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/workload"
)

// PreemptHooks are what the action preempt knows and the plugin does not.
type PreemptHooks struct {
	// PolicyFor returns how a Volcano job handles evictions, false if that is not known.
	PolicyFor cache.EvictionPolicies
	// Begin is called before the first search, if some pod may preempt others. MaySearch
	// reports whether preempt may search a node for a pod. generation changes with each eviction
	// and each undone one. Without these two, every pod has its search.
	Begin     func()
	MaySearch func(task *api.TaskInfo, generation int) bool
}

// The reasons why preempt searches no node for a pod.
var (
	errNothingToPreempt = errors.New("the pod may preempt no other pod")
	errNotSearched      = errors.New("preempt searches no node for the pod in this session")
)

// executeByQueue runs Volcano's action preempt for each queue with pods that may preempt, in
// the order of queues. In one run for all queues, Volcano would take them in random order, and after
// the first queue skip a pending pod of each job.
func (p *preemption) executeByQueue(execute func()) {
	all := p.Volcano.Jobs
	byQueue := map[api.QueueID]map[api.JobID]*api.JobInfo{}
	defer func() { p.Volcano.Jobs = all }()

	for id, job := range all {
		if byQueue[job.Queue] == nil {
			byQueue[job.Queue] = map[api.JobID]*api.JobInfo{}
		}
		byQueue[job.Queue][id] = job
	}

	queues := util.NewPriorityQueue(p.Volcano.QueueOrderFn)
	for id, jobs := range byQueue {
		if queue := p.Volcano.Queues[id]; queue != nil && p.run.hasPreemptor(jobs) {
			queues.Push(queue)
		}
	}

	if queues.Empty() {
		return
	}

	// Begin looks at all nodes and pods, so it runs only if some queue can preempt.
	if p.run.hooks.Begin != nil {
		p.run.hooks.Begin()
	}

	waiting := p.findWaitingQueues()
	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo).UID
		p.run.limitBorrowing(queue, waiting)
		p.Volcano.Jobs = byQueue[queue]
		execute()
	}
}

// lowestPriorities returns by queue the lowest priority of its jobs that have pods to evict.
func (p *preemption) lowestPriorities() map[api.QueueID]int32 {
	lowest := map[api.QueueID]int32{}
	for _, job := range p.Volcano.Jobs {
		known, isKnown := lowest[job.Queue]
		if (!isKnown || job.Priority < known) && p.hasPodToEvict(job) {
			lowest[job.Queue] = job.Priority
		}
	}
	return lowest
}

// hasPodToEvict reports whether some pod of a job is on a node and may be evicted.
func (p *preemption) hasPodToEvict(job *api.JobInfo) bool {
	for task := range gang.TasksIn(job, api.PreemptableStatus) {
		if task.Preemptable && p.IsEvictable(task) && !p.IsEvictionInProgress(task) {
			return true
		}
	}
	return false
}

// hasPreemptor reports whether a pod of some job may preempt others.
func (g *preemptRun) hasPreemptor(jobs map[api.JobID]*api.JobInfo) bool {
	for _, job := range jobs {
		if !job.IsPending() && (g.mayPreemptJobs(job) || g.mayPreemptInside(job)) {
			return true
		}
	}
	return false
}

// jobStarving reports whether Volcano's actions try to evict pods for a job. Preempt asks about each job
// when it begins with a queue, before it preempts other jobs and inside the job. It asks again before each
// pod, only to preempt other jobs.
//
// It stands in for plugin gang, which is switched off here: gang answers false as soon as a job has its
// minimum, and a PodGroup whose pods are separate has that with its first pod.
func (p *preemption) jobStarving(obj any) bool {
	job := obj.(*api.JobInfo)
	run := p.run
	// Outside of preempt only Volcano's reclaim asks. There the hook preemptive decides about each pod.
	if run == nil {
		return len(job.TaskStatusIndex[api.Pending]) > 0
	}
	if run.isAsked[job.UID] {
		return run.mayPreemptJobs(job)
	}
	run.isAsked[job.UID] = true
	return run.mayPreemptJobs(job) || run.mayPreemptInside(job)
}

// mayPreemptJobs reports whether pods of a job may preempt other jobs of its queue.
func (g *preemptRun) mayPreemptJobs(job *api.JobInfo) bool {
	return g.hasLowerJob(job) && len(job.TaskStatusIndex[api.Pending]) > 0 && (arePodsSeparate(job) || isBelowMinimum(job))
}

// hasLowerJob reports whether a job of the queue with a lower priority has pods to evict.
func (g *preemptRun) hasLowerJob(job *api.JobInfo) bool {
	lowest, known := g.lowest[job.Queue]
	return known && lowest < job.Priority
}

// mayPreemptInside reports whether a pending pod of a job has a higher priority than a pod of
// the job that is on a node.
func (g *preemptRun) mayPreemptInside(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if gang.HasLowerPodOnNode(job, task) {
			return true
		}
	}
	return false
}

// arePodsSeparate reports whether each pod of a PodGroup is a job of its own: the PodGroup has
// no gang, and Volcano made it for a Deployment, a StatefulSet, a batch Job or a single pod. An
// elastic vcjob is one job, also with a minimum of one.
func arePodsSeparate(job *api.JobInfo) bool {
	return job.MinAvailable <= 1 && !isVCJob(job)
}

// isVCJob reports whether a job is a Volcano job.
func isVCJob(job *api.JobInfo) bool {
	if job.PodGroup != nil && workload.VCJobOwner(&job.PodGroup.PodGroup) != "" {
		return true
	}
	for _, task := range job.Tasks {
		return workload.VCJobOwner(task.Pod) != ""
	}
	return false
}

// isBelowMinimum reports whether a job lacks pods for its minimum, in total or of a task role.
// Pipelined pods are not lacking.
func isBelowMinimum(job *api.JobInfo) bool {
	return job.IsStarving() || !job.CheckTaskPipelined() || !job.CheckSubJobPipelined()
}

// completesMinimum reports whether a pending pod is one of those that its job lacks for its
// minimum. What task roles lack comes first.
func completesMinimum(job *api.JobInfo, task *api.TaskInfo) bool {
	all, roles := gang.CountByRole(job, true)
	lacksSubJobs := !job.CheckSubJobPipelined() // then any pod may complete one
	if !gang.HasRoleMinimums(job) {
		return all < job.MinAvailable || lacksSubJobs
	}

	ofRoles := int32(0)
	for role, minimum := range job.TaskMinAvailable {
		ofRoles += max(0, minimum-roles[role])
	}

	isOfLackingRole := roles[task.TaskRole] < job.TaskMinAvailable[task.TaskRole]
	lacksMoreThanRoles := job.MinAvailable-all > ofRoles
	return isOfLackingRole || lacksMoreThanRoles || lacksSubJobs
}

// checkPreemptor returns why preempt searches no node for a pod, nil if it does. It is asked before the search,
// because one in vain costs as much as one that helps.
func (p *preemption) checkPreemptor(task *api.TaskInfo) error {
	g := p.run
	job := p.Volcano.Jobs[task.Job]
	if job == nil {
		return errNothingToPreempt
	}

	mayPreemptJobs := g.hasLowerJob(job) && p.preemptsJobs(task)
	if !mayPreemptJobs && !gang.HasLowerPodOnNode(job, task) {
		return errNothingToPreempt
	}
	// MaySearch counts a search, so it comes last.
	if g.hooks.MaySearch != nil && !g.hooks.MaySearch(task, g.evictions) {
		return errNotSearched
	}

	return nil
}

// waitingQueues are, by card, the queues of a tree that have a pod waiting for this card, within what they deserve.
type waitingQueues map[card.Name]map[api.QueueID]bool

// findWaitingQueues returns the queues that wait now, none if the queues are flat.
func (p *preemption) findWaitingQueues() waitingQueues {
	waiting := waitingQueues{}
	if !p.IsTree() {
		return waiting
	}

	for r := range p.PodsForAllocate() {
		for _, name := range r.Request.Names {
			if !waiting[name][r.Job.Queue] && p.DeservesCard(r, name) && p.CheckQueue(r.Job) == nil {
				waiting.addQueue(name, r.Job.Queue)
			}
		}
	}

	return waiting
}

// addQueue adds a queue that waits for a card.
func (w waitingQueues) addQueue(name card.Name, queue api.QueueID) {
	if w[name] == nil {
		w[name] = map[api.QueueID]bool{}
	}
	w[name][queue] = true
}

// LimitBorrowing notes how many cards a queue of a tree may borrow while its pods preempt. Of a card for
// which another queue waits within what it deserves, that is what it has borrowed already. Otherwise the other
// queue would take the card back with the preemptor on it, and pods of both would be evicted again and again.
func (g *preemptRun) limitBorrowing(queue api.QueueID, waiting waitingQueues) {
	most := map[card.Name]int64{}
	for name, queues := range waiting {
		if len(queues) > 1 || !queues[queue] {
			most[name] = max(0, g.p.Ledger.AboveDeserved(string(queue), quota.Resource(name)))
		}
	}
	g.p.victims.LimitBorrowing(most)
}
