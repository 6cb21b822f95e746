package snapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// EvictionTimeout is how long an evicted pod may take until it is deleted. After that the
// eviction counts as failed.
const EvictionTimeout = time.Minute

// IsBeingEvicted reports whether a pod was evicted and will soon be gone. A pod that a user deleted does not
// count, nor one that is stuck, nor one that was not deleted within EvictionTimeout.
func (s *Session) IsBeingEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !s.IsStuckTerminating(task)
	}
	return IsEvictionPending(task, task.Status) || (evicted && s.Now().Sub(since) < EvictionTimeout)
}

// stuckAfter is how long after its grace period a terminating pod counts as stuck. A finalizer
// or a missing kubelet may keep it for ever.
const stuckAfter = 5 * time.Minute

// IsStuckTerminating reports whether a pod still exists long after its grace period.
func (s *Session) IsStuckTerminating(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && s.Now().Sub(deleted.Time) >= stuckAfter
}

// IsEvictionPending reports whether Volcano evicts a task whose pod is not deleted yet. The
// eviction may still fail, so until then the pod keeps its cards.
func IsEvictionPending(task *api.TaskInfo, status api.TaskStatus) bool {
	return status == api.Releasing && task.Pod.DeletionTimestamp == nil
}

// IsEvictionInProgress reports whether the eviction of a pod began less than EvictionTimeout ago. Its writes may
// still be retried, so the pod is no victim of another eviction.
func (s *Session) IsEvictionInProgress(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	return evicted && s.Now().Sub(since) < EvictionTimeout
}

// IsEvictable reports whether a pod may be evicted: neither it nor its PodGroup forbids that.
func (s *Session) IsEvictable(task *api.TaskInfo) bool {
	job := s.Volcano.Jobs[task.Job]
	return job != nil && job.PodGroup != nil && workload.IsEvictable(task.Pod, job.PodGroup.Annotations)
}

// RestoreBound sets the status of pods back to Bound after an undone eviction. Volcano sets
// every such pod to Running.
func RestoreBound(ssn *framework.Session, tasks []*api.TaskInfo) {
	for _, task := range tasks {
		err := ssn.Jobs[task.Job].UpdateTaskStatus(task, api.Bound)
		if node := ssn.Nodes[task.NodeName]; err == nil && node != nil {
			err = node.UpdateTask(task)
		}
		if err != nil {
			klog.ErrorS(err, "Cannot undo an eviction", "pod", klog.KObj(task.Pod))
		}
	}
}

// Evictions are the evictions that this and earlier sessions requested, until their pods are gone.
type Evictions struct {
	*Session
	// Requested are the pods whose eviction was requested and that still exist.
	Requested []*api.TaskInfo
}

// MarkEvicting records that the eviction of a pod was requested. Later sessions know it until
// the pod is gone.
func (e *Evictions) MarkEvicting(task *api.TaskInfo) {
	e.Cache.EvictingSince[task.Pod.UID] = e.Now()
}

// OverdueEvictions returns pods whose eviction was requested longer than timeout ago and that
// are not deleted.
func (e *Evictions) OverdueEvictions(timeout time.Duration) (overdue []*api.TaskInfo) {
	for _, task := range e.Requested {
		if e.EvictingLongerThan(task, timeout) {
			overdue = append(overdue, task)
		}
	}
	return overdue
}

// EvictingLongerThan reports whether the eviction of a pod was requested longer than timeout
// ago.
func (e *Evictions) EvictingLongerThan(task *api.TaskInfo, timeout time.Duration) bool {
	return e.Now().Sub(e.Cache.EvictingSince[task.Pod.UID]) > timeout
}

// AssumeEvicted counts pods whose eviction was requested as terminating, until restore is called. Later sessions
// count them so once they are deleted, so nothing more has to be evicted for what these pods release. Meanwhile
// pods may only be pipelined, since an eviction may still fail.
func (e *Evictions) AssumeEvicted() (restore func()) {
	var assumed []*api.TaskInfo
	for _, task := range e.Requested {
		state := e.Cache.Pods[task.Pod.UID]
		if state != nil && state.Charge != nil && state.ChargedAs == cache.ChargedAsUsed {
			e.Cache.RecordCharge(task.Pod, state, cache.ChargedAsTerminating)
			assumed = append(assumed, task)
		}
	}

	return func() {
		for _, task := range assumed {
			e.Cache.RecordCharge(task.Pod, e.Cache.Pods[task.Pod.UID], cache.ChargedAsUsed)
		}
	}
}

// MarkReleasing sets pods whose eviction was requested to the status that Volcano gives deleted pods: others
// may be pipelined to their cards, and they cannot become victims again. They keep their charge.
// EvictingSince keeps only these pods: others are gone.
func (e *Evictions) MarkReleasing(requested []*api.TaskInfo) {
	e.Requested = requested
	since := make(map[types.UID]time.Time, len(requested))
	for _, task := range requested {
		uid := task.Pod.UID
		since[uid] = e.Cache.EvictingSince[uid]
		if since[uid].IsZero() {
			// This process did not request the eviction, so its timeout begins when it is seen.
			since[uid] = e.Now()
		}

		job := e.Volcano.Jobs[task.Job]
		node := e.Volcano.Nodes[task.NodeName]
		// Both fail only if Volcano has lost the pod.
		if err := job.UpdateTaskStatus(task, api.Releasing); err == nil && node != nil {
			_ = node.UpdateTask(task) // Volcano only logs that a node lacks the task
		}
	}
	e.Cache.EvictingSince = since
}
