package main

// The rules of which free cards are kept for waiting gangs, and of jobs below their minimum.
var awaitedCardsMutants = []mutant{
	{"internal/scheduler/waitingjobs/keep.go", `len(keeping) == 0 || !free.canPlaceAll(`, `len(keeping) == 0 || false && !free.canPlaceAll(`, "nothing is kept for a gang that fits the nodes only in part"},
	{"internal/scheduler/waitingjobs/gangplacement.go", `slices.ContainsFunc(at.pods, conflicts)`, `slices.ContainsFunc(at.pods[:0], conflicts)`, "pods that must be apart are placed apart"},
	{"internal/scheduler/waitingjobs/gangplacement.go", `left == nil || g.conflictsWithOwnPods(task, node)`, `left == nil`, "a missing pod is placed apart from pods of its job that run"},
	{"internal/scheduler/waitingjobs/gangplacement.go", `	at.left.SubWithoutAssert(task.Resreq)
`, ``, "two missing pods do not use the same cards"},
	{"internal/scheduler/keptcards/awaited.go", `		case !isDeserved && !awaiting.Borrows:
			return true
`, `		case !isDeserved && !awaiting.Borrows:
			return false
`, "what a queue deserves is kept against borrowing"},
	{"internal/scheduler/keptcards/awaited.go", `k.Args.ServiceTypes.CanReclaim(awaiting.ServiceType, k.ServiceType(from))`, `true`, "cards are kept only from types from which the gang may take"},
	{"internal/scheduler/keptcards/awaited.go", `	return job.Queue == awaiting.Job.Queue || queue.Queue.Spec.Priority == awaiting.Priority
`, `	return job.Queue == awaiting.Job.Queue
`, "cards are kept for a job below its minimum from other queues of equal priority"},
	{"internal/scheduler/waitingjobs/keep.go", `		if !j.Cache.Reservations[job.Info.PgUID].IsReserved(now) {`, `		if false {`, "kept cards end with the reservation"},
	{"internal/scheduler/cache/reservations.go", `	hasGrown := r.FreeCards >= 0 && count > r.FreeCards`, `	hasGrown := false`, "more free cards prolong a reservation"},
	{"internal/scheduler/cache/reservations.go", `	hasGrown := r.FreeCards >= 0 && count > r.FreeCards`, `	hasGrown := r.FreeCards >= 0 && count >= r.FreeCards`, "as many free cards prolong no reservation"},
	{"internal/scheduler/cache/reservations.go", `	r.prolonged += waited
`, ``, "a reservation is prolonged for an hour in all"},
	{"internal/scheduler/enqueue/reserver.go", `	if entry.ExhaustedRequest == key {`, `	if true {`, "a job that requests something else has a reservation again"},
	{"internal/scheduler/capacitycard/belowminimumfirst.go", `	case a.belowMinimum[job.UID] && !a.Volcano.JobReady(job):
		return 0`, `	case a.belowMinimum[job.UID] && !a.Volcano.JobReady(job):
		return 1`, "a job below its minimum comes first in its queue"},
	{"internal/scheduler/capacitycard/belowminimumfirst.go", `	return min(a.queues[right], 1) - min(a.queues[left], 1)`, `	return 0`, "the queue of a job below its minimum comes first"},
	{"internal/scheduler/capacitycard/belowminimumfirst.go", `	case a.reserver.IsExhausted(job.UID) && !a.belowMinimum[job.UID]:
		return 2`, `	case a.reserver.IsExhausted(job.UID) && !a.belowMinimum[job.UID]:
		return 1`, "a job without a reservation comes after its equals"},
	{"internal/scheduler/capacitycard/belowminimumfirst.go", `job.Info.Priority >= highest[job.Info.Queue]`, `job.Info.Priority >= min(highest[job.Info.Queue], 0)`, "a queue does not come first for a job that its order serves later"},
	{"internal/scheduler/keptcards/awaited.go", `|| k.awaited.running[job.UID]`, `|| false && k.awaited.running[job.UID]`, "a job below its minimum comes only before jobs that do not run"},
	{"internal/scheduler/keptcards/awaited.go", `queue.Queue.Spec.Priority == awaiting.Priority
`, `true
`, "a job below its minimum does not come before a queue of another priority"},
	{"internal/scheduler/keptcards/awaited.go", `queue.Queue.Spec.Priority < awaiting.Priority && k`, `k`, "cards are kept only from queues of lower priority"},
	{"internal/scheduler/snapshot/checks.go", `&& s.Ledger.LimitsCards(string(job.Queue))`, ``, "no card is kept for a queue without a quota from those that it could take cards from"},
	{"internal/scheduler/keptcards/awaited.go", `awaiting.Job.Queue == r.Job.Queue && awaiting.Job.Priority < r.Job.Priority`, `false`, "no card is kept from a job of higher priority of the same queue"},
	{"internal/scheduler/waitingjobs/jobs.go", `		if seen[job.Info.Queue] || entry.IsExhausted {`, `		if entry.IsExhausted {`, "free cards prolong one reservation of a queue"},
	{"internal/scheduler/enqueue/reserver.go", `			r.Cache.Reservations.RestartAll(job.PgUID, r.Now())
		}`, `			r.Cache.Reservations.RestartWait(job.PgUID, r.Now())
		}`, "a job whose pods got a node has a reservation again"},
}

// The rules of the second run of allocate.
var secondRunMutants = []mutant{
	{"internal/scheduler/capacitycard/deservedfirst.go", `		if len(job.TaskStatusIndex[api.Pipelined]) > 0 && !a.Volcano.JobReady(job) {`, `		if false {`, "the second run completes no gang that the first one pipelined"},
	{"internal/scheduler/capacitycard/deservedfirst.go", `		if len(job.TaskStatusIndex[api.Pipelined]) > 0 && !a.Volcano.JobReady(job) {`, `		if true {`, "elastic pods follow in the second run"},
	{"internal/scheduler/capacitycard/deservedfirst.go", `	return isKnown && job.Priority < highest`, `	return isKnown && job.Priority > highest`, "jobs of lower priority do not borrow first"},
	{"internal/scheduler/waitingjobs/keep.go", `		return job.IsBelowMinimum || (!job.borrows && !j.laterBorrowers[job.Info.UID])`, `		return job.IsBelowMinimum || (job.borrows && !j.laterBorrowers[job.Info.UID])`, "cards are kept for what a queue deserves"},
	{"internal/scheduler/waitingjobs/freecards.go", `workload.EndsBefore(other.Pod, until)`, `workload.EndsBefore(other.Pod, time.Time{})`, "pods that end soon count as ended"},
	{"internal/scheduler/waitingjobs/freecards.go", `workload.EndsBefore(other.Pod, until)`, `workload.EndsBefore(other.Pod, until.Add(time.Hour))`, "pods that end later than within an hour do not count as ended"},
}
