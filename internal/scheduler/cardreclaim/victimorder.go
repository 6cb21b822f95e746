package cardreclaim

// This file has the order in which jobs of other queues and their pods are evicted. Package solver evicts nothing
// of a higher rank if lower ranks suffice, and in a rank it looks for the least loss. Between equal losses it takes
// the jobs and the pods that come first here. Inside of a queue, preempt has an order of its own: see
// internal/scheduler/preemption/precedence.go.

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// compareVictimJobs orders jobs of equal loss: the lowest priority of queue and job is evicted first, then the
// youngest job. The UID makes sessions reproducible.
func (f *victimFinder) compareVictimJobs(a, b *victimJob) int {
	return cmp.Or(
		cmp.Compare(f.Volcano.Queues[a.queue].Queue.Spec.Priority, f.Volcano.Queues[b.queue].Queue.Spec.Priority),
		cmp.Compare(a.priority, b.priority),
		b.runningSince.Compare(a.runningSince),
		cmp.Compare(a.job.UID, b.job.UID),
	)
}

// compareVictimPods orders pods of a job that have equal losses: the lowest priority is evicted first.
func compareVictimPods(a, b *api.TaskInfo) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.UID, b.UID))
}

// precedence is what decides about the rank of a job or a pod, the most important first; the solver evicts the
// lowest first. In a tree the level decides first: siblings come before queues further up. Then the priority of
// the queue decides, then that of the job, then that of the pod. Of equal ones, those come last whose eviction a
// PodDisruptionBudget forbids. If CPU and memory are reclaimed too, those with cards come last.
type precedence struct {
	level               int
	queue, job, pod     int32 // priorities
	isBlocked, hasCards bool
}

func (p precedence) compare(other precedence) int {
	return cmp.Or(cmp.Compare(p.level, other.level), cmp.Compare(p.queue, other.queue), cmp.Compare(p.job, other.job), cmp.Compare(p.pod, other.pod),
		victims.CompareBool(p.isBlocked, other.isBlocked), victims.CompareBool(p.hasCards, other.hasCards))
}

// rankVictimJobs sets the ranks of victim jobs and of their pods for the solver: the place of their precedence
// among all that occur.
func (f *victimFinder) rankVictimJobs(victimJobs []*victimJob) {
	jobs := make([]precedence, len(victimJobs))
	pods := make([][]precedence, len(victimJobs))
	var all []precedence
	for i, victim := range victimJobs {
		jobs[i], pods[i] = f.precedenceOf(victim)
		all = append(append(all, jobs[i]), pods[i]...)
	}

	slices.SortFunc(all, precedence.compare)
	all = slices.Compact(all)
	for i, victim := range victimJobs {
		victim.solverJob.Rank, _ = slices.BinarySearchFunc(all, jobs[i], precedence.compare)
		for k, pod := range pods[i] {
			victim.solverJob.Pods[k].Rank, _ = slices.BinarySearchFunc(all, pod, precedence.compare)
		}
	}
}

// precedenceOf returns the precedence of a whole job, which is that of its highest pod, and of each of its
// pods. But a whole job is blocked if a PodDisruptionBudget forbids to evict all of its pods together. With
// VictimOrder Loss, priorities do not count, so they stay 0.
func (f *victimFinder) precedenceOf(victim *victimJob) (job precedence, pods []precedence) {
	isBlocked, areAllBlocked := f.disruptionBudgets.findBlocked(victim.tasks)
	byPriority := f.rules.VictimOrder() == v1alpha1.VictimsByPriority
	reclaimsAll := f.ReclaimsAll()

	job.level = victim.level
	if byPriority {
		job.queue = f.Volcano.Queues[victim.queue].Queue.Spec.Priority
		job.job = victim.priority
	}

	pods = make([]precedence, len(victim.tasks))
	for i, task := range victim.tasks {
		pods[i] = precedence{level: victim.level, queue: job.queue, job: job.job, isBlocked: isBlocked[i], hasCards: reclaimsAll && victim.cards[i] > 0}
		job.hasCards = job.hasCards || pods[i].hasCards
		if byPriority {
			pods[i].pod = f.rules.PodPriority(task)
		}
		if i == 0 || pods[i].pod > job.pod { // a priority may be below 0
			job.pod = pods[i].pod
		}
	}

	job.isBlocked = areAllBlocked
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
func (f *victimFinder) listDisruptionBudgets() disruptionBudgets {
	all := disruptionBudgets{}
	listed, _ := f.Volcano.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything()) // from memory, so it does not fail
	for _, pdb := range listed {
		// A budget without a valid selector blocks nothing.
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && pdb.Spec.Selector != nil {
			all[pdb.Namespace] = append(all[pdb.Namespace], disruptionBudget{selector: selector, allowed: pdb.Status.DisruptionsAllowed})
		}
	}

	return all
}

// findBlocked reports of each pod of a job whether a PodDisruptionBudget forbids even its eviction alone, and
// whether one forbids to evict all of them together.
func (b disruptionBudgets) findBlocked(tasks []*api.TaskInfo) (each []bool, together bool) {
	each = make([]bool, len(tasks))
	if len(tasks) == 0 {
		return each, false
	}

	for _, budget := range b[tasks[0].Namespace] {
		left := budget.allowed
		for i, task := range tasks {
			if budget.selector.Matches(labels.Set(task.Pod.Labels)) {
				left--
				together = together || left < 0
				each[i] = each[i] || budget.allowed <= 0
			}
		}
	}

	return each, together
}
