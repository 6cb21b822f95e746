package cardreclaim

import (
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// victimJob is a job that may be evicted, or of which pods may be.
type victimJob struct {
	job *api.JobInfo
	// queue is the one that is charged for its pods, or for the first of them that may be evicted. It
	// is not that of the job while pods run that were placed before the job moved.
	queue api.QueueID
	// tasks are all of its placed pods, also those that may not be evicted.
	tasks          []*api.TaskInfo
	evictionPolicy workload.EvictionPolicy
	// solverJob is the job for the solver, with its pods in the order of tasks. Each problem
	// sets their Usage.
	solverJob    solver.Job
	runningSince time.Time
	// fails reports whether a Kubernetes Job fails for good if the job is evicted as a whole.
	fails bool
	// priority is the job's priority, as far as it counts between queues.
	priority int32
	// cards is how many cards each of the tasks uses.
	cards []card.Count
	// level is how far the lowest common ancestor is above the reclaimer's queue, and path the
	// job's queue and its ancestors below that one. Both are empty if the queues are flat.
	level int
	path  []string
	// byTree is set for each task that may be evicted only if its queue has borrowed.
	byTree []bool
}

// victimFinder lists the jobs that may be evicted, and prices and orders them.
type victimFinder struct {
	*searchSession
	// victimJobs are the jobs that may be evicted, by who reclaims.
	victimJobs map[victimKey][]*victimJob
	// minRuntimeEnds is when the next victim job reaches its minimum runtime, by who reclaims.
	minRuntimeEnds    map[victimKey]time.Time
	disruptionBudgets disruptionBudgets
	// evictablePods are the pods that may be evicted, by who reclaims.
	evictablePods map[victimKey]map[api.TaskID]bool
}

// victimJobsFor lists the jobs from which a pod may reclaim cards, with their ranks, in the order of eviction at
// equal loss (victimorder.go). All pods of the same victimKey share the list.
func (f *victimFinder) victimJobsFor(task *api.TaskInfo) []*victimJob {
	key := f.victimKeyFor(f.reclaimerKeyFor(task))
	if known, ok := f.victimJobs[key]; ok {
		return known
	}

	var all []*victimJob
	for _, job := range f.Volcano.Jobs {
		if victim := f.newVictimJob(task, key, job); victim != nil {
			all = append(all, victim)
		}
	}

	slices.SortFunc(all, f.compareVictimJobs)
	f.rankVictimJobs(all)
	f.victimJobs[key] = all
	return all
}

// newVictimJob returns a job as a victim job for a reclaiming pod, nil if none of its pods may be
// evicted for it.
func (f *victimFinder) newVictimJob(reclaimer *api.TaskInfo, key victimKey, job *api.JobInfo) *victimJob {
	own := f.Volcano.Jobs[reclaimer.Job]
	// A job that waits in the queue of the reclaimer, or is its own job, may reclaim as well: each would evict
	// the other.
	mayReclaimItself := job.Queue == own.Queue && len(job.TaskStatusIndex[api.Pending]) > 0
	hasPodsOnNodes := len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0
	if mayReclaimItself || job.PodGroup == nil || f.Volcano.Queues[job.Queue] == nil || !hasPodsOnNodes {
		return nil
	}

	// In a tree, findInTree refuses jobs that are charged to the reclaimer's own queue or to several queues.
	victim := &victimJob{job: job, solverJob: solver.Job{Whole: true}, runningSince: gang.RunningSince(job), priority: f.rules.JobPriority(job)}
	if !f.listVictimTasks(reclaimer, victim) || (f.IsTree() && !f.findInTree(own, victim)) {
		return nil
	}

	slices.SortFunc(victim.tasks, compareVictimPods)
	if name := workload.VCJobOwner(victim.tasks[0].Pod); name != "" {
		known := false
		victim.evictionPolicy, known = f.search.evictions.EvictionPolicyFor(job.Namespace, name)
		// The policy may end the job for good on an eviction, so it is spared until its policy is read.
		if !known {
			return nil
		}
	}

	if !f.minRuntimeReached(victim, key) {
		return nil
	}

	f.fillSolverJob(reclaimer, victim)
	f.priceEvictions(victim)
	return victim
}

// listVictimTasks sets the placed pods of a victim job and its charged queue. It reports whether some of the pods
// may be evicted for a reclaiming pod.
func (f *victimFinder) listVictimTasks(reclaimer *api.TaskInfo, victim *victimJob) bool {
	mayEvict := false
	for _, task := range victim.job.Tasks {
		if !api.AllocatedStatus(task.Status) {
			continue
		}
		victim.tasks = append(victim.tasks, task)
		if !gang.IsOnNode(task.Status) || f.rules.ReclaimRule(reclaimer, task) == reclaimrules.NotReclaimable {
			continue
		}

		mayEvict = true
		if victim.queue == "" {
			victim.queue = f.VictimQueue(task)
		}
	}

	return mayEvict
}

// minRuntimeReached reports whether a job has reached the minimum runtime of its pods' service
// types. Otherwise it records when the job will, because a search must be repeated then.
func (f *victimFinder) minRuntimeReached(victim *victimJob, key victimKey) bool {
	var least time.Duration
	for _, task := range victim.tasks {
		least = max(least, f.rules.MinimumRuntime(task))
	}

	at := victim.runningSince.Add(least)
	if least == 0 || !at.After(f.now) {
		return true
	}

	if first, known := f.minRuntimeEnds[key]; !known || at.Before(first) {
		f.minRuntimeEnds[key] = at
	}

	return false
}

// fillSolverJob describes a victim job to the solver: which pods may be evicted alone, whether the whole job may
// be, and how many of the pods are elastic, in all and by role. It also sets the cards of each pod, and which of
// them the tree's rules allow to evict.
func (f *victimFinder) fillSolverJob(reclaimer *api.TaskInfo, victim *victimJob) {
	for _, task := range victim.tasks {
		cards := f.CardCount(task)
		victim.cards = append(victim.cards, cards)
		// A pod without cards is evicted only with its whole job, unless CPU and memory are reclaimed too: alone it frees
		// nothing that the reclaimer lacks.
		pod := solver.Pod{Node: f.indexOfNode(task.NodeName), Protected: cards == 0 && !f.ReclaimsAll()}

		// One pod that may not be evicted, or is not bound yet, protects the whole job.
		rule := f.rules.ReclaimRule(reclaimer, task)
		if !gang.IsOnNode(task.Status) || rule == reclaimrules.NotReclaimable {
			pod.Protected = true
			victim.solverJob.Whole = false
		}

		victim.byTree = append(victim.byTree, rule == reclaimrules.ReclaimableByTree)
		victim.solverJob.Pods = append(victim.solverJob.Pods, pod)
	}

	// No pod is elastic if the job's policies restart or end all of it for one pod, or if its subgroups have
	// minimums that Elastic does not count.
	if victim.evictionPolicy.Inelastic || victim.job.ContainsSubJobPolicy() {
		return
	}

	elastic, elasticByRole := gang.ElasticPods(victim.job)
	victim.solverJob.Elastic = max(0, int(elastic))
	if elasticByRole == nil { // roles have no minimums of their own
		return
	}

	// The solver knows roles by index.
	indexes := map[string]int{}
	for i, task := range victim.tasks {
		index, known := indexes[task.TaskRole]
		if !known {
			index = len(victim.solverJob.RoleElastic)
			indexes[task.TaskRole] = index
			victim.solverJob.RoleElastic = append(victim.solverJob.RoleElastic, max(0, int(elasticByRole[task.TaskRole])))
		}
		victim.solverJob.Pods[i].Role = index
	}
}

// priceEvictions sets what the evictions of a victim job cost, and whether they let a Kubernetes Job fail. It limits
// the elastic pods to as many as the Kubernetes Jobs of the victim job survive.
func (f *victimFinder) priceEvictions(victim *victimJob) {
	price := f.prices.PriceOf(victim.job, victim.tasks)
	for i := range victim.tasks {
		victim.solverJob.Pods[i].Loss = price.Pods[i]
	}
	victim.fails = price.Fails
	victim.solverJob.Elastic = min(victim.solverJob.Elastic, price.EvictionsLeft)
	victim.solverJob.WholeLoss = price.Failure
}

// findInTree sets the level and the path of a victim job, by the queue that is charged for its pods. It returns false if
// the job is no victim: that queue is the reclaimer's own, or not the same for all pods, because the job moved to another
// queue.
func (f *victimFinder) findInTree(reclaimer *api.JobInfo, victim *victimJob) bool {
	queue := f.VictimQueue(victim.tasks[0])
	if queue == reclaimer.Queue || slices.ContainsFunc(victim.tasks, func(task *api.TaskInfo) bool { return f.VictimQueue(task) != queue }) {
		return false
	}
	victim.level = f.Level(reclaimer.Queue, queue)
	victim.path = f.PathBelow(reclaimer.Queue, queue)
	return true
}
