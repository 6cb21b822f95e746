package keptcards

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// KeepReclaimedCards records that cards of some victims were reclaimed for pipelined pods of a job. cardreclaim
// plans another eviction, with other victims, when a gang loses one of its nodes. The cards of its other nodes
// stay kept from the queues that lost them.
func (k *Kept) KeepReclaimedCards(tasks, victims []*api.TaskInfo) {
	from := map[api.QueueID]bool{}
	plan := k.periods.newEvictionPlan(victims, tasks, k.freed.Reclaimed)
	for _, nomination := range keptOnSameNode(tasks, k.freed.Reclaimed) {
		maps.Copy(from, nomination.from)
	}

	for _, victim := range victims {
		if job := k.Volcano.Jobs[victim.Job]; job != nil {
			from[job.Queue] = true
		}
	}

	for _, task := range tasks {
		k.freed.Reclaimed[task.Pod.UID] = Nomination{Node: task.NodeName, Since: k.Now(), from: from, plan: plan}
	}
}

// Load finds the pending pods for which cards are kept, and forgets all others.
func (k *Kept) Load() {
	k.reclaimedCards = nil
	k.keptCharges = nil
	kept := map[snapshot.QueueCard]card.Count{} // so far
	// What preempt freed is kept beside all that is kept for reclaimers.
	defer k.loadPreemptedCards(kept)

	if len(k.freed.Reclaimed) == 0 {
		return
	}

	k.reclaimedCards = map[string][]keptCardsOwner{}
	waiting := map[types.UID]bool{}
	for _, freed := range k.jobsWithFreedCards(k.freed.Reclaimed) {
		job := freed.job
		tasks, others := k.tasksKeepingCards(job, freed.tasks, kept)
		// A pod that lost its cards still counts in its gang, until the time is over for which they were
		// kept. Then its nomination has no node.
		for _, task := range others {
			waiting[task.Pod.UID] = true
			nomination := k.freed.Reclaimed[task.Pod.UID]
			k.freed.Reclaimed[task.Pod.UID] = Nomination{Since: nomination.Since, plan: nomination.plan}
		}

		for _, task := range tasks {
			nomination := k.freed.Reclaimed[task.Pod.UID]
			waiting[task.Pod.UID] = true
			k.keepQuota(task, job.Queue, nomination.Node)
			k.reclaimedCards[nomination.Node] = append(k.reclaimedCards[nomination.Node], keptCardsOwner{
				task: task, queue: job.Queue, serviceType: k.ServiceType(task),
				priority: k.Volcano.Queues[job.Queue].Queue.Spec.Priority, from: nomination.from,
			})
		}
	}

	k.forgetFreedCards(k.freed.Reclaimed, waiting)
}

// tasksKeepingCards returns those of a job's pending pods for which reclaimed cards are still kept, and as others
// those that lost theirs. A pod keeps its cards for a time, and while its queue deserves them beside what it uses
// and what is kept for its other pods: its quota may be lowered, and other pods may use it up.
//
// A gang keeps nothing once it cannot start: too many pods have lost their cards, and their queue deserves no other
// card for them. Pods keep their cards also while their node does not offer them for a moment. kept is what is kept
// for other jobs, to which this one is added.
func (k *Kept) tasksKeepingCards(job *api.JobInfo, pending []*api.TaskInfo, kept map[snapshot.QueueCard]card.Count) (tasks, others []*api.TaskInfo) {
	// What a gang would keep counts only if the gang keeps it in the end.
	added := maps.Clone(kept)
	for _, task := range pending {
		nomination := k.freed.Reclaimed[task.Pod.UID]
		if k.periods.isOver(nomination) || k.CheckQueue(job) != nil { // the caller forgets the pod
			continue
		}

		request := k.RequestFor(task)
		name, allowed := k.CardFor(request, nomination.Node)
		// A pod without a node has lost its cards in an earlier session.
		if nomination.Node == "" || (allowed && !k.addDeserved(snapshot.QueueCard{Queue: job.Queue, Name: name}, request.Count, added)) {
			others = append(others, task)
			continue
		}
		tasks = append(tasks, task)
	}

	if hopeless := k.countWithoutCard(others, job.Queue, added); hopeless > 0 && len(job.Tasks)-hopeless < int(job.MinAvailable) {
		return nil, nil
	}
	maps.Copy(kept, added)

	return tasks, others
}

// countWithoutCard returns how many pods that lost their cards have no other card that their queue
// deserves beside the amounts. They come after all pods that keep theirs, in whatever order the
// session has them.
func (k *Kept) countWithoutCard(tasks []*api.TaskInfo, queue api.QueueID, amounts map[snapshot.QueueCard]card.Count) int {
	count := 0
	all := maps.Clone(amounts)
	for _, task := range tasks {
		request := k.RequestFor(task)
		if !slices.ContainsFunc(request.Names, func(name card.Name) bool {
			return k.addDeserved(snapshot.QueueCard{Queue: queue, Name: name}, request.Count, all)
		}) {
			count++
		}
	}
	return count
}

// FitsBesideReclaimed reports whether a pod fits a node beside the cards that are kept there for pending
// reclaimers. They are kept from it if the reclaimer may reclaim from it, or if in a tree it would borrow
// them. They are also kept from the queues that lost them: a gang is evicted as a whole, so a queue may then
// be below what it deserves, and would take back what the reclaimer waits for. A reclaimer that is placed is
// counted on the node already.
func (k *Kept) FitsBesideReclaimed(r snapshot.CheckInput, node *api.NodeInfo) bool {
	owners := k.reclaimedCards[node.Name]
	if len(owners) == 0 {
		return true
	}

	needed := r.Task.InitResreq.Clone()
	found := false
	serviceType := k.ServiceType(r.Task)

	queue := k.Volcano.Queues[r.Job.Queue]
	for i := range owners {
		owner := &owners[i]
		byMatrix := queue != nil && queue.Queue.Spec.Priority < owner.priority && k.Args.ServiceTypes.CanReclaim(owner.serviceType, serviceType)
		if owner.task.Status == api.Pending && (byMatrix || owner.from[r.Job.Queue] || k.wouldBorrowFrom(owner, r, node)) {
			needed.Add(owner.task.InitResreq)
			found = true
		}
	}

	return !found || needed.LessEqual(k.stuck.FutureIdleOn(node), api.Zero)
}

// wouldBorrowFrom reports whether a pod of a tree would borrow with what a node has: its queue,
// or an ancestor that it does not share with the owner of kept cards, would use more than it
// deserves. Other jobs of the owner's queue may not borrow them either. Of a pod without cards only the CPU counts.
func (k *Kept) wouldBorrowFrom(owner *keptCardsOwner, r snapshot.CheckInput, node *api.NodeInfo) bool {
	// A pod beyond what a flat queue deserves is beyond its quota, which is the reason to state.
	if !k.IsTree() || owner.task.Job == r.Task.Job {
		return false
	}
	request := quota.Request{MilliCPU: r.Request.MilliCPU}
	if r.Request.Count > 0 {
		name, _ := k.Inventory.CardOnNode(node.Name, r.Request.Resource)
		request = r.Request.On(name).OnlyCards()
	}

	borrows := func(queue string) bool {
		return !k.Ledger.Fits(queue, request, quota.Within{Bound: quota.DeservedLeft})
	}
	return borrows(string(r.Job.Queue)) || slices.ContainsFunc(k.PathBelow(owner.queue, r.Job.Queue), borrows)
}
