package capacitycard

import (
	"cmp"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// reservationSums are what is reserved in each queue.
type reservationSums struct {
	*snapshot.Session
	inqueue map[api.QueueID]*quota.Reservations
	// elasticUsages are what running jobs use above their minimum.
	elasticUsages map[api.JobID]quota.ElasticUsage
}

// reserver reserves what enqueued jobs wait for.
type reserver struct {
	*snapshot.Session
	sums    *reservationSums
	enqueue *enqueuing
	// unreserved are the jobs with requests beyond their reservation, while the session opens.
	unreserved []unreservedJob
	// exhausted are the jobs whose reservation ended for good.
	exhausted map[api.JobID]bool
}

// reserveForJob reserves what an enqueued job still waits for, unless its reservation timed
// out, and adds what a running job uses above its minimum. allocated is how many of its pods
// are placed. A barred job may not use its queue, so it gets no reservation.
func (p *reserver) reserveForJob(job *api.JobInfo, allocated int, barred bool) {
	if _, exists := p.sums.inqueue[job.Queue]; !exists || job.PodGroup == nil {
		return
	}

	// A pending job waits for the vote, and a completed one needs nothing.
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupInqueue, scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
	default:
		return
	}

	if !barred {
		p.reserveMinimum(job)
	}
	if aboveMinimum := allocated - int(job.MinAvailable); aboveMinimum > 0 {
		p.sums.addElastic(job, p.sums.elasticUsage(job, aboveMinimum))
	}
}

// reserveMinimum reserves what an enqueued job lacks for its minimum. A running job that lacks nothing
// does not wait.
func (p *reserver) reserveMinimum(job *api.JobInfo) {
	isRunning := job.PodGroup.Status.Phase == scheduling.PodGroupRunning
	// mayReserve lets the job wait, so a running job is asked only once it lacks something.
	if !isRunning && !p.mayReserve(job) {
		return
	}

	request, refusal := p.enqueue.missingMinimum(job)
	if refusal != nil || request.IsEmpty() || (isRunning && !p.mayReserve(job)) {
		return
	}
	if p.Cache.Reservations[job.PgUID].IsExhausted && !p.endExhaustion(job, request) {
		p.exhausted = addJob(p.exhausted, job.UID)
		return
	}

	excess := p.Cache.Reservations.UnreservedExcess(job, request)
	if !p.sums.fitsAlone(job, request) {
		return
	}

	p.sums.reserve(job.Queue, p.Ledger.DropUngranted(string(job.Queue), request.Without(excess)))
	if !excess.IsEmpty() {
		p.unreserved = append(p.unreserved, unreservedJob{job, request, excess})
	}
}

// mayReserve reports whether a waiting job has its reservation, or gets it again if its request has
// changed.
func (p *reserver) mayReserve(job *api.JobInfo) bool {
	r := p.Cache.Reservations
	return r.IsActive(job.PgUID, p.Cache.Now(), p.Args.MaxReservation) || r[job.PgUID].IsExhausted
}

// endExhaustion gives a job its reservation again if it requests something else than when it lost it for
// good. It reports whether it does.
func (p *reserver) endExhaustion(job *api.JobInfo, request quota.JobRequest) bool {
	entry := p.Cache.Reservations[job.PgUID]
	key := request.Key()
	if entry.ExhaustedRequest == "" {
		entry.ExhaustedRequest = key
	}
	if entry.ExhaustedRequest == key {
		return false
	}
	p.Cache.Reservations.RestartAll(job.PgUID, p.Cache.Now())
	return true
}

// addJob adds a job to a set, which is nil while it is empty.
func addJob(jobs map[api.JobID]bool, job api.JobID) map[api.JobID]bool {
	if jobs == nil {
		jobs = map[api.JobID]bool{}
	}
	jobs[job] = true
	return jobs
}

// fitsAlone reports whether a job would be enqueued if it had its queue to itself. A job
// enqueued under a larger quota cannot start, so it reserves nothing.
func (p *reservationSums) fitsAlone(job *api.JobInfo, request quota.JobRequest) bool {
	return p.Ledger.FitsAlone(string(job.Queue), p.jobCharges(job), request, p.Args.OverCommitFactor)
}

// jobCharges returns the charges of the job's placed pods in its queue.
func (p *reservationSums) jobCharges(job *api.JobInfo) (charges []*quota.Charge) {
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		if charge := p.ChargeInQueue(job.Queue, task); charge != nil {
			charges = append(charges, charge)
		}
	}
	return charges
}

// elasticUsage returns what a job uses, and how much of it is above the minimum: that of its
// smallest pods.
func (p *reservationSums) elasticUsage(job *api.JobInfo, aboveMinimum int) quota.ElasticUsage {
	e := quota.ElasticUsage{Used: map[card.Name]card.Count{}}
	var cards, milliCPU, memory []int64
	for task := range gang.TasksIn(job, api.AllocatedStatus) {
		charge := p.ChargeInQueue(job.Queue, task)
		if charge == nil {
			continue
		}

		for _, amount := range charge.Cards {
			e.Used[amount.Name] = e.Used[amount.Name].Add(amount.Count)
			cards = append(cards, int64(amount.Count))
		}

		milliCPU = append(milliCPU, charge.MilliCPU)
		memory = append(memory, charge.Memory)
	}

	// Any pods may be those above the minimum. The smallest ones count, so that no vote promises too much.
	e.Elastic = card.Count(sumOfSmallest(cards, aboveMinimum))
	e.MilliCPU = sumOfSmallest(milliCPU, aboveMinimum)
	e.Memory = sumOfSmallest(memory, aboveMinimum)
	return e
}

// sumOfSmallest returns the sum of the n smallest amounts.
func sumOfSmallest(amounts []int64, n int) (sum int64) {
	slices.Sort(amounts)
	for _, amount := range amounts[:min(n, len(amounts))] {
		sum = quota.AddSaturating(sum, amount)
	}
	return sum
}

// unreservedJob is a job that requests more than its reservation.
type unreservedJob struct {
	job *api.JobInfo
	// request is what it waits for, excess the part without a reservation.
	request, excess quota.JobRequest
}

// reserveUnreserved reserves the excess of jobs as far as it would be enqueued now, after all
// charges are known. An Inqueue or Running phase does not prove that the plugin accepted a job.
// Volcano does not ask about one without minResources, and its request may change later. A
// restarted scheduler has no reservations and keeps free what fits.
func (p *reserver) reserveUnreserved() {
	jobs := p.unreserved
	slices.SortFunc(jobs, func(a, b unreservedJob) int {
		return cmp.Or(a.job.CreationTimestamp.Compare(b.job.CreationTimestamp.Time), cmp.Compare(a.job.UID, b.job.UID))
	})

	for _, u := range jobs {
		if p.CheckQueue(u.job) != nil || p.enqueue.checkEnqueueQuota(u.job, u.excess) != nil {
			continue
		}
		p.sums.reserve(u.job.Queue, p.Ledger.DropUngranted(string(u.job.Queue), u.excess))
		if p.Cache.Sync.Synced { // before that the ledger misses charges
			p.Cache.Reservations.RecordEnqueued(u.job, u.request)
		}
	}
	p.unreserved = nil
}

// recordProgress restarts the reservation of PodGroups with pods placed at the end of the
// session, or with nodes nominated for all they lack. Undone placements are no progress.
// Neither are pipelined pods of an incomplete gang, since Volcano's preempt creates them in
// every session.
func (p *reserver) recordProgress() {
	for _, job := range p.Volcano.Jobs {
		placed := len(job.TaskStatusIndex[api.Allocated]) + len(job.TaskStatusIndex[api.Binding])
		if placed > 0 || (len(job.TaskStatusIndex[api.Pipelined]) > 0 && p.Volcano.JobPipelined(job)) {
			p.Cache.Reservations.RestartAll(job.PgUID, p.Cache.Now())
		}
	}
}
