package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// awaitedCards are the free cards that are kept for jobs that lack more of them, while the action
// allocate runs and after it. Otherwise a job of several cards would never start beside jobs of one
// card, which take each card as it becomes free.
type awaitedCards struct {
	// byNode are the pods for which free cards are kept, by node.
	byNode map[string][]awaitingPod
	// running are the jobs that ran pods when allocate began, if a job below its minimum waits.
	running map[api.JobID]bool
}

// awaitingPod is a pod for which the free cards of a node are kept.
type awaitingPod struct {
	*waitingJob
	task  *api.TaskInfo
	node  *freeNode
	count card.Count
	// serviceType is that of the pod, priority that of its queue.
	serviceType string
	priority    int32
}

// loadAwaitedCards finds the cards that are kept for waiting jobs when allocate begins, and returns these
// jobs. It restarts the reservations of those for which more cards are free than before.
func (p *waitingJobs) loadAwaitedCards() []*waitingJob {
	p.kept.awaited = nil
	p.laterBorrowers = nil
	if !p.hasWaitingReservations() {
		return nil
	}

	free := p.newFreeCards()
	waiting := p.listWaitingJobs(free)
	// A reservation that more free cards prolong keeps them in this session already.
	p.prolongReservations(waiting, free)
	p.keepAwaitedCards(waiting, free)
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
	before := p.kept.awaited
	free := p.newFreeCards()
	waiting := p.listWaitingJobs(free)
	p.kept.awaited = nil // the checks of nodes read it

	p.keepAwaitedCards(waiting, free)
	if before != nil && p.kept.awaited != nil {
		p.kept.awaited.running = before.running // without those that the first run started
	}
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

// keepAwaitedCards keeps free cards for waiting jobs with a reservation.
func (p *waitingJobs) keepAwaitedCards(waiting []*waitingJob, free *freeCards) {
	now := p.Cache.Now()
	kept := &awaitedCards{byNode: map[string][]awaitingPod{}}
	for _, w := range waiting {
		if !p.Cache.Reservations[w.job.PgUID].IsReserved(now) {
			continue
		}
		keeping := slices.DeleteFunc(slices.Clone(w.missing), func(task *api.TaskInfo) bool { return !p.keepsCards(w, task) })
		if len(keeping) == 0 || !free.canPlaceAll(w, now.Add(p.Args.MaxReservation)) {
			continue
		}

		for _, task := range keeping {
			p.keepForPod(kept, w, task, free)
		}
	}

	if len(kept.byNode) > 0 {
		kept.running = p.findRunningJobs(waiting)
		p.kept.awaited = kept
	}
}

// keepsCards reports whether cards are kept for a pod: in a tree for what its queue deserves, in flat
// queues if it may reclaim, and if its job runs below its minimum. Of a pod for which cards were
// reclaimed on a node, these are kept already.
func (p *waitingJobs) keepsCards(w *waitingJob, task *api.TaskInfo) bool {
	if p.kept.hasPromisedNode(task) || p.RequestFor(task).Count == 0 {
		return false
	}
	if p.IsTree() {
		return w.isBelowMinimum || (!w.borrows && !p.laterBorrowers[w.job.UID])
	}
	return w.isBelowMinimum || (!gang.NeverPreempts(task) && p.Args.ServiceTypes.Reclaims(p.ServiceType(task)))
}

// keepForPod keeps free cards of one node for a pod: the node that lacks the fewest cards for it. It looks at the
// alternatives of the pod in their order, and takes the first one of which it finds such a node.
func (p *waitingJobs) keepForPod(kept *awaitedCards, w *waitingJob, task *api.TaskInfo, free *freeCards) {
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
		return
	}

	count := min(r.Request.Count, best.future.Sub(best.kept))
	best.kept = best.kept.Add(count)
	kept.byNode[best.Name] = append(kept.byNode[best.Name], awaitingPod{
		waitingJob: w, task: task, node: best, count: count, serviceType: p.ServiceType(task), priority: p.Volcano.Queues[w.job.Queue].Queue.Spec.Priority,
	})
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

// awaitedOnNode returns how many cards of a node are kept for waiting jobs from a pod.
func (p *KeptCards) awaitedOnNode(r snapshot.CheckInput, node *api.NodeInfo) (kept card.Count) {
	if p.awaited == nil || r.Request.Count == 0 || len(p.awaited.byNode[node.Name]) == 0 || p.isPromised(r.Task, node) {
		return 0
	}
	awaiting := p.awaited.byNode[node.Name]
	for i := range awaiting {
		a := &awaiting[i]
		if a.task.Status == api.Pending && a.node.resource == r.Request.Resource && p.isKeptFrom(a, r, node) {
			kept = kept.Add(a.count)
		}
	}
	return kept
}

// isPromised reports whether pods on a node were evicted for a pod.
func (p *KeptCards) isPromised(task *api.TaskInfo, node *api.NodeInfo) bool {
	uid := task.Pod.UID
	nominated := p.freed.nominations[uid]
	return (nominated.preempts && nominated.node == node.Name) || p.freed.reclaimedCards[uid].node == node.Name || p.freed.preemptedCards[uid].node == node.Name
}

// hasPromisedNode reports whether freed cards of some node are kept for a pod.
func (p *KeptCards) hasPromisedNode(task *api.TaskInfo) bool {
	hasReclaimed := p.freed.reclaimedCards[task.Pod.UID].node != ""
	_, hasPreempted := p.freed.preemptedCards[task.Pod.UID]
	return hasReclaimed || hasPreempted
}

// isKeptFrom reports whether the cards of a waiting pod are kept from another pod on a node. They are not kept from
// pods of its own job, nor from jobs of its queue with a higher priority.
func (p *KeptCards) isKeptFrom(a *awaitingPod, r snapshot.CheckInput, node *api.NodeInfo) bool {
	if a.job == r.Job || (a.job.Queue == r.Job.Queue && a.job.Priority < r.Job.Priority) {
		return false
	}
	queue := p.Volcano.Queues[r.Job.Queue]
	if queue == nil {
		return false
	}

	if p.IsTree() {
		name, _ := p.Inventory.CardOnNode(node.Name, r.Request.Resource)
		// What a queue deserves comes before what another one would borrow.
		switch isDeserved := p.DeservesCard(r, name); {
		case isDeserved && a.borrows:
			return false
		case !isDeserved && !a.borrows:
			return true
		}
		return p.comesAfter(a, r.Job, queue)
	}

	isReclaimable := queue.Queue.Spec.Priority < a.priority && p.Args.ServiceTypes.CanReclaim(a.serviceType, p.ServiceType(r.Task))
	return isReclaimable || p.comesAfter(a, r.Job, queue)
}

// comesAfter reports whether a job comes after one that runs below its minimum: it does not run yet, and
// is of another queue of equal priority, or of the same queue and not of higher priority.
func (p *KeptCards) comesAfter(a *awaitingPod, job *api.JobInfo, queue *api.QueueInfo) bool {
	if !a.isBelowMinimum || p.awaited.running[job.UID] {
		return false
	}
	return job.Queue == a.job.Queue || queue.Queue.Spec.Priority == a.priority
}
