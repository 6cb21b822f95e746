package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// allocate runs Volcano's action allocate, which execute is. In a tree it takes the queues in their order,
// and runs twice: no pod borrows before the pods that need not borrow, whose queue would take the cards back
// at once. If all waiting pods must borrow, one run is enough.
//
// Before each run it finds the jobs for which free cards are kept because they lack more of them. Queues with such
// a job below its minimum come first.
func (a *allocation) allocate(execute func()) {
	a.orderJobsBelowMinimum(a.waiting.Load())
	defer func() { a.jobsAhead = nil }()

	if !a.IsTree() { // flat queues borrow nothing
		execute()
		return
	}
	if !a.waitsForDeserved() {
		a.allocateInOrder(a.Volcano.Jobs, execute)
		return
	}

	a.deservedFirst = &deservedFirst{borrowers: map[api.JobID]bool{}, later: map[api.JobID]bool{}, highestWaiting: map[snapshot.QueueCard]int32{}}
	defer func() { a.deservedFirst = nil }()

	a.allocateInOrder(a.Volcano.Jobs, execute)
	if borrowers := a.jobsThatMayBorrow(); len(borrowers) > 0 {
		a.deservedFirst.borrows = true
		// later are the jobs with a pod that the first run did not try. No free cards are kept for them.
		a.orderJobsBelowMinimum(a.waiting.Reload(a.deservedFirst.later))
		a.allocateInOrder(borrowers, execute)
	}
}

// jobsThatMayBorrow returns the jobs of the second run, and forgets why the first run did not place their pods.
// Others would only be searched again, and a job with a hard topology would lose the reasons of the first run. A
// gang of which the first run pipelined pods is not among them: Volcano binds none of its pods yet, and would bind
// a part of its minimum if the second run completed it.
func (a *allocation) jobsThatMayBorrow() map[api.JobID]*api.JobInfo {
	jobs := map[api.JobID]*api.JobInfo{}
	for id := range a.deservedFirst.borrowers {
		job := a.Volcano.Jobs[id]
		if len(job.TaskStatusIndex[api.Pipelined]) > 0 && !a.Volcano.JobReady(job) {
			continue
		}
		clear(job.NodesFitErrors) // with them Volcano would not try the pods again
		jobs[id] = job
	}
	return jobs
}

// waitsForDeserved reports whether some pod may be placed with which its queue need not borrow
// what other queues can take back: cards, and CPU and memory if these are reclaimed too.
func (a *allocation) waitsForDeserved() bool {
	for r := range a.PodsForAllocate() {
		if (r.Request.Count > 0 || a.ReclaimsAll()) && a.needNotBorrow(r) {
			return true
		}
	}
	return false
}

// needNotBorrow reports whether the queue of a pod stays within what it deserves with some card.
func (a *allocation) needNotBorrow(r snapshot.CheckInput) bool {
	return a.Ledger.Fits(string(r.Job.Queue), r.Request.Request, a.WithinReclaimable())
}

// leaveToSecondRun reports whether the first of two runs of allocate does not try a pod, because its queue
// would borrow for it, or a job of higher priority in its queue waits to borrow the same card. It records
// which jobs the second run tries, and the cards with which the first one may place the pod.
func (a *allocation) leaveToSecondRun(r snapshot.CheckInput) (isLeft bool) {
	first := a.deservedFirst
	if first == nil || first.borrows { // one run is enough, or the second one has only such jobs
		return false
	}
	if a.kept.HasPreempted(r) { // the cards of the pods that were evicted for it are kept for it
		return false
	}
	if r.Request.Denied != nil { // no run may place it, so no job waits for its cards
		return false
	}

	// first.deserved are the cards without borrowing that no job of higher priority waits for. The node
	// checks read it.
	deserved := a.appendDeservedCards(first.deserved[:0], r)
	mustBorrow := len(deserved) == 0

	first.tried = r.Task.UID
	first.deserved = slices.DeleteFunc(deserved, func(name card.Name) bool { return first.comesLater(r.Job, name) })

	// A pod with a card that it may not use now, and that finds none of the rest free, may use all of them in
	// the second run. A request for cards that names none has no card that the queue deserves.
	lacksSomeCard := len(first.deserved) < max(1, len(r.Request.Names))
	if r.Request.Count > 0 && lacksSomeCard {
		first.borrowers[r.Job.UID] = true
	}

	needsNoCard := len(r.Request.Names) == 0
	if len(first.deserved) > 0 || (needsNoCard && !first.comesLater(r.Job, "") && a.needNotBorrow(r)) {
		return false
	}

	// The pod is left to the second run. If it must borrow, jobs of lower priority wait for it. If it itself
	// only waits for another one, they wait for that.
	if mustBorrow {
		first.recordWaiting(r)
	}
	first.borrowers[r.Job.UID] = true
	first.later[r.Job.UID] = true

	return true
}

// comesLater reports whether a job of a higher priority of the same queue waits to borrow a card, so that this job
// gets none of it before. "" stands for the CPU and memory of pods without cards.
func (d *deservedFirst) comesLater(job *api.JobInfo, name card.Name) bool {
	highest, isKnown := d.highestWaiting[snapshot.QueueCard{Queue: job.Queue, Name: name}]
	return isKnown && job.Priority < highest
}

// recordWaiting records, for each card of its request, that a pod waits to borrow it, and keeps the highest priority
// of such jobs. "" stands for the CPU and memory of a pod without cards.
func (d *deservedFirst) recordWaiting(r snapshot.CheckInput) {
	names := r.Request.Names
	if len(names) == 0 {
		names = []card.Name{""}
	}
	for _, name := range names {
		key := snapshot.QueueCard{Queue: r.Job.Queue, Name: name}
		if highest, isKnown := d.highestWaiting[key]; !isKnown || r.Job.Priority > highest {
			d.highestWaiting[key] = r.Job.Priority
		}
	}
}

// appendDeservedCards appends the cards of a request that the queue deserves and some node has. A pod must not
// wait in the first run for a card that no node has.
func (a *allocation) appendDeservedCards(deserved []card.Name, r snapshot.CheckInput) []card.Name {
	for _, name := range r.Request.Names {
		if a.DeservesCard(r, name) && len(a.Inventory.ResourcesFor(name)) > 0 {
			deserved = append(deserved, name)
		}
	}
	return deserved
}
