package reclaimrules

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Drains finds what stop policies drain.
type Drains struct{ *snapshot.Session }

// DrainedJobs returns the jobs with running pods that a stop policy drains, in the order of their UIDs.
func (d *Drains) DrainedJobs() (jobs []*api.JobInfo) {
	hasDraining := false
	for _, rules := range d.QueueRules {
		hasDraining = hasDraining || rules.Drains
	}

	if !hasDraining { // as in most sessions: the look at all jobs is spared
		return nil
	}

	for _, job := range d.Volcano.Jobs {
		isRunning := len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0
		if isRunning && d.DrainedQueue(job) != "" {
			jobs = append(jobs, job)
		}
	}

	slices.SortFunc(jobs, func(a, b *api.JobInfo) int { return cmp.Compare(a.UID, b.UID) })
	return jobs
}

// DrainedQueue returns the queue by which a job is drained, because its stop policy or that of an ancestor says so:
// its own, or one that is still charged for its pods after the job moved. It is "" if the job is not drained.
func (d *Drains) DrainedQueue(job *api.JobInfo) api.QueueID {
	if d.DrainedBy(job.Queue) != "" {
		return job.Queue
	}
	for task := range gang.TasksIn(job, gang.IsOnNode) {
		if queue := d.VictimQueue(task); queue != job.Queue && d.DrainedBy(queue) != "" {
			return queue
		}
	}
	return ""
}

// DrainedBy returns the queue whose stop policy drains a queue: itself or its nearest ancestor, ""
// if there is none.
func (d *Drains) DrainedBy(queue api.QueueID) api.QueueID {
	for _, at := range d.Cache.Tree.Path(string(queue)) {
		if rules := d.QueueRules[api.QueueID(at)]; rules != nil && rules.Drains {
			return api.QueueID(at)
		}
	}
	return ""
}
