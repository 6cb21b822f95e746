package capacitycard

import (
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
	// latest is the priority of a job of a queue that comes in the second run. Jobs of a lower one
	// come later, too: within a queue the order of jobs stays.
	latest map[api.QueueID]int32
	// tried is the pod that allocatable let pass last, and deserved are the cards of its request that
	// its queue deserves.
	tried    api.TaskID
	deserved []card.Name
}

// Allocate runs Volcano's action allocate. In a tree no pod borrows before the pods that need
// not borrow. If only one kind of pods waits, one run does.
func (p *plugin) Allocate(execute func()) {
	if !p.cache.tree.isTree || !p.waitsForDeserved() {
		execute()
		return
	}
	p.deservedFirst = &deservedFirst{borrowers: map[api.JobID]bool{}, latest: map[api.QueueID]int32{}}
	defer func() { p.deservedFirst = nil }()
	execute()
	if len(p.deservedFirst.borrowers) == 0 {
		return
	}
	p.deservedFirst.borrows = true
	for id := range p.deservedFirst.borrowers {
		clear(p.ssn.Jobs[id].NodesFitErrors) // with them Volcano would not try the pods again
	}
	execute()
}

// waitsForDeserved reports whether some pod may be placed with which its queue need not borrow
// what other queues can take back.
func (p *plugin) waitsForDeserved() bool {
	for _, job := range p.ssn.Jobs {
		if job.IsPending() && conf.EnabledActionMap["enqueue"] { // allocate skips it as well
			continue
		}
		for _, task := range job.TaskStatusIndex[api.Pending] {
			r, known := p.checkInputFor(task)
			if known && !task.SchGated && (r.request.Count > 0 || p.ReclaimsAll()) && p.needNotBorrow(r) {
				return true
			}
		}
	}
	return false
}

// needNotBorrow reports whether the queue of a pod stays within what it deserves with some card.
func (p *plugin) needNotBorrow(r checkInput) bool {
	return p.ledger.FitsDeserved(string(r.job.Queue), r.request.Request, p.ReclaimsAll()) == nil
}

// isTurnOf reports whether the running part of allocate tries a pod. The first one notes whose
// turn comes later.
func (p *plugin) isTurnOf(r checkInput) bool {
	d := p.deservedFirst
	switch {
	case d == nil, !d.borrows && p.hasPreempted(r):
		return true
	case d.borrows: // a job with a hard topology loses the reasons of the first run
		return d.borrowers[r.job.UID] || r.job.ContainsHardTopology() || r.job.ContainsSubJobPolicy()
	}
	p.listDeservedCards(r)
	if r.request.Count > 0 && len(d.deserved) < max(1, len(r.request.Names)) {
		d.borrowers[r.job.UID] = true
	}
	latest, isLimited := d.latest[r.job.Queue]
	switch {
	case isLimited && r.job.Priority < latest:
	case len(r.request.Names) == 0 && p.needNotBorrow(r), len(d.deserved) > 0:
		return true
	default:
		if !isLimited || r.job.Priority > latest {
			d.latest[r.job.Queue] = r.job.Priority
		}
	}
	d.borrowers[r.job.UID] = true
	return false
}

// listDeservedCards lists the cards of a request that the queue deserves and some node has.
func (p *plugin) listDeservedCards(r checkInput) {
	d := p.deservedFirst
	d.tried, d.deserved = r.task.UID, d.deserved[:0]
	for _, name := range r.request.Names {
		if p.deservesCard(r, name) && len(p.inventory.ResourcesFor(name)) > 0 {
			d.deserved = append(d.deserved, name)
		}
	}
}

// hasPreempted reports whether pods of the same queue were evicted for a pod. They must not be
// placed again before it, although it may borrow what they need not.
func (p *plugin) hasPreempted(r checkInput) bool {
	return p.cache.nominations[r.task.Pod.UID].preempts
}

// cardIsDeserved: in the first run of allocate, the queue of the pod deserves the node's card.
// Of a request with one card, allocatable knows that already.
func cardIsDeserved(p *plugin, r checkInput, node *api.NodeInfo) int {
	if p.deservedFirst == nil || p.deservedFirst.borrows || r.request.Count == 0 || len(r.request.Names) == 1 || p.hasPreempted(r) {
		return nodeFits
	}
	name, named := p.inventory.CardOnNode(node.Name, r.request.Resource)
	switch {
	case !named:
		return nodeFits // cardFits refuses it
	case p.deservedFirst.tried == r.task.UID && slices.Contains(p.deservedFirst.deserved, name),
		p.deservedFirst.tried != r.task.UID && p.deservesCard(r, name):
		return nodeFits
	default:
		return cardNotDeserved
	}
}
