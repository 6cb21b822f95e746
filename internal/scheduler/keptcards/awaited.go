package keptcards

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// KeepAwaited keeps free cards for pods of waiting jobs, in place of those that it kept before. running are the jobs
// that run pods, nil if none of the waiting jobs is below its minimum.
func (k *Kept) KeepAwaited(pods []AwaitingPod, running map[api.JobID]bool) {
	k.awaited = nil
	if len(pods) == 0 {
		return
	}
	k.awaited = &awaitedCards{byNode: map[string][]AwaitingPod{}, running: running}
	for i := range pods {
		k.awaited.byNode[pods[i].Node] = append(k.awaited.byNode[pods[i].Node], pods[i])
	}
}

// AwaitedOn returns how many free cards of a node are kept from a pod, for waiting jobs. None are kept from a pod
// for which others were evicted there.
func (k *Kept) AwaitedOn(r snapshot.CheckInput, node *api.NodeInfo) (kept card.Count) {
	if k.awaited == nil || r.Request.Count == 0 || len(k.awaited.byNode[node.Name]) == 0 || k.isPromised(r.Task, node) {
		return 0
	}
	awaiting := k.awaited.byNode[node.Name]
	for i := range awaiting {
		a := &awaiting[i]
		if a.Task.Status == api.Pending && a.Resource == r.Request.Resource && k.isKeptFrom(a, r, node) {
			kept = kept.Add(a.Count)
		}
	}
	return kept
}

// isKeptFrom reports whether the cards of a waiting pod are kept from another pod, that of r, on a node. They
// are not kept from pods of its own job, nor from jobs of its queue with a higher priority. In a tree, what a
// queue deserves comes before what another one would borrow. In flat queues, they are kept from pods from
// which the waiting pod could reclaim them. Everywhere they are kept from jobs that come after the waiting
// one because that one runs below its minimum.
func (k *Kept) isKeptFrom(awaiting *AwaitingPod, r snapshot.CheckInput, node *api.NodeInfo) bool {
	if awaiting.Job == r.Job || (awaiting.Job.Queue == r.Job.Queue && awaiting.Job.Priority < r.Job.Priority) {
		return false
	}
	queue := k.Volcano.Queues[r.Job.Queue]
	if queue == nil {
		return false
	}

	if k.IsTree() {
		name, _ := k.Inventory.CardOnNode(node.Name, r.Request.Resource)
		// If both pods borrow or neither does, comesAfter decides.
		switch isDeserved := k.DeservesCard(r, name); {
		case isDeserved && awaiting.Borrows:
			return false
		case !isDeserved && !awaiting.Borrows:
			return true
		}
		return k.comesAfter(awaiting, r.Job, queue)
	}

	isReclaimable := queue.Queue.Spec.Priority < awaiting.Priority && k.canReclaimByType(awaiting, r.Task)
	return isReclaimable || k.comesAfter(awaiting, r.Job, queue)
}

// canReclaimByType reports whether a waiting pod may reclaim cards from this one by their service types. A
// queue without a card quota reclaims none.
func (k *Kept) canReclaimByType(awaiting *AwaitingPod, from *api.TaskInfo) bool {
	return k.Args.ServiceTypes.CanReclaim(awaiting.ServiceType, k.ServiceType(from)) && k.Ledger.LimitsCards(string(awaiting.Job.Queue))
}

// comesAfter reports whether a job comes after that of an awaiting pod, because the latter runs below its minimum. The
// job does not run yet then, and is of the same queue, where the caller has compared the priorities of the jobs, or of
// a queue of equal priority.
func (k *Kept) comesAfter(awaiting *AwaitingPod, job *api.JobInfo, queue *api.QueueInfo) bool {
	if !awaiting.IsBelowMinimum || k.awaited.running[job.UID] {
		return false
	}
	return job.Queue == awaiting.Job.Queue || queue.Queue.Spec.Priority == awaiting.Priority
}
