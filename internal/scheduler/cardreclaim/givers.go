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

// giver is a job from which cards may be taken.
type giver struct {
	job   *api.JobInfo
	tasks []*api.TaskInfo
	habit workload.EvictionPolicy
	// shape is the job as a choice; its pods are in the order of tasks. Gives is
	// set for each wave of claims.
	shape solver.Job
	since time.Time
	// priority is that of the job, as far as it counts between queues.
	priority int32
	// cards is what each of the tasks holds.
	cards []card.Count
}

// giversFor lists the jobs from which a pod may take cards back, in the order in
// which they go when they lose the same: the lowest priority of queue and job
// first, then the youngest.
func (w *wave) giversFor(task *api.TaskInfo) []*giver {
	key := w.giverKey(task)
	if known, ok := w.givers[key]; ok {
		return known
	}
	var all []*giver
	for _, job := range w.ssn.Jobs {
		if g := w.giver(task, key, job); g != nil {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *giver) int {
		return cmp.Or(
			cmp.Compare(w.ssn.Queues[a.job.Queue].Queue.Spec.Priority, w.ssn.Queues[b.job.Queue].Queue.Spec.Priority),
			cmp.Compare(a.priority, b.priority),
			b.since.Compare(a.since),
			cmp.Compare(a.job.UID, b.job.UID),
		)
	})
	w.rank(all)
	w.givers[key] = all
	return all
}

// giver tells what a job could give for a pod, nil when it could give nothing.
func (w *wave) giver(by *api.TaskInfo, key giverKey, job *api.JobInfo) *giver {
	own := w.ssn.Jobs[by.Job]
	if job.Queue == own.Queue || job.PodGroup == nil || w.ssn.Queues[job.Queue] == nil || len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) == 0 {
		return nil
	}
	g := &giver{job: job, shape: solver.Job{Whole: true}, since: capacitycard.RunningSince(job), priority: w.tide.JobPriority(job)}
	willing := 0
	for _, task := range job.Tasks {
		if !api.AllocatedStatus(task.Status) {
			continue
		}
		g.tasks = append(g.tasks, task)
		if onNode(task) && w.tide.GivesWay(by, task) {
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
		if g.habit, known = w.action.jobs.HabitOf(job.Namespace, name); !known {
			return nil
		}
	}
	if !w.ranEnough(g, key) {
		return nil
	}
	w.describe(by, g)
	return g
}

// ranEnough tells whether a job has run as long as the service types of its pods grant it,
// and notes when the first one will have.
func (w *wave) ranEnough(g *giver, key giverKey) bool {
	var least time.Duration
	for _, task := range g.tasks {
		least = max(least, w.tide.MinimumRuntime(task))
	}
	at := g.since.Add(least)
	if least == 0 || !at.After(w.now) {
		return true
	}
	if first, known := w.ripens[key]; !known || at.Before(first) {
		w.ripens[key] = at
	}
	return false
}

// onNode tells a pod that can go: it is on its node already.
func onNode(task *api.TaskInfo) bool { return task.Status == api.Running || task.Status == api.Bound }

// describe fills in the shape of a giver: what is lost with each of its pods,
// and how many it can spare.
func (w *wave) describe(by *api.TaskInfo, g *giver) {
	checkpoint := checkpointOf(g)
	for _, task := range g.tasks {
		cards := w.tide.Cards(task)
		g.cards = append(g.cards, cards)
		pod := solver.Pod{Node: w.placeOf(task.NodeName), Protected: cards == 0}
		if start := task.Pod.Status.StartTime; start != nil {
			pod.Loss = solver.PodLoss(int64(cards), start.Time, checkpoint, w.now)
		}
		if !onNode(task) || !w.tide.GivesWay(by, task) {
			pod.Protected, g.shape.Whole = true, false
		}
		g.shape.Pods = append(g.shape.Pods, pod)
	}
	if g.habit.Inelastic || g.job.ContainsSubJobPolicy() {
		return
	}
	spare, roles := capacitycard.SparesOf(g.job)
	if g.shape.Spare = max(0, int(spare)); roles == nil {
		return
	}
	places := map[string]int{}
	for i, task := range g.tasks {
		place, known := places[task.TaskRole]
		if !known {
			place = len(g.shape.RoleSpare)
			places[task.TaskRole] = place
			g.shape.RoleSpare = append(g.shape.RoleSpare, max(0, int(roles[task.TaskRole])))
		}
		g.shape.Pods[i].Role = place
	}
}

// checkpointOf is when a job last saved its work, as its PodGroup or any of its
// pods tells; zero when none does. What is no time is no checkpoint.
func checkpointOf(g *giver) time.Time {
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
	byPriority := w.tide.VictimOrder() == v1alpha1.VictimsByPriority
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
		// One that selects no pods, or none that is known, blocks nothing.
		if selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err == nil && pdb.Spec.Selector != nil {
			all[pdb.Namespace] = append(all[pdb.Namespace], budget{selector: selector, allowed: pdb.Status.DisruptionsAllowed})
		}
	}
	return all
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
