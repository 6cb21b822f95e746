package cardreclaim

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/workload"
)

// victimJob is a job that may be evicted, or of which pods may be.
type victimJob struct {
	job *api.JobInfo
	// queue is the one that is charged for its pods, or for the first of them that may be evicted. It
	// is not that of the job while pods run that were placed before the job moved.
	queue          api.QueueID
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

// victimJobsFor lists the jobs from which a pod may reclaim cards, in the order of eviction at
// equal loss. The lowest priority of queue and job comes first, then the youngest.
func (s *victimFinder) victimJobsFor(task *api.TaskInfo) []*victimJob {
	key := s.victimKeyFor(s.reclaimerKeyFor(task))
	if known, ok := s.victimJobs[key]; ok {
		return known
	}

	var all []*victimJob
	for _, job := range s.ssn.Jobs {
		if g := s.newVictimJob(task, key, job); g != nil {
			all = append(all, g)
		}
	}

	slices.SortFunc(all, func(a, b *victimJob) int {
		return cmp.Or(
			cmp.Compare(s.ssn.Queues[a.queue].Queue.Spec.Priority, s.ssn.Queues[b.queue].Queue.Spec.Priority),
			cmp.Compare(a.priority, b.priority),
			b.runningSince.Compare(a.runningSince),
			cmp.Compare(a.job.UID, b.job.UID),
		)
	})

	s.rankVictimJobs(all)
	s.victimJobs[key] = all
	return all
}

// newVictimJob returns a job as a victim job for a pod, nil if none of its pods may be
// evicted.
func (s *victimFinder) newVictimJob(by *api.TaskInfo, key victimKey, job *api.JobInfo) *victimJob {
	own := s.ssn.Jobs[by.Job]
	mayReclaimItself := job.Queue == own.Queue && len(job.TaskStatusIndex[api.Pending]) > 0
	hasPodsOnNodes := len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0
	if mayReclaimItself || job.PodGroup == nil || s.ssn.Queues[job.Queue] == nil || !hasPodsOnNodes {
		return nil
	}

	g := &victimJob{job: job, solverJob: solver.Job{Whole: true}, runningSince: gang.RunningSince(job), priority: s.plugin.Rules.JobPriority(job)}
	if !s.listVictimTasks(by, g) || (s.plugin.IsTree() && !s.findInTree(own, g)) {
		return nil
	}

	// Of pods of equal loss, the one with the lower priority comes first.
	slices.SortFunc(g.tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.UID, b.UID))
	})
	if name := workload.VCJobOwner(g.tasks[0].Pod); name != "" {
		known := false
		g.evictionPolicy, known = s.search.evictions.EvictionPolicyFor(job.Namespace, name)
		// The policy may end the job for good on an eviction, so it is spared until its policy is read.
		if !known {
			return nil
		}
	}

	if !s.minRuntimeReached(g, key) {
		return nil
	}

	s.fillSolverJob(by, g)
	s.priceEvictions(g)
	return g
}

// listVictimTasks lists the placed pods of a victim job. It reports whether some of them may be evicted
// for a pod.
func (s *victimFinder) listVictimTasks(by *api.TaskInfo, g *victimJob) bool {
	mayEvict := false
	for _, task := range g.job.Tasks {
		if !api.AllocatedStatus(task.Status) {
			continue
		}
		g.tasks = append(g.tasks, task)
		if !gang.IsOnNode(task.Status) || s.plugin.Rules.ReclaimRule(by, task) == reclaimrules.NotReclaimable {
			continue
		}

		mayEvict = true
		if g.queue == "" {
			g.queue = s.plugin.VictimQueue(task)
		}
	}

	return mayEvict
}

// minRuntimeReached reports whether a job has reached the minimum runtime of its pods' service
// types. Otherwise it records when the job will.
func (s *victimFinder) minRuntimeReached(g *victimJob, key victimKey) bool {
	var least time.Duration
	for _, task := range g.tasks {
		least = max(least, s.plugin.Rules.MinimumRuntime(task))
	}

	at := g.runningSince.Add(least)
	if least == 0 || !at.After(s.now) {
		return true
	}

	if first, known := s.minRuntimeEnds[key]; !known || at.Before(first) {
		s.minRuntimeEnds[key] = at
	}

	return false
}

// fillSolverJob lists the pods of a victim job, and how many of them are elastic.
func (s *victimFinder) fillSolverJob(by *api.TaskInfo, g *victimJob) {
	for _, task := range g.tasks {
		cards := s.plugin.CardCount(task)
		g.cards = append(g.cards, cards)
		pod := solver.Pod{Node: s.indexOfNode(task.NodeName), Protected: cards == 0 && !s.plugin.ReclaimsAll()}

		rule := s.plugin.Rules.ReclaimRule(by, task)
		if !gang.IsOnNode(task.Status) || rule == reclaimrules.NotReclaimable {
			pod.Protected = true
			g.solverJob.Whole = false
		}

		if s.plugin.IsTree() {
			g.byTree = append(g.byTree, rule == reclaimrules.ReclaimableByTree)
		}

		g.solverJob.Pods = append(g.solverJob.Pods, pod)
	}

	// The job's policies take all of it for one pod, or its subgroups have minimums that Elastic does
	// not count.
	if g.evictionPolicy.Inelastic || g.job.ContainsSubJobPolicy() {
		return
	}

	elastic, roles := gang.ElasticPods(g.job)
	g.solverJob.Elastic = max(0, int(elastic))
	if roles == nil {
		return
	}

	places := map[string]int{}
	for i, task := range g.tasks {
		place, known := places[task.TaskRole]
		if !known {
			place = len(g.solverJob.RoleElastic)
			places[task.TaskRole] = place
			g.solverJob.RoleElastic = append(g.solverJob.RoleElastic, max(0, int(roles[task.TaskRole])))
		}
		g.solverJob.Pods[i].Role = place
	}
}

// precedence orders victims. In a tree the level decides first: siblings come before queues
// further up. Then the priority of the queue decides, then that of the job, then that of the
// pod. Of equal ones, those come last whose eviction a PodDisruptionBudget forbids. If CPU and
// memory are reclaimed too, those with cards come last.
type precedence struct {
	level               int
	queue, job, pod     int32
	isBlocked, hasCards bool
}

func (p precedence) compare(other precedence) int {
	return cmp.Or(cmp.Compare(p.level, other.level), cmp.Compare(p.queue, other.queue), cmp.Compare(p.job, other.job), cmp.Compare(p.pod, other.pod),
		victims.CompareBool(p.isBlocked, other.isBlocked), victims.CompareBool(p.hasCards, other.hasCards))
}

// rankVictimJobs sets the ranks of victim jobs and their pods in the order of their
// precedence.
func (s *victimFinder) rankVictimJobs(victimJobs []*victimJob) {
	jobs := make([]precedence, len(victimJobs))
	pods := make([][]precedence, len(victimJobs))
	var all []precedence
	for i, g := range victimJobs {
		jobs[i], pods[i] = s.precedenceOf(g)
		all = append(append(all, jobs[i]), pods[i]...)
	}

	slices.SortFunc(all, precedence.compare)
	all = slices.Compact(all)
	for i, g := range victimJobs {
		g.solverJob.Rank, _ = slices.BinarySearchFunc(all, jobs[i], precedence.compare)
		for k, pod := range pods[i] {
			g.solverJob.Pods[k].Rank, _ = slices.BinarySearchFunc(all, pod, precedence.compare)
		}
	}
}

// precedenceOf returns the precedence of a whole job, which is that of its highest pod, and of
// each of its pods. With VictimOrder Loss, priorities do not count.
func (s *victimFinder) precedenceOf(g *victimJob) (job precedence, pods []precedence) {
	isBlocked, anyBlocked := s.disruptionBudgets.findBlocked(g.tasks)
	byPriority := s.plugin.Rules.VictimOrder() == v1alpha1.VictimsByPriority
	all := s.plugin.ReclaimsAll()

	job.level = g.level
	if byPriority {
		job.queue = s.ssn.Queues[g.queue].Queue.Spec.Priority
		job.job = g.priority
	}

	pods = make([]precedence, len(g.tasks))
	for i, task := range g.tasks {
		pods[i] = precedence{level: g.level, queue: job.queue, job: job.job, isBlocked: isBlocked[i], hasCards: all && g.cards[i] > 0}
		job.hasCards = job.hasCards || pods[i].hasCards
		if byPriority {
			pods[i].pod = s.plugin.Rules.PodPriority(task)
		}
		if i == 0 || pods[i].pod > job.pod { // a priority may be below 0
			job.pod = pods[i].pod
		}
	}

	job.isBlocked = anyBlocked
	return job, pods
}

// disruptionBudgets are the PodDisruptionBudgets of a session, by namespace.
type disruptionBudgets map[string][]disruptionBudget

type disruptionBudget struct {
	selector labels.Selector
	// allowed is how many more pods may be evicted now.
	allowed int32
}

// listDisruptionBudgets lists the PodDisruptionBudgets that Volcano's cache watches. There are
// none if its feature gate PodDisruptionBudgetsSupport is off.
func (s *victimFinder) listDisruptionBudgets() disruptionBudgets {
	all := disruptionBudgets{}
	listed, err := s.ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return all // a lister that reads from memory does not fail
	}

	for _, pdb := range listed {
		// A budget without a valid selector blocks nothing.
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && pdb.Spec.Selector != nil {
			all[pdb.Namespace] = append(all[pdb.Namespace], disruptionBudget{selector: selector, allowed: pdb.Status.DisruptionsAllowed})
		}
	}

	return all
}

// findBlocked reports which of a job's pods a PodDisruptionBudget forbids to evict even alone,
// and whether one forbids to evict all of them.
func (b disruptionBudgets) findBlocked(tasks []*api.TaskInfo) (each []bool, all bool) {
	each = make([]bool, len(tasks))
	if len(tasks) == 0 {
		return each, false
	}

	for _, budget := range b[tasks[0].Namespace] {
		left := budget.allowed
		for i, task := range tasks {
			if budget.selector.Matches(labels.Set(task.Pod.Labels)) {
				left--
				all = all || left < 0
				each[i] = each[i] || budget.allowed <= 0
			}
		}
	}

	return each, all
}

// priceEvictions sets what the evictions of a victim job cost, in the order of its tasks. It limits the
// elastic pods to those whose eviction the Kubernetes Jobs of a victim job survive.
func (s *victimFinder) priceEvictions(g *victimJob) {
	price := s.plugin.Prices.PriceOf(g.job, g.tasks)
	for i := range g.tasks {
		g.solverJob.Pods[i].Loss = price.Pods[i]
	}
	g.fails = price.Fails
	g.solverJob.Elastic = min(g.solverJob.Elastic, price.EvictionsLeft)
	g.solverJob.WholeLoss = price.Failure
}
