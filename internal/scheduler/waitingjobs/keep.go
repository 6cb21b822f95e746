package waitingjobs

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
)

// Load finds the cards that are kept for waiting jobs when allocate begins, and returns these
// jobs. It restarts the reservations of those for which more cards are free than before.
func (j *Jobs) Load() []*Job {
	j.kept.KeepAwaited(nil, nil)
	j.laterBorrowers = nil
	j.running = nil
	j.keeps = false
	if !j.hasWaitingReservations() {
		return nil
	}

	free := j.newFreeCards()
	waiting := j.listWaitingJobs(free)
	// A reservation that more free cards prolong keeps them in this session already.
	j.prolongReservations(waiting, free)
	j.keeps = j.keepAwaitedCards(waiting, free, j.findRunningJobs)
	return waiting
}

// Reload finds the cards that are kept for waiting jobs again, after the first run of allocate in a
// tree. later are the jobs with a pod that the first run did not try, because it would borrow: no cards are kept for
// these.
func (j *Jobs) Reload(later map[api.JobID]bool) []*Job {
	if !j.hasWaitingReservations() {
		return nil
	}

	j.laterBorrowers = later
	free := j.newFreeCards()
	waiting := j.listWaitingJobs(free)
	j.kept.KeepAwaited(nil, nil) // else the checks of nodes would keep the cards of the first run from these jobs

	running := j.findRunningJobs
	if j.keeps { // those when allocate began, without jobs that the first run started
		running = func([]*Job) map[api.JobID]bool { return j.running }
	}
	j.keepAwaitedCards(waiting, free, running)
	return waiting
}

// hasWaitingReservations reports whether some job with a reservation waits.
func (j *Jobs) hasWaitingReservations() bool {
	for _, entry := range j.Cache.Reservations {
		if entry.IsWaiting {
			return true
		}
	}
	return false
}

// keepAwaitedCards keeps free cards for waiting jobs with a reservation, and reports whether it keeps some.
// Nothing is kept for a job that would not fit the nodes even at the latest end of its reservation. running
// finds the jobs that run pods: a job below its minimum keeps its cards only from others. It is called only
// if cards are kept.
func (j *Jobs) keepAwaitedCards(waiting []*Job, free *freeCards, running func([]*Job) map[api.JobID]bool) bool {
	now := j.Now()
	var kept []keptcards.AwaitingPod
	for _, job := range waiting {
		if !j.Cache.Reservations[job.Info.PgUID].IsReserved(now) {
			continue
		}
		keeping := slices.DeleteFunc(slices.Clone(job.missing), func(task *api.TaskInfo) bool { return !j.keepsCards(job, task) })
		if len(keeping) == 0 || !free.canPlaceAll(job, now.Add(j.Args.MaxReservation)) {
			continue
		}

		for _, task := range keeping {
			if pod, isKept := j.keepForPod(job, task, free); isKept {
				kept = append(kept, pod)
			}
		}
	}

	if len(kept) == 0 {
		return false
	}
	j.running = running(waiting)
	j.kept.KeepAwaited(kept, j.running)
	return true
}

// keepsCards reports whether free cards are kept for a pod of a waiting job: if the job runs below its minimum, in a
// tree also if its queue deserves them, in flat queues also if the pod may reclaim. None are kept for a pod without
// cards, nor for one for which evictions freed cards that are kept already.
func (j *Jobs) keepsCards(job *Job, task *api.TaskInfo) bool {
	if j.kept.HasPromisedNode(task) || j.RequestFor(task).Count == 0 {
		return false
	}
	if j.IsTree() {
		return job.IsBelowMinimum || (!job.borrows && !j.laterBorrowers[job.Info.UID])
	}
	return job.IsBelowMinimum || (!gang.NeverPreempts(task) && j.ReclaimsByType(task))
}

// keepForPod returns the free cards of one node that are kept for a pod, and counts them as kept in free. It
// tries the alternatives of the pod in their order, and takes the first card name for which nodeToKeep finds
// a node. found is false if there is none. Fewer cards than the pod needs may be free: the rest becomes free
// when others leave.
func (j *Jobs) keepForPod(job *Job, task *api.TaskInfo, free *freeCards) (kept keptcards.AwaitingPod, found bool) {
	r, _ := j.CheckInputFor(task)
	var best *freeNode
	for _, name := range r.Request.Names {
		if free.usesCard(job, r, name) {
			best = j.nodeToKeep(task, free.byName[name], free)
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
		Job: job.Info, Task: task, Node: best.Name, Resource: best.resource, Count: count, Borrows: job.borrows, IsBelowMinimum: job.IsBelowMinimum,
		ServiceType: j.ServiceType(task), Priority: j.Volcano.Queues[job.Info.Queue].Queue.Spec.Priority,
	}, true
}

// nodeToKeep returns the node that has most of the cards for a pod free, the first of equal ones. It is nil
// if no node has a free card and would fit the pod once others leave, at the latest end of a reservation.
func (j *Jobs) nodeToKeep(task *api.TaskInfo, nodes []*freeNode, free *freeCards) (best *freeNode) {
	count := j.RequestFor(task).Count
	kind := free.kindOf(task)
	until := j.Now().Add(j.Args.MaxReservation)

	most := card.Count(0) // free cards of best that the pod can use
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

// findRunningJobs returns the jobs that run pods. It returns nil if no job waits below its minimum: only its cards
// are kept from jobs that do not run yet.
func (j *Jobs) findRunningJobs(waiting []*Job) map[api.JobID]bool {
	if !slices.ContainsFunc(waiting, func(job *Job) bool { return job.IsBelowMinimum }) {
		return nil
	}

	running := map[api.JobID]bool{}
	for id, job := range j.Volcano.Jobs {
		if gang.HasAllocatedPods(job) {
			running[id] = true
		}
	}
	return running
}
