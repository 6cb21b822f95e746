package capacitycard

import (
	"iter"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/internal/card"
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
	// latest is the priority of a job of a queue that waits to borrow a card. Jobs of a lower one
	// get that card later, too: within a queue the order of jobs stays. Other cards do not wait for it.
	latest map[queueCard]int32
	// tried is the pod that allocatable let pass last, and deserved are the cards of its request that
	// its queue deserves.
	tried    api.TaskID
	deserved []card.Name
}

// allocate runs Volcano's action allocate. In a tree it serves the queues in their order, and no pod
// borrows before the pods that need not borrow. If only one kind of pods waits, one run does.
//
// Before each run it finds the free cards that are kept for jobs which lack more of them.
func (p *allocation) allocate(execute func()) {
	p.orderJobsBelowMinimum(p.waiting.loadAwaitedCards())
	defer func() { p.jobsAhead = nil }()

	if !p.IsTree() {
		execute()
		return
	}
	if !p.waitsForDeserved() {
		p.allocateInOrder(p.ssn.Jobs, execute)
		return
	}

	p.deservedFirst = &deservedFirst{borrowers: map[api.JobID]bool{}, later: map[api.JobID]bool{}, latest: map[queueCard]int32{}}
	defer func() { p.deservedFirst = nil }()

	p.allocateInOrder(p.ssn.Jobs, execute)
	if borrowers := p.jobsThatMayBorrow(); len(borrowers) > 0 {
		p.deservedFirst.borrows = true
		p.orderJobsBelowMinimum(p.waiting.reloadAwaitedCards(p.deservedFirst.later))
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
		job := p.ssn.Jobs[id]
		if len(job.TaskStatusIndex[api.Pipelined]) > 0 && !p.ssn.JobReady(job) {
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
	for r := range p.podsForAllocate() {
		if (r.request.Count > 0 || p.ReclaimsAll()) && p.needNotBorrow(r) {
			return true
		}
	}
	return false
}

// podsForAllocate returns the pods that allocate may try.
func (p *Session) podsForAllocate() iter.Seq[checkInput] {
	return func(yield func(checkInput) bool) {
		for _, job := range p.ssn.Jobs {
			if awaitsEnqueue(job) {
				continue
			}

			for _, task := range job.TaskStatusIndex[api.Pending] {
				r, known := p.checkInputFor(task)
				if known && !task.SchGated && !yield(r) {
					return
				}
			}
		}
	}
}

// awaitsEnqueue reports whether a job is not enqueued yet: allocate skips it.
func awaitsEnqueue(job *api.JobInfo) bool {
	return job.IsPending() && conf.EnabledActionMap["enqueue"]
}

// needNotBorrow reports whether the queue of a pod stays within what it deserves with some card.
func (p *allocation) needNotBorrow(r checkInput) bool {
	return p.ledger.FitsDeserved(string(r.job.Queue), r.request.Request, p.ReclaimsAll()) == nil
}

// isTurnOf reports whether the running part of allocate tries a pod. The first one notes whose
// turn comes later. The second one has only jobs whose turn it is.
func (p *allocation) isTurnOf(r checkInput) bool {
	d := p.deservedFirst
	if d == nil || d.borrows || p.kept.hasPreempted(r) {
		return true
	}

	p.listDeservedCards(r)
	mustBorrow := len(d.deserved) == 0

	d.deserved = slices.DeleteFunc(d.deserved, func(name card.Name) bool { return d.comesLater(r.job, name) })
	if r.request.Count > 0 && len(d.deserved) < max(1, len(r.request.Names)) {
		d.borrowers[r.job.UID] = true
	}

	needsNoCard := len(r.request.Names) == 0
	if len(d.deserved) > 0 || (needsNoCard && !d.comesLater(r.job, "") && p.needNotBorrow(r)) {
		return true
	}

	// A pod that only comes after such a pod makes no others wait.
	if mustBorrow {
		d.putOff(r)
	}
	d.borrowers[r.job.UID] = true
	d.later[r.job.UID] = true

	return false
}

// comesLater reports whether a job of a higher priority of the queue waits to borrow a card, "" for
// CPU and memory of pods without cards.
func (d *deservedFirst) comesLater(job *api.JobInfo, name card.Name) bool {
	latest, isKnown := d.latest[queueCard{job.Queue, name}]
	return isKnown && job.Priority < latest
}

// putOff notes that a pod waits to borrow the cards of its request.
func (d *deservedFirst) putOff(r checkInput) {
	names := r.request.Names
	if len(names) == 0 {
		names = []card.Name{""}
	}
	for _, name := range names {
		key := queueCard{r.job.Queue, name}
		if latest, isKnown := d.latest[key]; !isKnown || r.job.Priority > latest {
			d.latest[key] = r.job.Priority
		}
	}
}

// listDeservedCards lists the cards of a request that the queue deserves and some node has.
func (p *allocation) listDeservedCards(r checkInput) {
	d := p.deservedFirst
	d.tried = r.task.UID
	d.deserved = d.deserved[:0]
	for _, name := range r.request.Names {
		if p.deservesCard(r, name) && len(p.inventory.ResourcesFor(name)) > 0 {
			d.deserved = append(d.deserved, name)
		}
	}
}

// hasPreempted reports whether pods of the same queue were evicted for a pod. They must not be
// placed again before it, although it may borrow what they need not.
func (p *KeptCards) hasPreempted(r checkInput) bool {
	return p.freed.nominations[r.task.Pod.UID].preempts
}

// cardIsDeserved: in the first run of allocate, the queue of the pod deserves the node's card.
// Of a request with one card, allocatable knows that already.
func cardIsDeserved(p *nodeChoice, r checkInput, node *api.NodeInfo) int {
	isFirstRun := p.allocation.deservedFirst != nil && !p.allocation.deservedFirst.borrows
	if !isFirstRun || r.request.Count == 0 || len(r.request.Names) == 1 || p.kept.hasPreempted(r) {
		return nodeFits
	}

	name, named := p.inventory.CardOnNode(node.Name, r.request.Resource)
	switch {
	case !named:
		return nodeFits // cardFits refuses it
	case p.allocation.deservedFirst.tried == r.task.UID && slices.Contains(p.allocation.deservedFirst.deserved, name),
		p.allocation.deservedFirst.tried != r.task.UID && p.deservesCard(r, name):
		return nodeFits
	default:
		return cardNotDeserved
	}
}
