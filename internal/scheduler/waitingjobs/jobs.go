// Package waitingjobs finds the jobs that wait for cards only, and which free cards are kept for them.
package waitingjobs

import (
	"cmp"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Jobs finds the jobs that wait for cards, and the free cards that are kept for them.
type Jobs struct {
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

// New returns the jobs that wait in a session. It tells kept for which of their pods free cards are kept.
func New(s *snapshot.Session, rules *reclaimrules.Rules, stuck *snapshot.StuckPods, kept *keptcards.Kept) *Jobs {
	return &Jobs{Session: s, rules: rules, stuck: stuck, kept: kept}
}

// findWaitingJob returns a job that waits for cards only, with its missing pods: all of them fit the quota
// together. It returns nil for other jobs. A job with a hard topology is none: its part of the
// network is chosen when it is placed, so no node is known to help it.
func (j *Jobs) findWaitingJob(job *api.JobInfo) *Job {
	if !j.mayWaitForCards(job) {
		return nil
	}

	missing := j.MissingTasks(job)
	if len(missing) == 0 {
		return nil
	}

	// Each pod must fit the quota alone, beside what preempt keeps for others, and all of them together.
	requests := make([]quota.Request, len(missing))
	for i, task := range missing {
		r, _ := j.CheckInputFor(task)
		if j.kept.CheckQuota(r) != nil {
			return nil
		}
		requests[i] = r.Request.Request
	}

	fits, borrows := j.Ledger.FitTogether(string(job.Queue), requests, j.WithinReclaimable())
	if !fits {
		return nil
	}
	// Volcano would not place a job that is not valid, for example one with too few pods.
	if result := j.Volcano.JobValid(job); result != nil && !result.Pass {
		return nil
	}

	// MissingTasks lists the smallest pods first. A job that lacks pods for its minimum runs below it if
	// others are placed.
	slices.Reverse(missing)
	return &Job{Info: job, missing: missing, borrows: borrows, IsBelowMinimum: gang.HasAllocatedPods(job)}
}

// mayWaitForCards reports whether a job has pending pods, and nothing but cards and quota can keep
// them from being placed. A job with pipelined pods has found its cards and waits until they are free.
func (j *Jobs) mayWaitForCards(job *api.JobInfo) bool {
	if len(job.TaskStatusIndex[api.Pending]) == 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 || job.PodGroup == nil {
		return false
	}
	return !snapshot.AwaitsEnqueue(job) && !job.ContainsHardTopology() && !job.ContainsSubJobPolicy() && j.CheckQueue(job) == nil
}

// listWaitingJobs returns the jobs with a reservation that wait for cards: all for which cards may be kept,
// and of the others the first one of each queue, whose reservation more free cards prolong. A reservation
// that was prolonged as long as allowed is exhausted, and does not count for the others. Jobs of the highest
// queue priority come first, then those that precede others of their queue. It sets FreeCards of a
// reservation to 0 if no free card may help its job.
func (j *Jobs) listWaitingJobs(free *freeCards) []*Job {
	var waiting []*Job
	first := map[api.QueueID]*Job{}
	for _, job := range j.Volcano.Jobs {
		entry := j.Cache.Reservations[job.PgUID]
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
		keeps := j.mayKeepCards(job)
		best := first[job.Queue]
		if !keeps && best != nil && !j.Volcano.JobOrderFn(job, best.Info) {
			continue
		}

		found := j.findWaitingJob(job)
		switch {
		case found == nil:
		case keeps:
			waiting = append(waiting, found)
		case !entry.IsExhausted:
			first[job.Queue] = found
		}
	}

	waiting = slices.AppendSeq(waiting, maps.Values(first))
	slices.SortFunc(waiting, j.compareWaitingJobs)
	return waiting
}

// compareWaitingJobs compares jobs by the priority of their queues, then by the order in their queue.
func (j *Jobs) compareWaitingJobs(a, b *Job) int {
	x := j.Volcano.Queues[a.Info.Queue]
	y := j.Volcano.Queues[b.Info.Queue]
	if c := cmp.Or(cmp.Compare(y.Queue.Spec.Priority, x.Queue.Spec.Priority), cmp.Compare(x.UID, y.UID)); c != 0 {
		return c
	}

	switch {
	case j.Volcano.JobOrderFn(a.Info, b.Info):
		return -1
	case j.Volcano.JobOrderFn(b.Info, a.Info):
		return 1
	}

	return 0
}

// mayKeepCards reports whether cards may be kept for some pod of a job, see keepsCards. In flat queues one pod of
// the job answers for the service type of all.
func (j *Jobs) mayKeepCards(job *api.JobInfo) bool {
	if j.IsTree() || gang.HasAllocatedPods(job) {
		return true
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		return j.ReclaimsByType(task)
	}
	return false
}

// prolongReservations restarts the reservation of the first waiting job of each queue, in the order of waiting, if it
// could use more free cards than before.
func (j *Jobs) prolongReservations(waiting []*Job, free *freeCards) {
	now := j.Now()
	seen := map[api.QueueID]bool{}
	for _, job := range waiting {
		entry := j.Cache.Reservations[job.Info.PgUID]
		if seen[job.Info.Queue] || entry.IsExhausted {
			continue
		}
		seen[job.Info.Queue] = true
		entry.ObserveFreeCards(int64(free.countFor(job)), now, j.Args.MaxReservation)
	}
}
