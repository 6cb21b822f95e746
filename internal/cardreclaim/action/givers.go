package action

import (
	"cmp"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardreclaim"
	"cardquota.dev/operator/internal/workload"
)

// giver is a job from which cards may be taken.
type giver struct {
	job   *api.JobInfo
	tasks []*api.TaskInfo
	habit workload.EvictionPolicy
	// isVCJob tells that Volcano's job controller replaces pods of the job.
	isVCJob bool
	// shape is the job as a choice; its pods are in the order of tasks. Gives is
	// set for each wave of claims.
	shape cardreclaim.Job
	since time.Time
	// priority is that of the job, as far as it counts between queues.
	priority int32
	// cards is what each of the tasks holds.
	cards []card.Count
}

// isReplaced reports whether Volcano's job controller makes other pods in the place of
// those that a job gives, and counts no retry. A job that its own policy ends on an
// evicted pod has its pods deleted instead, so that the policy sees it.
func (g *giver) isReplaced() bool { return g.isVCJob && !g.habit.Ends }

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
	g := &giver{job: job, shape: cardreclaim.Job{Whole: true}, since: capacitycard.RunningSince(job), priority: w.tide.JobPriority(job)}
	willing := 0
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			g.tasks = append(g.tasks, task)
			if onNode(task) && w.tide.GivesWay(by, task) {
				willing++
			}
		}
	}
	if willing == 0 {
		return nil
	}
	// Of pods of one job that lose the same, the one that the job itself ranks lower goes first.
	slices.SortFunc(g.tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.UID, b.UID))
	})
	name := workload.VCJobOwner(g.tasks[0].Pod)
	if g.isVCJob = name != ""; g.isVCJob {
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
	at := w.runsEnoughAt(g)
	if !at.After(w.now) {
		return true
	}
	if first, known := w.ripens[key]; !known || at.Before(first) {
		w.ripens[key] = at
	}
	return false
}

// onNode tells a pod that can go: it is on its node already.
func onNode(task *api.TaskInfo) bool { return task.Status == api.Running || task.Status == api.Bound }

// runsEnoughAt is when a job has run as long as the service types of its pods grant it.
func (w *wave) runsEnoughAt(g *giver) time.Time {
	var least time.Duration
	for _, task := range g.tasks {
		least = max(least, w.tide.MinimumRuntime(task))
	}
	if least == 0 {
		return time.Time{}
	}
	return g.since.Add(least)
}

// describe fills in the shape of a giver: what is lost with each of its pods,
// and how many it can spare.
func (w *wave) describe(by *api.TaskInfo, g *giver) {
	checkpoint := checkpointOf(g)
	for _, task := range g.tasks {
		cards := w.tide.Cards(task)
		g.cards = append(g.cards, cards)
		pod := cardreclaim.Pod{Node: w.placeOf(task.NodeName), Protected: cards == 0}
		if start := task.Pod.Status.StartTime; start != nil {
			pod.Loss = cardreclaim.PodLoss(int64(cards), start.Time, checkpoint, w.now)
		}
		if !onNode(task) || !w.tide.GivesWay(by, task) {
			pod.Protected, g.shape.Whole = true, false
		}
		g.shape.Pods = append(g.shape.Pods, pod)
	}
	if g.habit.Inelastic || g.job.ContainsSubJobPolicy() {
		return
	}
	g.shape.Spare = max(0, int(g.job.ReadyTaskNum()-g.job.MinAvailable))
	if g.job.MinAvailable < g.job.TaskMinAvailableTotal || len(g.job.TaskMinAvailable) == 0 {
		return
	}
	roles, places := map[string]int32{}, map[string]int{}
	for status, tasks := range g.job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded {
			for _, task := range tasks {
				roles[task.TaskRole]++
			}
		}
	}
	for i, task := range g.tasks {
		place, known := places[task.TaskRole]
		if !known {
			place = len(g.shape.RoleSpare)
			places[task.TaskRole] = place
			g.shape.RoleSpare = append(g.shape.RoleSpare, max(0, int(roles[task.TaskRole]-g.job.TaskMinAvailable[task.TaskRole])))
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
