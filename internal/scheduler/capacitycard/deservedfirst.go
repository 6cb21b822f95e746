package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

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

// allocate runs Volcano's action allocate. In a tree it serves the queues in their order, and no pod
// borrows before the pods that need not borrow. If only one kind of pods waits, one run does.
//
// Before each run it finds the free cards that are kept for jobs which lack more of them.
func (p *allocation) allocate(execute func()) {
	p.orderJobsBelowMinimum(p.waiting.Load())
	defer func() { p.jobsAhead = nil }()

	if !p.IsTree() {
		execute()
		return
	}
	if !p.waitsForDeserved() {
		p.allocateInOrder(p.Volcano.Jobs, execute)
		return
	}

	p.deservedFirst = &deservedFirst{borrowers: map[api.JobID]bool{}, later: map[api.JobID]bool{}, highestWaiting: map[snapshot.QueueCard]int32{}}
	defer func() { p.deservedFirst = nil }()

	p.allocateInOrder(p.Volcano.Jobs, execute)
	if borrowers := p.jobsThatMayBorrow(); len(borrowers) > 0 {
		p.deservedFirst.borrows = true
		p.orderJobsBelowMinimum(p.waiting.Reload(p.deservedFirst.later))
		p.allocateInOrder(borrowers, execute)
	}
}

// jobsThatMayBorrow returns the jobs of the second run. Others would only be searched again, and a
// job with a hard topology would lose the reasons of the first run. A gang of which the first run pipelined pods
// is not among them: Volcano binds none of its pods yet, and would bind a part of its minimum if the
// second run completed it.
func (p *allocation) jobsThatMayBorrow() map[api.JobID]*api.JobInfo {
	jobs := map[api.JobID]*api.JobInfo{}
	for id := range p.deservedFirst.borrowers {
		job := p.Volcano.Jobs[id]
		if len(job.TaskStatusIndex[api.Pipelined]) > 0 && !p.Volcano.JobReady(job) {
			continue
		}
		clear(job.NodesFitErrors) // with them Volcano would not try the pods again
		jobs[id] = job
	}
	return jobs
}

// waitsForDeserved reports whether some pod may be placed with which its queue need not borrow
// what other queues can take back.
func (p *allocation) waitsForDeserved() bool {
	for r := range p.PodsForAllocate() {
		if (r.Request.Count > 0 || p.ReclaimsAll()) && p.needNotBorrow(r) {
			return true
		}
	}
	return false
}

// needNotBorrow reports whether the queue of a pod stays within what it deserves with some card.
func (p *allocation) needNotBorrow(r snapshot.CheckInput) bool {
	return p.Ledger.Fits(string(r.Job.Queue), r.Request.Request, p.WithinReclaimable())
}

// isTurnOf reports whether the running part of allocate tries a pod. The first one notes whose
// turn comes later. The second one has only jobs whose turn it is.
func (p *allocation) isTurnOf(r snapshot.CheckInput) bool {
	d := p.deservedFirst
	if d == nil || d.borrows {
		return true
	}
	if p.kept.HasPreempted(r) { // cards are kept for it, so it takes none from others
		return true
	}
	if r.Request.Denied != nil { // the checks refuse it, and no pod waits for what it requests
		return true
	}

	deserved := p.appendDeservedCards(d.deserved[:0], r)
	mustBorrow := len(deserved) == 0

	d.tried = r.Task.UID
	d.deserved = slices.DeleteFunc(deserved, func(name card.Name) bool { return d.comesLater(r.Job, name) })

	// A request that names no card has none that its queue deserves.
	lacksSomeCard := len(d.deserved) < max(1, len(r.Request.Names))
	if r.Request.Count > 0 && lacksSomeCard {
		d.borrowers[r.Job.UID] = true
	}

	needsNoCard := len(r.Request.Names) == 0
	if len(d.deserved) > 0 || (needsNoCard && !d.comesLater(r.Job, "") && p.needNotBorrow(r)) {
		return true
	}

	// Jobs of a lower priority wait for a pod that must borrow, and not for one that itself only waits for another.
	if mustBorrow {
		d.putOff(r)
	}
	d.borrowers[r.Job.UID] = true
	d.later[r.Job.UID] = true

	return false
}

// comesLater reports whether a job of a higher priority of the queue waits to borrow a card, "" for
// CPU and memory of pods without cards.
func (d *deservedFirst) comesLater(job *api.JobInfo, name card.Name) bool {
	highest, isKnown := d.highestWaiting[snapshot.QueueCard{Queue: job.Queue, Name: name}]
	return isKnown && job.Priority < highest
}

// putOff notes the priority of a pod that waits to borrow, for each card of its request: "" for CPU and memory.
func (d *deservedFirst) putOff(r snapshot.CheckInput) {
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

// appendDeservedCards appends the cards of a request that the queue deserves and some node has.
func (p *allocation) appendDeservedCards(deserved []card.Name, r snapshot.CheckInput) []card.Name {
	for _, name := range r.Request.Names {
		if p.DeservesCard(r, name) && len(p.Inventory.ResourcesFor(name)) > 0 {
			deserved = append(deserved, name)
		}
	}
	return deserved
}
