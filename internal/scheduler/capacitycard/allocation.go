package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/enqueue"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/scheduler/waitingjobs"
)

// allocation decides in which order Volcano's action allocate takes queues and jobs, and charges what it
// places.
type allocation struct {
	*snapshot.Session
	prices     *victims.Prices
	events     *Events
	stuck      *snapshot.StuckPods
	kept       *keptcards.Kept
	waiting    *waitingjobs.Jobs
	victims    *victims.Selection
	preemption *preemption.Preemption
	enqueue    *enqueue.Votes
	reserver   *enqueue.Reserver
	// deservedFirst is the state of the action in a tree, nil unless it runs twice.
	deservedFirst *deservedFirst
	// step is the state of the action in a tree, nil unless a step of it runs.
	step *allocationStep
	// jobsAhead are jobs below their minimum that come before others of equal priority, nil for none.
	jobsAhead *jobsAhead
	// belowMinimum are the jobs that run below their minimum.
	belowMinimum map[api.JobID]bool
}

// deservedFirst is the state of the action allocate in a tree. It runs twice: first for pods
// whose queues deserve what they request, then for those with which their queues borrow. In one
// run a queue of higher priority could borrow cards that another queue takes back at once.
type deservedFirst struct {
	// borrows is set in the second run.
	borrows bool
	// borrowers are the jobs with a pod for which the first run may not use each card of its
	// request. The second run tries only these.
	borrowers map[api.JobID]bool
	// later are the borrowers with a pod that the first run did not try. No cards are kept for them.
	later map[api.JobID]bool
	// highestWaiting is the highest priority of the jobs of a queue that wait to borrow a card. Jobs of a
	// lower one get that card later, too: within a queue the order of jobs stays. Other cards do not wait for it.
	highestWaiting map[snapshot.QueueCard]int32
	// tried is the pod that allocatable looked at last, and deserved are the cards of its request that
	// its queue deserves and that may be used now.
	tried    api.TaskID
	deserved []card.Name
}

// allocationStep is the state of allocateStep.
type allocationStep struct {
	// jobs are all jobs of the session. Volcano lists the jobs that it serves once, before it asks
	// for the first queue. After that the hooks need all jobs.
	jobs map[api.JobID]*api.JobInfo
	// hasBegun is set once Volcano has asked for a queue.
	hasBegun bool
}

// jobsAhead are jobs below their minimum that a run of allocate tries before others of equal priority, and
// how many of them each queue has. A job leaves them when it is tried.
type jobsAhead struct {
	untried map[api.JobID]bool
	queues  map[api.QueueID]int
}
