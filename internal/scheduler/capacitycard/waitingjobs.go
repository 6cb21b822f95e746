package capacitycard

import (
	"cmp"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// waitingJob is a job that lacks pods for its minimum and waits for cards only.
type waitingJob struct {
	job *api.JobInfo
	// missing are the pods that it lacks, the largest first.
	missing []*api.TaskInfo
	// borrows is set if its queue would use more than it deserves with them.
	borrows bool
	// isBelowMinimum is set if other pods of it run.
	isBelowMinimum bool
}

// waitingJobs finds the jobs that wait for cards, and the free cards that are kept for them.
type waitingJobs struct {
	*snapshot.Session
	rules *reclaimrules.Rules
	stuck *snapshot.StuckPods
	kept  *keptcards.Kept
	// laterBorrowers are jobs of a tree for which no cards are kept.
	laterBorrowers map[api.JobID]bool
	// keeps is set if cards are kept since allocate began. running are the jobs that ran pods then, if a job
	// below its minimum waits.
	keeps   bool
	running map[api.JobID]bool
}

// findWaitingJob returns the missing pods of a job that waits for cards only: all of them fit the quota
// together. It returns nil for other jobs. A job with a hard topology is none: its part of the
// network is chosen when it is placed, so no node is known to help it.
func (p *waitingJobs) findWaitingJob(job *api.JobInfo) *waitingJob {
	if !p.mayWaitForCards(job) {
		return nil
	}

	missing := p.MissingTasks(job)
	if len(missing) == 0 {
		return nil
	}

	requests := make([]quota.Request, len(missing))
	for i, task := range missing {
		r, _ := p.CheckInputFor(task)
		if p.kept.CheckQuota(r) != nil {
			return nil
		}
		requests[i] = r.Request.Request
	}

	fit := p.Ledger.FitsTogether(string(job.Queue), requests, p.WithinReclaimable())
	if fit == quota.ExceedsQuota {
		return nil
	}
	if result := p.Volcano.JobValid(job); result != nil && !result.Pass {
		return nil
	}

	// MissingTasks lists the smallest pods first.
	slices.Reverse(missing)
	return &waitingJob{job: job, missing: missing, borrows: fit != quota.WithinDeserved, isBelowMinimum: gang.HasAllocatedPods(job)}
}

// mayWaitForCards reports whether a job has pending pods, and nothing but cards and quota can keep
// them from being placed.
func (p *waitingJobs) mayWaitForCards(job *api.JobInfo) bool {
	if len(job.TaskStatusIndex[api.Pending]) == 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 || job.PodGroup == nil {
		return false
	}
	return !snapshot.AwaitsEnqueue(job) && !job.ContainsHardTopology() && !job.ContainsSubJobPolicy() && p.CheckQueue(job) == nil
}

// usesCard reports whether a missing pod of a job may use a card: the quota has room for it, and the queue
// deserves it, unless it borrows with the job.
func (p *waitingJobs) usesCard(w *waitingJob, r snapshot.CheckInput, name card.Name) bool {
	if !p.Ledger.Fits(string(w.job.Queue), r.Request.On(name).OnlyCards(), quota.Within{}) {
		return false
	}
	return !p.IsTree() || w.borrows || p.DeservesCard(r, name)
}

// listWaitingJobs returns the jobs with a wait that keep cards, and the first one of each queue. Jobs of
// the highest queue priority come first, then those that precede others of their queue.
func (p *waitingJobs) listWaitingJobs(free *freeCards) []*waitingJob {
	var waiting []*waitingJob
	first := map[api.QueueID]*waitingJob{}
	for _, job := range p.Volcano.Jobs {
		entry := p.Cache.Reservations[job.PgUID]
		if entry == nil || !entry.IsWaiting {
			continue
		}
		if !free.mayHelp(job) {
			// The next free card is then more than before.
			entry.FreeCards = 0
			continue
		}

		// Of the jobs that keep no cards, only the first of each queue counts, and to look at more takes
		// time.
		keeps := p.mayKeepCards(job)
		best := first[job.Queue]
		if !keeps && best != nil && !p.Volcano.JobOrderFn(job, best.job) {
			continue
		}

		w := p.findWaitingJob(job)
		switch {
		case w == nil:
		case keeps:
			waiting = append(waiting, w)
		case !entry.IsExhausted:
			first[job.Queue] = w
		}
	}

	waiting = slices.AppendSeq(waiting, maps.Values(first))
	slices.SortFunc(waiting, p.compareWaitingJobs)
	return waiting
}

// compareWaitingJobs compares jobs by the priority of their queues, then by the order in their queue.
func (p *waitingJobs) compareWaitingJobs(a, b *waitingJob) int {
	x := p.Volcano.Queues[a.job.Queue]
	y := p.Volcano.Queues[b.job.Queue]
	if c := cmp.Or(cmp.Compare(y.Queue.Spec.Priority, x.Queue.Spec.Priority), cmp.Compare(x.UID, y.UID)); c != 0 {
		return c
	}

	switch {
	case p.Volcano.JobOrderFn(a.job, b.job):
		return -1
	case p.Volcano.JobOrderFn(b.job, a.job):
		return 1
	}

	return 0
}

// mayKeepCards reports whether cards may be kept for a job, see keepsCards.
func (p *waitingJobs) mayKeepCards(job *api.JobInfo) bool {
	if p.IsTree() || gang.HasAllocatedPods(job) {
		return true
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		return p.Args.ServiceTypes.Reclaims(p.ServiceType(task))
	}
	return false
}

// prolongReservations restarts the reservation of the first waiting job of each queue if it could use
// more free cards than before.
func (p *waitingJobs) prolongReservations(waiting []*waitingJob, free *freeCards) {
	now := p.Cache.Now()
	seen := map[api.QueueID]bool{}
	for _, w := range waiting {
		entry := p.Cache.Reservations[w.job.PgUID]
		if seen[w.job.Queue] || entry.IsExhausted {
			continue
		}
		seen[w.job.Queue] = true
		entry.ObserveFreeCards(int64(free.countFor(w)), now, p.Args.MaxReservation)
	}
}
