package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/waitingjobs"
)

// jobOrder compares two jobs: it is negative if the left one comes first. First is a job that runs below its
// minimum, because it uses cards with which it does no work. Last comes one whose reservation ended for good.
// Volcano asks after the plugins priority and gang, so it orders jobs of equal priority.
func (a *allocation) jobOrder(l, r any) int {
	left := l.(*api.JobInfo)
	right := r.(*api.JobInfo)
	return a.jobRank(left) - a.jobRank(right)
}

// jobRank returns 0 for jobs that come first, 2 for those that come last, 1 for all others.
func (a *allocation) jobRank(job *api.JobInfo) int {
	switch {
	case a.belowMinimum[job.UID] && !a.Volcano.JobReady(job):
		return 0
	case a.reserver.IsExhausted(job.UID) && !a.belowMinimum[job.UID]:
		return 2
	}
	return 1
}

// orderJobsBelowMinimum lets the next run of allocate begin with queues in which a job runs below its
// minimum, unless one of higher priority waits there: that would get the precedence.
func (a *allocation) orderJobsBelowMinimum(waiting []*waitingjobs.Job) {
	a.jobsAhead = nil
	if !slices.ContainsFunc(waiting, func(job *waitingjobs.Job) bool { return job.IsBelowMinimum }) {
		return
	}

	ahead := &jobsAhead{map[api.JobID]bool{}, map[api.QueueID]int{}}
	highest := a.highestWaitingPriorities()
	for _, job := range waiting {
		// A job that this run does not try would keep its queue first until the end of the run.
		isTried := a.deservedFirst == nil || !a.deservedFirst.borrows || a.deservedFirst.borrowers[job.Info.UID]
		if isTried && job.IsBelowMinimum && job.Info.Priority >= highest[job.Info.Queue] {
			ahead.untried[job.Info.UID] = true
			ahead.queues[job.Info.Queue]++
		}
	}
	a.jobsAhead = ahead
}

// highestWaitingPriorities returns the highest priority of a job of each queue that waits for pods.
func (a *allocation) highestWaitingPriorities() map[api.QueueID]int32 {
	highest := map[api.QueueID]int32{}
	for _, job := range a.Volcano.Jobs {
		if job.IsPending() || len(job.TaskStatusIndex[api.Pending]) == 0 {
			continue
		}
		if priority, isKnown := highest[job.Queue]; !isKnown || job.Priority > priority {
			highest[job.Queue] = job.Priority
		}
	}
	return highest
}

// compareQueues is negative if only the left queue has a job below its minimum that was not tried, positive if
// only the right one has, else 0. a is nil if no job is below its minimum.
func (a *jobsAhead) compareQueues(left, right api.QueueID) int {
	if a == nil {
		return 0
	}
	return min(a.queues[right], 1) - min(a.queues[left], 1)
}

// markTried records that allocate tries a job. Its queue is not in Volcano's heap of queues then, so its place
// there may change.
func (a *jobsAhead) markTried(job *api.JobInfo) {
	if a != nil && a.untried[job.UID] {
		delete(a.untried, job.UID)
		a.queues[job.Queue]--
	}
}
