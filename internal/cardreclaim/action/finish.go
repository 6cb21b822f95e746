package action

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/vcjob"
)

// finish takes the rest of jobs of which a scheduler that ended in between took
// only a part: pods of a job below its minimum that were told why they go, and
// not to go. Nobody else waits for them, but a job is never left running below
// its minimum.
func (w *wave) finish() {
	for _, job := range w.ssn.Jobs {
		rest := unfinished(job)
		if len(rest) == 0 {
			continue
		}
		klog.InfoS("A job was taken in part only, the rest of it goes too", "job", klog.KRef(job.Namespace, job.Name), "pods", len(rest))
		gone := framework.NewStatement(w.ssn)
		for _, task := range rest {
			if err := gone.Evict(task, Name); err != nil {
				klog.ErrorS(err, "A pod could not be taken", "pod", klog.KObj(task.Pod))
			}
		}
		if vcjob.OwnerOf(rest[0].Pod) != "" {
			w.replace(rest)
			continue
		}
		for _, task := range rest {
			w.action.manner.remove(w.ssn.KubeClient(), task)
			w.tide.Leaves(task)
		}
	}
}

// unfinished lists the pods of a job that were told why they go, and not to go,
// if the job runs below its minimum.
func unfinished(job *api.JobInfo) []*api.TaskInfo {
	if job.PodGroup == nil || job.IsReady() && job.CheckTaskReady() {
		return nil
	}
	var rest []*api.TaskInfo
	for _, status := range []api.TaskStatus{api.Running, api.Bound} {
		for _, task := range job.TaskStatusIndex[status] {
			if sentenced(task.Pod) {
				rest = append(rest, task)
			}
		}
	}
	return rest
}

// sentenced tells that a pod carries the condition that is written before it is
// told to go. Kubelets leave it alone.
func sentenced(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			return true
		}
	}
	return false
}
