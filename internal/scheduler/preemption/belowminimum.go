package preemption

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/workload"
)

// arePodsSeparate reports whether each pod of a PodGroup is a job of its own: the PodGroup has
// no gang, and Volcano made it for a Deployment, a StatefulSet, a batch Job or a single pod. An
// elastic vcjob is one job, also with a minimum of one.
func arePodsSeparate(job *api.JobInfo) bool {
	return job.MinAvailable <= 1 && !isVCJob(job)
}

// isVCJob reports whether a job is a Volcano job.
func isVCJob(job *api.JobInfo) bool {
	if job.PodGroup != nil && workload.VCJobOwner(&job.PodGroup.PodGroup) != "" {
		return true
	}
	for _, task := range job.Tasks { // one pod answers for all
		return workload.VCJobOwner(task.Pod) != ""
	}
	return false
}

// isBelowMinimum reports whether a job lacks pods for its minimum, in total or of a task role.
// Pipelined pods are not lacking.
func isBelowMinimum(job *api.JobInfo) bool {
	return job.IsStarving() || !job.CheckTaskPipelined() || !job.CheckSubJobPipelined()
}

// completesMinimum reports whether a pending pod is one of those that its job lacks for its
// minimum. What task roles lack comes first.
func completesMinimum(job *api.JobInfo, task *api.TaskInfo) bool {
	all, roles := gang.CountByRole(job, true)
	lacksSubJobs := !job.CheckSubJobPipelined() // then any pod may complete one
	if !gang.HasRoleMinimums(job) {
		return all < job.MinAvailable || lacksSubJobs
	}

	ofRoles := int32(0) // how many pods the roles lack together
	for role, minimum := range job.TaskMinAvailable {
		ofRoles += max(0, minimum-roles[role])
	}

	isOfLackingRole := roles[task.TaskRole] < job.TaskMinAvailable[task.TaskRole]
	lacksMoreThanRoles := job.MinAvailable-all > ofRoles
	return isOfLackingRole || lacksMoreThanRoles || lacksSubJobs
}
