package action

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/capacitycard"
)

// lacking picks the pods that a job lacks to its minimum, beside those that run
// and those that have been promised a node: first what each role needs of its
// own, then the first of the rest. It is empty when the job has its minimum; when
// too few pods wait to reach it they are all of those.
func (w *wave) lacking(job *api.JobInfo) []*api.TaskInfo {
	have, roles := int32(0), map[string]int32{}
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded || status == api.Pipelined {
			have += int32(len(tasks))
			for _, task := range tasks {
				roles[task.TaskRole]++
			}
		}
	}
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		switch {
		case task.SchGated:
		case task.BestEffort: // Volcano counts them as placed
			have++
			roles[task.TaskRole]++
		default:
			pending = append(pending, task)
		}
	}
	w.sort(pending)
	return capacitycard.ToMinimum(job, have, roles, pending)
}

// sort puts pods in the order in which Volcano would place them, equal ones by
// name, so that the same session has the same outcome.
func (w *wave) sort(tasks []*api.TaskInfo) {
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		switch {
		case w.ssn.TaskOrderFn(a, b):
			return -1
		case w.ssn.TaskOrderFn(b, a):
			return 1
		}
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
