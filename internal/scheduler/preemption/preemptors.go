package preemption

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
)

// hasPreemptor reports whether a pod of some job may preempt others.
func (r *preemptRun) hasPreemptor(jobs map[api.JobID]*api.JobInfo) bool {
	for _, job := range jobs {
		if !job.IsPending() && (r.mayPreemptJobs(job) || r.mayPreemptInside(job)) {
			return true
		}
	}
	return false
}

// JobStarving reports whether Volcano's actions try to evict pods for a job. Preempt asks about each job
// when it begins with a queue, before it preempts other jobs and inside the job. It asks again before each
// pod, only to preempt other jobs.
//
// It stands in for plugin gang, which is switched off here: gang answers false as soon as a job has its
// minimum, and a PodGroup whose pods are separate has that with its first pod.
func (p *Preemption) JobStarving(obj any) bool {
	job := obj.(*api.JobInfo)
	run := p.run
	// Outside of preempt only Volcano's reclaim asks. There the hook preemptive decides about each pod.
	if run == nil {
		return len(job.TaskStatusIndex[api.Pending]) > 0
	}
	if run.isAsked[job.UID] {
		return run.mayPreemptJobs(job)
	}
	run.isAsked[job.UID] = true
	return run.mayPreemptJobs(job) || run.mayPreemptInside(job)
}

// mayPreemptJobs reports whether pods of a job may preempt other jobs of its queue.
func (r *preemptRun) mayPreemptJobs(job *api.JobInfo) bool {
	return r.hasLowerJob(job) && len(job.TaskStatusIndex[api.Pending]) > 0 && (arePodsSeparate(job) || isBelowMinimum(job))
}

// hasLowerJob reports whether a job of the queue with a lower priority has pods to evict.
func (r *preemptRun) hasLowerJob(job *api.JobInfo) bool {
	lowest, known := r.lowest[job.Queue]
	return known && lowest < job.Priority
}

// mayPreemptInside reports whether a pending pod of a job has a higher priority than a pod of
// the job that is on a node.
func (r *preemptRun) mayPreemptInside(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if gang.HasLowerPodOnNode(job, task) {
			return true
		}
	}
	return false
}
