package gang

import "volcano.sh/volcano/pkg/scheduler/api"

// HasRoleMinimums reports whether the minimums of task roles count. Like in Volcano's CheckTaskReady, they do not if
// minAvailable is below their sum.
func HasRoleMinimums(job *api.JobInfo) bool {
	return len(job.TaskMinAvailable) > 0 && job.MinAvailable >= job.TaskMinAvailableTotal
}

// ElasticPods returns how many pods a job has above its minimum, in total and per task role, negative below it.
// The map is nil if the minimums of roles do not count.
func ElasticPods(job *api.JobInfo) (all int32, roles map[string]int32) {
	all = job.ReadyTaskNum() - job.MinAvailable
	if !HasRoleMinimums(job) {
		return all, nil
	}
	_, roles = CountByRole(job, false)
	for role, minimum := range job.TaskMinAvailable {
		roles[role] -= minimum
	}
	return all, roles
}

// CountByRole counts the pods of a job that have a node or have succeeded, in total and per
// task role. pipelined includes pipelined pods.
func CountByRole(job *api.JobInfo, pipelined bool) (all int32, roles map[string]int32) {
	roles = map[string]int32{}
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded || (pipelined && status == api.Pipelined) {
			all += int32(len(tasks))
			for _, task := range tasks {
				roles[task.TaskRole]++
			}
		}
	}
	return all, roles
}

// SelectToMinimum selects from pending pods, in their order, those that complete a job's
// minimum: first those that a task role requires, then the first of the rest. have is how many
// pods the job has, roles how many per task role. It adds to roles the pods that a role requires.
func SelectToMinimum(job *api.JobInfo, have int32, roles map[string]int32, pending []*api.TaskInfo) []*api.TaskInfo {
	var picked, rest []*api.TaskInfo
	perRole := HasRoleMinimums(job)
	for _, task := range pending {
		if perRole && roles[task.TaskRole] < job.TaskMinAvailable[task.TaskRole] {
			roles[task.TaskRole]++
			picked = append(picked, task)
		} else {
			rest = append(rest, task)
		}
	}

	if more := int(job.MinAvailable-have) - len(picked); more > 0 {
		picked = append(picked, rest[:min(more, len(rest))]...)
	}

	return picked
}
