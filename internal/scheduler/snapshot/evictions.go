package snapshot

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// EvictionTimeout is how long an evicted pod may take until it is deleted. After that the
// eviction counts as failed.
const EvictionTimeout = time.Minute

// IsBeingEvicted reports whether a pod was evicted and still exists. A pod that a user deleted,
// or that is stuck, does not count.
func (p *Session) IsBeingEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !p.IsStuckTerminating(task)
	}
	return IsEvictionPending(task, task.Status) || (evicted && p.Cache.Now().Sub(since) < EvictionTimeout)
}

// stuckAfter is how long after its grace period a terminating pod counts as stuck. A finalizer
// or a missing kubelet may keep it for ever.
const stuckAfter = 5 * time.Minute

// IsStuckTerminating reports whether a pod still exists long after its grace period.
func (p *Session) IsStuckTerminating(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && p.Cache.Now().Sub(deleted.Time) >= stuckAfter
}

// IsEvictionPending reports whether Volcano evicts a task whose pod is not deleted yet. The
// eviction may still fail, so until then the pod keeps its cards.
func IsEvictionPending(task *api.TaskInfo, status api.TaskStatus) bool {
	return status == api.Releasing && task.Pod.DeletionTimestamp == nil
}

// IsEvictionInProgress reports whether the eviction of a pod began a moment ago and its writes
// may still be retried.
func (p *Session) IsEvictionInProgress(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	return evicted && p.Cache.Now().Sub(since) < EvictionTimeout
}

// IsEvictable reports whether a pod may be evicted: neither it nor its PodGroup forbids that.
func (p *Session) IsEvictable(task *api.TaskInfo) bool {
	job := p.Volcano.Jobs[task.Job]
	return job != nil && job.PodGroup != nil && workload.IsEvictable(task.Pod, job.PodGroup.Annotations)
}
