// Package gang says which pods a job of Volcano has, and which of them complete its minimum.
package gang

import (
	"iter"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// TasksIn yields the tasks of a job with such a status.
func TasksIn(job *api.JobInfo, has func(api.TaskStatus) bool) iter.Seq[*api.TaskInfo] {
	return func(yield func(*api.TaskInfo) bool) {
		for status, tasks := range job.TaskStatusIndex {
			if !has(status) {
				continue
			}

			for _, task := range tasks {
				if !yield(task) {
					return
				}
			}
		}
	}
}

// IsOnNode reports whether pods with a status are bound to their nodes or run there.
func IsOnNode(status api.TaskStatus) bool { return status == api.Running || status == api.Bound }

// HasLowerPodOnNode reports whether a pod of the job that is on a node has a lower priority than a pending one.
func HasLowerPodOnNode(job *api.JobInfo, pending *api.TaskInfo) bool {
	for task := range TasksIn(job, api.PreemptableStatus) {
		if task.Priority < pending.Priority {
			return true
		}
	}
	return false
}

// NeverPreempts reports whether the preemption policy of a pod forbids evictions for it.
func NeverPreempts(task *api.TaskInfo) bool {
	policy := task.Pod.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// RunningSince returns the start of a job's oldest pod on its node, far in the future if
// unknown. A started pod counts even in an init container, where it may work for long without
// being Running.
func RunningSince(job *api.JobInfo) time.Time {
	since := time.Unix(math.MaxInt32, 0)
	for task := range TasksIn(job, IsOnNode) {
		if start := workload.StartTime(task.Pod); !start.IsZero() && start.Before(since) {
			since = start
		}
	}
	return since
}

// HasAllocatedPods reports whether pods of a job have a node and have not finished.
func HasAllocatedPods(job *api.JobInfo) bool {
	for range TasksIn(job, api.AllocatedStatus) {
		return true
	}
	return false
}
