package action

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/workload"
)

// finish takes the rest of jobs of which a scheduler that ended in between took
// only a part: pods of a job below its minimum that were told a moment ago why they
// go, and not to go. Nobody else waits for them, but a job is never left running
// below its minimum. action is the name of the action that takes them.
func (w *wave) finish(action string) {
	for _, job := range w.ssn.Jobs {
		rest := w.unfinished(job, action)
		if len(rest) == 0 {
			continue
		}
		klog.InfoS("A job was taken in part only, the rest of it goes too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(w.ssn)
		for _, task := range rest {
			if err := gone.Evict(task, action); err != nil {
				klog.ErrorS(err, "A pod could not be taken", "pod", klog.KObj(task.Pod))
			}
		}
		w.remove(rest, w.action.isReplaced(job.Namespace, workload.VCJobOwner(rest[0].Pod)), action)
	}
}

// isReplaced is giver.isReplaced for a job of which only the name of its vcjob is known,
// "" for none. Pods of a vcjob whose policies are not known are replaced: no retry counts.
func (a *Action) isReplaced(namespace, vcjob string) bool {
	if vcjob == "" {
		return false
	}
	habit, known := a.jobs.HabitOf(namespace, vcjob)
	return !known || !habit.Ends
}

// unfinished lists the pods of a job that were told why they go, and not to go,
// if the job runs below its minimum and the action may have taken the others:
// cardreclaim those of reclaimable queues, preempt those of any.
func (w *wave) unfinished(job *api.JobInfo, action string) []*api.TaskInfo {
	queue := w.ssn.Queues[job.Queue]
	if job.PodGroup == nil || queue == nil || action == Name && !queue.Reclaimable() || job.IsReady() && job.CheckTaskReady() {
		return nil
	}
	var rest []*api.TaskInfo
	for _, status := range []api.TaskStatus{api.Running, api.Bound} {
		for _, task := range job.TaskStatusIndex[status] {
			if workload.Evictable(task.Pod, job.PodGroup.Annotations) && w.sentenced(task.Pod) {
				rest = append(rest, task)
			}
		}
	}
	return rest
}

// sentenced reports whether a pod got the condition that is written before it is told
// to go, and not longer ago than the writers of a scheduler try for. Kubelets leave
// the condition alone, so that an older one says nothing about what is to be done now.
func (w *wave) sentenced(pod *corev1.Pod) bool {
	since, evicted := workload.EvictedSince(pod)
	return evicted && w.now.Sub(since) < patience+unmarked
}
