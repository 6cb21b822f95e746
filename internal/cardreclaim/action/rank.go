package action

import (
	"cmp"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/servicetype"
)

// precedence says how late a pod or a job goes when cards are taken back: the priority of
// its queue decides first, then that of its job, then that of the pod. Of equals those go
// last whose eviction a PodDisruptionBudget does not allow.
type precedence struct {
	queue, job, pod int32
	isBlocked       bool
}

func (p precedence) compare(other precedence) int {
	blocked := func(p precedence) int {
		if p.isBlocked {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(p.queue, other.queue), cmp.Compare(p.job, other.job), cmp.Compare(p.pod, other.pod),
		cmp.Compare(blocked(p), blocked(other)))
}

// rank gives givers and their pods ranks in the order of their precedence.
func (w *wave) rank(givers []*giver) {
	jobs, pods := make([]precedence, len(givers)), make([][]precedence, len(givers))
	var all []precedence
	for i, g := range givers {
		jobs[i], pods[i] = w.precedenceOf(g)
		all = append(append(all, jobs[i]), pods[i]...)
	}
	slices.SortFunc(all, precedence.compare)
	all = slices.Compact(all)
	for i, g := range givers {
		g.shape.Rank, _ = slices.BinarySearchFunc(all, jobs[i], precedence.compare)
		for k, pod := range pods[i] {
			g.shape.Pods[k].Rank, _ = slices.BinarySearchFunc(all, pod, precedence.compare)
		}
	}
}

// precedenceOf returns the precedence of a job that is taken as a whole, which is that of
// its highest pod, and of each of its pods. By victimOrder Loss priorities do not count.
func (w *wave) precedenceOf(g *giver) (job precedence, pods []precedence) {
	isBlocked, anyBlocked := w.budgets.block(g.tasks)
	byPriority := w.tide.VictimOrder() == servicetype.VictimsByPriority
	if byPriority {
		job.queue, job.job = w.ssn.Queues[g.job.Queue].Queue.Spec.Priority, g.priority
	}
	pods = make([]precedence, len(g.tasks))
	for i, task := range g.tasks {
		pods[i] = precedence{queue: job.queue, job: job.job, isBlocked: isBlocked[i]}
		if byPriority {
			pods[i].pod = w.tide.Priority(task)
		}
		if i == 0 || pods[i].pod > job.pod {
			job.pod = pods[i].pod
		}
	}
	job.isBlocked = anyBlocked
	return job, pods
}

// budgets are the PodDisruptionBudgets of a session, by namespace.
type budgets map[string][]budget

type budget struct {
	selector labels.Selector
	// allowed is how many more pods may be evicted now.
	allowed int32
}

// readBudgets reads the PodDisruptionBudgets that Volcano's cache watches. There are none
// where its feature gate PodDisruptionBudgetsSupport is off.
func (w *wave) readBudgets() budgets {
	all := budgets{}
	listed, err := w.ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return all // a lister that reads from memory does not fail
	}
	for _, pdb := range listed {
		if b, ok := budgetOf(pdb); ok {
			all[pdb.Namespace] = append(all[pdb.Namespace], b)
		}
	}
	return all
}

// budgetOf is false for a PodDisruptionBudget that selects no pods, or none that is known.
func budgetOf(pdb *policyv1.PodDisruptionBudget) (budget, bool) {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	return budget{selector: selector, allowed: pdb.Status.DisruptionsAllowed}, err == nil && pdb.Spec.Selector != nil
}

// block reports which of a job's pods a PodDisruptionBudget does not allow to evict even
// alone, and whether one does not allow to evict all of them.
func (b budgets) block(tasks []*api.TaskInfo) (each []bool, all bool) {
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
