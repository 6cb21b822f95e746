// Package action is Volcano's scheduler action cardreclaim: it takes cards back
// from jobs of other queues for pods that wait, in whole gangs and at the least
// loss.
//
// The package only translates: who may take from whom is decided by the plugin
// capacity-card, who goes by package cardreclaim, and how a job takes it by
// package vcjob.
package action

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/capacitycard"
)

// Name is the name of the action in volcano-scheduler.conf, and the reason that
// Volcano writes to the pods it evicts.
const Name = "cardreclaim"

// Action is the action. Volcano runs one session at a time.
type Action struct {
	jobs   Jobs
	manner manner
}

var _ framework.Action = &Action{}

// New makes the action. jobs tells of Volcano jobs; nil looks them up through
// the API.
func New(jobs Jobs) *Action {
	if jobs == nil {
		jobs = &informed{}
	}
	return &Action{jobs: jobs, manner: manner{places: make(chan struct{}, atOnce)}}
}

// Name returns Name.
func (a *Action) Name() string { return Name }

// Initialize does nothing.
func (a *Action) Initialize() {}

// UnInitialize does nothing.
func (a *Action) UnInitialize() {}

// Execute takes cards back for the pods that wait, the queue of the highest
// priority first.
func (a *Action) Execute(ssn *framework.Session) {
	tide, ok := capacitycard.TideOf(ssn)
	if !ok {
		return
	}
	a.jobs.Open(ssn)
	a.insist(ssn, tide)
	w := newWave(ssn, tide, a)
	w.finish()
	queues := util.NewPriorityQueue(ssn.QueueOrderFn)
	waiting := map[api.QueueID]*util.PriorityQueue{}
	for _, job := range ssn.Jobs {
		if !w.waits(job) {
			continue
		}
		if _, known := waiting[job.Queue]; !known {
			waiting[job.Queue] = util.NewPriorityQueue(ssn.JobOrderFn)
			queues.Push(ssn.Queues[job.Queue])
		}
		waiting[job.Queue].Push(job)
	}
	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo)
		if ssn.Overused(queue) {
			continue
		}
		jobs := waiting[queue.UID]
		w.serve(jobs.Pop().(*api.JobInfo))
		if !jobs.Empty() {
			queues.Push(queue)
		}
	}
}

// waits tells whether a job has pods for which cards may be taken back. A job
// that must stay inside one part of the network is left to wait: which part it
// gets is decided when it is placed, and cards elsewhere would be no help.
func (w *wave) waits(job *api.JobInfo) bool {
	if job.IsPending() || w.ssn.Queues[job.Queue] == nil || job.ContainsHardTopology() {
		return false
	}
	takes := false
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if w.mayTry(task) && w.tide.Takes(task) {
			takes = true
			break
		}
	}
	if !takes {
		return false
	}
	if result := w.ssn.JobValid(job); result != nil && !result.Pass {
		klog.V(4).InfoS("Job is not valid, no cards are taken back for it", "job", klog.KRef(job.Namespace, job.Name), "reason", result.Reason)
		return false
	}
	return true
}

// mayTry leaves out pods that wait for something else than room, and those that
// want nobody to go for them.
func (w *wave) mayTry(task *api.TaskInfo) bool {
	policy := task.Pod.Spec.PreemptionPolicy
	return !task.SchGated && !task.BestEffort && (policy == nil || *policy != corev1.PreemptNever)
}

// serve places a job's pods: those it lacks to its minimum all or none, then as
// many of the others as can be.
//
// When all of them can be placed they are placed together: of a Deployment, whose
// minimum is one, the first pod would otherwise take a job that is of no use to
// the others.
func (w *wave) serve(job *api.JobInfo) {
	lacking := w.lacking(job)
	more := w.takers(job, lacking)
	if len(lacking) > 0 {
		if !w.mayTryAll(lacking) {
			return
		}
		together := slices.Concat(lacking, more)
		if len(more) > 0 && w.mayTryAll(together) && w.place(job, together, true) {
			return
		}
		if !w.place(job, lacking, true) {
			return
		}
	}
	if len(more) > 0 {
		w.place(job, more, false)
	}
}

// takers lists the waiting pods of a job that may take cards back, from the same
// jobs as the first of them, without some.
func (w *wave) takers(job *api.JobInfo, without []*api.TaskInfo) []*api.TaskInfo {
	var takers []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if w.mayTry(task) && w.tide.Takes(task) && !slices.Contains(without, task) {
			takers = append(takers, task)
		}
	}
	if len(takers) == 0 {
		return nil
	}
	w.sort(takers)
	first := w.giverKey(takers[0])
	return slices.DeleteFunc(takers, func(task *api.TaskInfo) bool { return w.giverKey(task) != first })
}

// mayTryAll tells whether pods may be placed together: all that ask for cards
// must be allowed to take them back, and from the same jobs.
func (w *wave) mayTryAll(tasks []*api.TaskInfo) bool {
	var first *api.TaskInfo
	for _, task := range tasks {
		if !w.mayTry(task) {
			return false
		}
		if w.tide.Ask(task).Count == 0 {
			continue
		}
		if first == nil {
			first = task
		}
		if !w.tide.Takes(task) || w.giverKey(task) != w.giverKey(first) {
			return false
		}
	}
	return true
}
