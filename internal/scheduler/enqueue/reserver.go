// This file says which jobs have a reservation. cache/reservations.go says how long it lasts.

package enqueue

import (
	"cmp"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Reserver reserves what enqueued jobs wait for.
type Reserver struct {
	*snapshot.Session
	sums  *Sums
	votes *Votes
	// unreserved are the jobs with requests beyond their reservation, while the session opens.
	unreserved []unreservedJob
	// exhausted are the jobs whose reservation ended for good.
	exhausted map[api.JobID]bool
}

// NewReserver returns what reserves in a session.
func NewReserver(s *snapshot.Session, sums *Sums, votes *Votes) *Reserver {
	return &Reserver{Session: s, sums: sums, votes: votes}
}

// Begin forgets whose reservation has ended, before ReserveForJob is called for each job.
func (r *Reserver) Begin() { r.exhausted = map[api.JobID]bool{} }

// IsExhausted reports whether the reservation of a job ended for good.
func (r *Reserver) IsExhausted(job api.JobID) bool { return r.exhausted[job] }

// ReserveForJob reserves what an enqueued job still waits for, unless its reservation timed
// out, and adds what a running job uses above its minimum, which other jobs may wait for. allocated is how many of
// its pods are placed. A barred job may not use its queue, so it gets no reservation.
func (r *Reserver) ReserveForJob(job *api.JobInfo, allocated int, barred bool) {
	if _, exists := r.sums.inqueue[job.Queue]; !exists || job.PodGroup == nil {
		return
	}

	// A pending job waits for the vote, and a completed one needs nothing.
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupInqueue, scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
	default:
		return
	}

	if !barred {
		r.reserveMinimum(job)
	}
	if aboveMinimum := allocated - int(job.MinAvailable); aboveMinimum > 0 {
		r.sums.addElastic(job, r.sums.elasticUsage(job, aboveMinimum))
	}
}

// reserveMinimum reserves what an enqueued job lacks for its minimum. A running job that lacks nothing
// does not wait.
func (r *Reserver) reserveMinimum(job *api.JobInfo) {
	isRunning := job.PodGroup.Status.Phase == scheduling.PodGroupRunning
	// mayReserve notes that the job waits, so a running job is asked only once it lacks something.
	if !isRunning && !r.mayReserve(job) {
		return
	}

	request, refusal := r.votes.MissingMinimum(job)
	if refusal != nil || request.IsEmpty() || (isRunning && !r.mayReserve(job)) {
		return
	}
	// A reservation that ended for good comes back only with another request.
	if r.Cache.Reservations[job.PgUID].IsExhausted && !r.endExhaustion(job, request) {
		r.exhausted[job.UID] = true
		return
	}

	// The excess is what the job requests beyond that with which it was enqueued.
	excess := r.Cache.Reservations.UnreservedExcess(job, request)
	if !r.sums.fitsAlone(job, request) { // it cannot start, for example because the quota was lowered
		return
	}

	r.sums.Reserve(job.Queue, r.Ledger.DropUngranted(string(job.Queue), request.Without(excess)))
	if !excess.IsEmpty() { // ReserveUnreserved reserves it as far as it fits
		r.unreserved = append(r.unreserved, unreservedJob{job, request, excess})
	}
}

// mayReserve notes that a job waits, and reports whether it has its reservation, or gets it again if its request
// has changed.
func (r *Reserver) mayReserve(job *api.JobInfo) bool {
	known := r.Cache.Reservations
	return known.IsActive(job.PgUID, r.Now(), r.Args.MaxReservation) || known[job.PgUID].IsExhausted
}

// endExhaustion gives a job its reservation again if it requests something else than when it lost it for
// good. It reports whether it does.
func (r *Reserver) endExhaustion(job *api.JobInfo, request quota.JobRequest) bool {
	entry := r.Cache.Reservations[job.PgUID]
	key := request.Key()
	if entry.ExhaustedRequest == "" { // it has just lost it
		entry.ExhaustedRequest = key
	}
	if entry.ExhaustedRequest == key {
		return false
	}
	r.Cache.Reservations.RestartAll(job.PgUID, r.Now())
	return true
}

// unreservedJob is a job that requests more than its reservation.
type unreservedJob struct {
	job *api.JobInfo
	// request is what it waits for, excess the part without a reservation.
	request, excess quota.JobRequest
}

// ReserveUnreserved reserves the excess of jobs, of the oldest job first, as far as it would be enqueued now. All
// charges must be known. An Inqueue or Running phase does not prove that the plugin accepted a job.
// Volcano does not ask about one without minResources, and its request may change later. A
// restarted scheduler has no reservations and keeps free what fits.
func (r *Reserver) ReserveUnreserved() {
	jobs := r.unreserved
	slices.SortFunc(jobs, func(a, b unreservedJob) int {
		return cmp.Or(a.job.CreationTimestamp.Compare(b.job.CreationTimestamp.Time), cmp.Compare(a.job.UID, b.job.UID))
	})

	for _, u := range jobs {
		if r.CheckQueue(u.job) != nil || r.votes.checkEnqueueQuota(u.job, u.excess) != nil {
			continue
		}
		r.sums.Reserve(u.job.Queue, r.Ledger.DropUngranted(string(u.job.Queue), u.excess))
		if r.Cache.Sync.Synced { // before that the ledger misses charges
			r.Cache.Reservations.RecordEnqueued(u.job, u.request)
		}
	}
	r.unreserved = nil
}

// RecordProgress restarts the reservation of PodGroups with pods placed at the end of the
// session, or with nodes nominated for all they lack. Undone placements are no progress.
// Neither are pipelined pods of an incomplete gang, since Volcano's preempt creates them in
// every session.
func (r *Reserver) RecordProgress() {
	for _, job := range r.Volcano.Jobs {
		placed := len(job.TaskStatusIndex[api.Allocated]) + len(job.TaskStatusIndex[api.Binding])
		if placed > 0 || (len(job.TaskStatusIndex[api.Pipelined]) > 0 && r.Volcano.JobPipelined(job)) {
			r.Cache.Reservations.RestartAll(job.PgUID, r.Now())
		}
	}
}
