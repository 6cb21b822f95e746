package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/waitingjobs"
)

// jobOrder puts first a job that runs below its minimum: it uses cards with which it does not work. Last
// comes one whose reservation ended for good. Volcano asks after the plugins priority and gang, so it
// orders jobs of equal priority.
func (p *allocation) jobOrder(l, r any) int {
	left := l.(*api.JobInfo)
	right := r.(*api.JobInfo)
	return p.jobRank(left) - p.jobRank(right)
}

func (p *allocation) jobRank(job *api.JobInfo) int {
	switch {
	case p.belowMinimum[job.UID] && !p.Volcano.JobReady(job):
		return 0
	case p.reserver.IsExhausted(job.UID) && !p.belowMinimum[job.UID]:
		return 2
	}
	return 1
}

// isBelowMinimum reports whether a job runs, but lacks pods for its minimum. allocated is how many of its
// pods have a node.
func (p *opening) isBelowMinimum(job *api.JobInfo, allocated int) bool {
	hasRoles := len(job.TaskMinAvailable) > 1
	if allocated == 0 || len(job.TaskStatusIndex[api.Pending]) == 0 || (!hasRoles && job.IsReady()) {
		return false
	}
	return len(p.MissingTasks(job)) > 0
}

// jobsAhead are jobs below their minimum that a part of allocate tries before others of equal priority,
// and how many of them each queue has.
type jobsAhead struct {
	untried map[api.JobID]bool
	queues  map[api.QueueID]int
}

// orderJobsBelowMinimum lets the next part of allocate begin with queues in which a job runs below its
// minimum, unless one of higher priority waits there: that would get the precedence.
func (p *allocation) orderJobsBelowMinimum(waiting []*waitingjobs.Job) {
	p.jobsAhead = nil
	if !slices.ContainsFunc(waiting, func(w *waitingjobs.Job) bool { return w.IsBelowMinimum }) {
		return
	}

	ahead := &jobsAhead{map[api.JobID]bool{}, map[api.QueueID]int{}}
	highest := p.highestWaitingPriorities()
	for _, w := range waiting {
		// A job that this run does not try would keep its queue first until the end of the run.
		isTried := p.deservedFirst == nil || !p.deservedFirst.borrows || p.deservedFirst.borrowers[w.Info.UID]
		if isTried && w.IsBelowMinimum && w.Info.Priority >= highest[w.Info.Queue] {
			ahead.untried[w.Info.UID] = true
			ahead.queues[w.Info.Queue]++
		}
	}
	p.jobsAhead = ahead
}

// highestWaitingPriorities returns the highest priority of a job of each queue that waits for pods.
func (p *allocation) highestWaitingPriorities() map[api.QueueID]int32 {
	highest := map[api.QueueID]int32{}
	for _, job := range p.Volcano.Jobs {
		if job.IsPending() || len(job.TaskStatusIndex[api.Pending]) == 0 {
			continue
		}
		if priority, isKnown := highest[job.Queue]; !isKnown || job.Priority > priority {
			highest[job.Queue] = job.Priority
		}
	}
	return highest
}

// compareQueues puts first the queue in which a job below its minimum was not tried.
func (a *jobsAhead) compareQueues(left, right api.QueueID) int {
	if a == nil {
		return 0
	}
	return min(a.queues[right], 1) - min(a.queues[left], 1)
}

// markTried records that allocate tries a job. Its queue is not in Volcano's heap then.
func (a *jobsAhead) markTried(job *api.JobInfo) {
	if a != nil && a.untried[job.UID] {
		delete(a.untried, job.UID)
		a.queues[job.Queue]--
	}
}
