package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
)

// loadAwaitedCards finds the cards that are kept for waiting jobs when allocate begins, and returns these
// jobs. It restarts the reservations of those for which more cards are free than before.
func (p *waitingJobs) loadAwaitedCards() []*waitingJob {
	p.kept.KeepAwaited(nil, nil)
	p.laterBorrowers = nil
	p.running = nil
	p.keeps = false
	if !p.hasWaitingReservations() {
		return nil
	}

	free := p.newFreeCards()
	waiting := p.listWaitingJobs(free)
	// A reservation that more free cards prolong keeps them in this session already.
	p.prolongReservations(waiting, free)
	p.keeps = p.keepAwaitedCards(waiting, free, p.findRunningJobs)
	return waiting
}

// reloadAwaitedCards finds the cards that are kept for waiting jobs again, after the first run of allocate in a
// tree. later are the jobs with a pod that the first run did not try, because it would borrow: no cards are kept for
// these.
func (p *waitingJobs) reloadAwaitedCards(later map[api.JobID]bool) []*waitingJob {
	if !p.hasWaitingReservations() {
		return nil
	}

	p.laterBorrowers = later
	free := p.newFreeCards()
	waiting := p.listWaitingJobs(free)
	p.kept.KeepAwaited(nil, nil) // the checks of nodes read it

	running := p.findRunningJobs
	if p.keeps { // without those that the first run started
		running = func([]*waitingJob) map[api.JobID]bool { return p.running }
	}
	p.keepAwaitedCards(waiting, free, running)
	return waiting
}

// hasWaitingReservations reports whether some job with a reservation waits.
func (p *waitingJobs) hasWaitingReservations() bool {
	for _, entry := range p.Cache.Reservations {
		if entry.IsWaiting {
			return true
		}
	}
	return false
}

// keepAwaitedCards keeps free cards for waiting jobs with a reservation, and reports whether it keeps some.
// running finds the jobs that run pods.
func (p *waitingJobs) keepAwaitedCards(waiting []*waitingJob, free *freeCards, running func([]*waitingJob) map[api.JobID]bool) bool {
	now := p.Cache.Now()
	var kept []keptcards.AwaitingPod
	for _, w := range waiting {
		if !p.Cache.Reservations[w.job.PgUID].IsReserved(now) {
			continue
		}
		keeping := slices.DeleteFunc(slices.Clone(w.missing), func(task *api.TaskInfo) bool { return !p.keepsCards(w, task) })
		if len(keeping) == 0 || !free.canPlaceAll(w, now.Add(p.Args.MaxReservation)) {
			continue
		}

		for _, task := range keeping {
			if pod, isKept := p.keepForPod(w, task, free); isKept {
				kept = append(kept, pod)
			}
		}
	}

	if len(kept) == 0 {
		return false
	}
	p.running = running(waiting)
	p.kept.KeepAwaited(kept, p.running)
	return true
}

// keepsCards reports whether cards are kept for a pod: in a tree for what its queue deserves, in flat
// queues if it may reclaim, and if its job runs below its minimum. Of a pod for which cards were
// reclaimed on a node, these are kept already.
func (p *waitingJobs) keepsCards(w *waitingJob, task *api.TaskInfo) bool {
	if p.kept.HasPromisedNode(task) || p.RequestFor(task).Count == 0 {
		return false
	}
	if p.IsTree() {
		return w.isBelowMinimum || (!w.borrows && !p.laterBorrowers[w.job.UID])
	}
	return w.isBelowMinimum || (!gang.NeverPreempts(task) && p.Args.ServiceTypes.Reclaims(p.ServiceType(task)))
}

// keepForPod keeps free cards of one node for a pod: the node that lacks the fewest cards for it. It looks at the
// alternatives of the pod in their order, and takes the first one of which it finds such a node. It reports
// whether it finds one.
func (p *waitingJobs) keepForPod(w *waitingJob, task *api.TaskInfo, free *freeCards) (kept keptcards.AwaitingPod, found bool) {
	r, _ := p.CheckInputFor(task)
	var best *freeNode
	for _, name := range r.Request.Names {
		if p.usesCard(w, r, name) {
			best = p.nodeToKeep(task, free.byName[name], free)
		}
		if best != nil {
			break
		}
	}

	if best == nil {
		return keptcards.AwaitingPod{}, false
	}

	count := min(r.Request.Count, best.future.Sub(best.kept))
	best.kept = best.kept.Add(count)
	return keptcards.AwaitingPod{
		Job: w.job, Task: task, Node: best.Name, Resource: best.resource, Count: count, Borrows: w.borrows, IsBelowMinimum: w.isBelowMinimum,
		ServiceType: p.ServiceType(task), Priority: p.Volcano.Queues[w.job.Queue].Queue.Spec.Priority,
	}, true
}

// nodeToKeep returns the node that has most of the cards for a pod, nil if none of them has a free card and
// would fit the pod once others leave.
func (p *waitingJobs) nodeToKeep(task *api.TaskInfo, nodes []*freeNode, free *freeCards) (best *freeNode) {
	count := p.RequestFor(task).Count
	kind := free.kindOf(task)
	until := p.Cache.Now().Add(p.Args.MaxReservation)

	most := card.Count(0)
	for _, node := range nodes {
		left := node.future.Sub(node.kept)
		// A session may check only so many nodes, so a node that would be no better is not checked.
		if min(left, count) <= most {
			continue
		}

		leaving, fits := free.fitsOnceOthersLeave(kind, node, until)
		if fits && left.Add(leaving) >= count {
			best = node
			most = min(left, count)
		}
	}

	return best
}

// findRunningJobs returns the jobs that run pods. It returns nil if no job waits below its minimum, for then none
// asks (see comesAfter).
func (p *waitingJobs) findRunningJobs(waiting []*waitingJob) map[api.JobID]bool {
	running := map[api.JobID]bool{}
	for _, w := range waiting {
		if !w.isBelowMinimum {
			continue
		}

		for id, job := range p.Volcano.Jobs {
			if gang.HasAllocatedPods(job) {
				running[id] = true
			}
		}
		return running
	}

	return nil
}
