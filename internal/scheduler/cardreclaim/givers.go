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
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// victimJob is a job from which cards may be taken.
type victimJob struct {
	job            *api.JobInfo
	tasks          []*api.TaskInfo
	evictionPolicy workload.EvictionPolicy
	// shape is the job as a choice; its pods are in the order of tasks. Gives is
	// set for each wave of claims.
	solverJob    solver.Job
	runningSince time.Time
	// priority is that of the job, as far as it counts between queues.
	priority int32
	// cards is what each of the tasks holds.
	cards []card.Count
}

// victimJobsFor lists the jobs from which a pod may take cards back, in the order in
// which they go when they lose the same: the lowest priority of queue and job
// first, then the youngest.
func (s *reclaimSession) victimJobsFor(task *api.TaskInfo) []*victimJob {
	key := s.reclaimerKeyFor(task)
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
			cmp.Compare(s.ssn.Queues[a.job.Queue].Queue.Spec.Priority, s.ssn.Queues[b.job.Queue].Queue.Spec.Priority),
			cmp.Compare(a.priority, b.priority),
			b.runningSince.Compare(a.runningSince),
			cmp.Compare(a.job.UID, b.job.UID),
		)
	})
	s.rankVictimJobs(all)
	s.victimJobs[key] = all
	return all
}

// newVictimJob tells what a job could give for a pod, nil when it could give nothing.
func (s *reclaimSession) newVictimJob(by *api.TaskInfo, key reclaimerKey, job *api.JobInfo) *victimJob {
	own := s.ssn.Jobs[by.Job]
	if job.Queue == own.Queue || job.PodGroup == nil || s.ssn.Queues[job.Queue] == nil || len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) == 0 {
		return nil
	}
	g := &victimJob{job: job, solverJob: solver.Job{Whole: true}, runningSince: capacitycard.RunningSince(job), priority: s.policy.JobPriority(job)}
	willing := 0
	for _, task := range job.Tasks {
		if !api.AllocatedStatus(task.Status) {
			continue
		}
		g.tasks = append(g.tasks, task)
		if isOnNode(task) && s.policy.CanReclaimFrom(by, task) {
			willing++
		}
	}
	if willing == 0 {
		return nil
	}
	// Of pods of one job that lose the same, the one that the job itself ranks lower goes first.
	slices.SortFunc(g.tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.UID, b.UID))
	})
	if name := workload.VCJobOwner(g.tasks[0].Pod); name != "" {
		known := false
		if g.evictionPolicy, known = s.action.jobPolicies.EvictionPolicyFor(job.Namespace, name); !known {
			return nil
		}
	}
	if !s.minRuntimeReached(g, key) {
		return nil
	}
	s.fillSolverJob(by, g)
	return g
}

// minRuntimeReached tells whether a job has run as long as the service types of its pods grant it,
// and notes when the first one will have.
func (s *reclaimSession) minRuntimeReached(g *victimJob, key reclaimerKey) bool {
	var least time.Duration
	for _, task := range g.tasks {
		least = max(least, s.policy.MinimumRuntime(task))
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

// isOnNode tells a pod that can go: it is on its node already.
func isOnNode(task *api.TaskInfo) bool { return task.Status == api.Running || task.Status == api.Bound }

// fillSolverJob fills in the shape of a giver: what is lost with each of its pods,
// and how many it can spare.
func (s *reclaimSession) fillSolverJob(by *api.TaskInfo, g *victimJob) {
	checkpoint := lastCheckpoint(g)
	for _, task := range g.tasks {
		cards := s.policy.CardCount(task)
		g.cards = append(g.cards, cards)
		pod := solver.Pod{Node: s.indexOfNode(task.NodeName), Protected: cards == 0}
		if start := task.Pod.Status.StartTime; start != nil {
			pod.Loss = solver.PodLoss(int64(cards), start.Time, checkpoint, s.now)
		}
		if !isOnNode(task) || !s.policy.CanReclaimFrom(by, task) {
			pod.Protected, g.solverJob.Whole = true, false
		}
		g.solverJob.Pods = append(g.solverJob.Pods, pod)
	}
	if g.evictionPolicy.Inelastic || g.job.ContainsSubJobPolicy() {
		return
	}
	spare, roles := capacitycard.ElasticPods(g.job)
	if g.solverJob.Elastic = max(0, int(spare)); roles == nil {
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

// lastCheckpoint is when a job last saved its work, as its PodGroup or any of its
// pods tells; zero when none does. What is no time is no checkpoint.
func lastCheckpoint(g *victimJob) time.Time {
	latest, _ := time.Parse(time.RFC3339, g.job.PodGroup.Annotations[v1alpha1.AnnotationCheckpointTime])
	for _, task := range g.tasks {
		if at, err := time.Parse(time.RFC3339, task.Pod.Annotations[v1alpha1.AnnotationCheckpointTime]); err == nil && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// precedence says how late a pod or a job goes when cards are taken back: the priority of
// its queue decides first, then that of its job, then that of the pod. Of equals those go
// last whose eviction a PodDisruptionBudget does not allow.
type precedence struct {
	queue, job, pod int32
	isBlocked       bool
}

func (p precedence) compare(other precedence) int {
	return cmp.Or(cmp.Compare(p.queue, other.queue), cmp.Compare(p.job, other.job), cmp.Compare(p.pod, other.pod),
		capacitycard.CompareBool(p.isBlocked, other.isBlocked))
}

// rankVictimJobs gives givers and their pods ranks in the order of their precedence.
func (s *reclaimSession) rankVictimJobs(victimJobs []*victimJob) {
	jobs, pods := make([]precedence, len(victimJobs)), make([][]precedence, len(victimJobs))
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

// precedenceOf returns the precedence of a job that is taken as a whole, which is that of
// its highest pod, and of each of its pods. By victimOrder Loss priorities do not count.
func (s *reclaimSession) precedenceOf(g *victimJob) (job precedence, pods []precedence) {
	isBlocked, anyBlocked := s.disruptionBudgets.findBlocked(g.tasks)
	byPriority := s.policy.VictimOrder() == v1alpha1.VictimsByPriority
	if byPriority {
		job.queue, job.job = s.ssn.Queues[g.job.Queue].Queue.Spec.Priority, g.priority
	}
	pods = make([]precedence, len(g.tasks))
	for i, task := range g.tasks {
		pods[i] = precedence{queue: job.queue, job: job.job, isBlocked: isBlocked[i]}
		if byPriority {
			pods[i].pod = s.policy.PodPriority(task)
		}
		if i == 0 || pods[i].pod > job.pod {
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

// listDisruptionBudgets reads the PodDisruptionBudgets that Volcano's cache watches. There are none
// where its feature gate PodDisruptionBudgetsSupport is off.
func (s *reclaimSession) listDisruptionBudgets() disruptionBudgets {
	all := disruptionBudgets{}
	listed, err := s.ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return all // a lister that reads from memory does not fail
	}
	for _, pdb := range listed {
		// One that selects no pods, or none that is known, blocks nothing.
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && pdb.Spec.Selector != nil {
			all[pdb.Namespace] = append(all[pdb.Namespace], disruptionBudget{selector: selector, allowed: pdb.Status.DisruptionsAllowed})
		}
	}
	return all
}

// findBlocked reports which of a job's pods a PodDisruptionBudget does not allow to evict even
// alone, and whether one does not allow to evict all of them.
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
