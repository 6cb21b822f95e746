package snapshot

import (
	"cmp"
	"iter"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/internal/scheduler/gang"
)

// PodsForAllocate yields the pods that allocate may try: pending, not gated, of enqueued jobs.
func (s *Session) PodsForAllocate() iter.Seq[CheckInput] {
	return func(yield func(CheckInput) bool) {
		for _, job := range s.Volcano.Jobs {
			if AwaitsEnqueue(job) {
				continue
			}

			for _, task := range job.TaskStatusIndex[api.Pending] {
				r, known := s.CheckInputFor(task)
				if known && !task.SchGated && !yield(r) {
					return
				}
			}
		}
	}
}

// AnyTaskOn reports whether some pod of a node, which may be nil, meets the condition.
func AnyTaskOn(node *api.NodeInfo, is func(*api.TaskInfo) bool) bool {
	if node != nil {
		for _, task := range node.Tasks {
			if is(task) {
				return true
			}
		}
	}
	return false
}

// AwaitsEnqueue reports whether a job is not enqueued yet: allocate skips it. Without the action enqueue in the
// configuration no job is enqueued, and allocate skips none.
func AwaitsEnqueue(job *api.JobInfo) bool {
	return job.IsPending() && conf.EnabledActionMap["enqueue"]
}

// MissingTasks returns the pending pods that a job lacks for its minimum: first those that a task role
// requires, then the smallest of the rest, so that the plugin never refuses a job for more than it needs.
// Pods with scheduling gates do not count.
func (s *Session) MissingTasks(job *api.JobInfo) []*api.TaskInfo {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return nil
	}

	have, ready := gang.CountByRole(job, false) // without pipelined pods
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			pending = append(pending, task)
		}
	}

	slices.SortFunc(pending, func(a, b *api.TaskInfo) int {
		x := s.RequestFor(a)
		y := s.RequestFor(b)
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(x.MilliCPU, y.MilliCPU), cmp.Compare(x.Memory, y.Memory), cmp.Compare(a.UID, b.UID))
	})
	return gang.SelectToMinimum(job, have, ready, pending)
}
