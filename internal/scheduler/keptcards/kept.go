// Package keptcards says which cards and which quota are kept for which pending pods: what was reclaimed or
// preempted for them, and free cards of which their jobs lack more. It also knows the nodes that pods wait for.
package keptcards

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// Kept are the cards and the quota that are kept for pending pods: those that were freed for them, and
// free ones of which their jobs lack more.
type Kept struct {
	*snapshot.Session
	stuck   *snapshot.StuckPods
	periods periods
	// freed are the freed cards of this and of earlier sessions.
	freed *Freed
	// reclaimedCards are the pods for which cards were reclaimed on a node, by node.
	reclaimedCards map[string][]keptCardsOwner
	// preemptedCards are kept for the pods for which preempt freed them.
	preemptedCards preemptedCards
	// keptCharges are what is kept of the quotas of a tree for the pods of reclaimedCards.
	keptCharges map[api.TaskID]*quota.Charge
	// awaited are the free cards that are kept for waiting jobs, nil for none.
	awaited *awaitedCards
	// Preemptors are the pods that the action preempt pipelined.
	Preemptors map[types.UID]bool
}

// New returns what is kept in a session: nothing until Load. freed is what earlier sessions freed.
func New(s *snapshot.Session, stuck *snapshot.StuckPods, freed *Freed) *Kept {
	return &Kept{Session: s, stuck: stuck, periods: periods{s}, freed: freed}
}

// Load finds the pending pods for which cards are kept, and forgets all others.
func (k *Kept) Load() {
	k.reclaimedCards = nil
	k.keptCharges = nil
	kept := map[snapshot.QueueCard]card.Count{}
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
		// A pod that lost its cards still counts in its gang, until the time is over for which they were kept.
		for _, task := range others {
			waiting[task.Pod.UID] = true
			nomination := k.freed.Reclaimed[task.Pod.UID]
			k.freed.Reclaimed[task.Pod.UID] = Nomination{Since: nomination.Since, plan: nomination.plan}
		}

		for _, task := range tasks {
			nomination := k.freed.Reclaimed[task.Pod.UID]
			waiting[task.Pod.UID] = true
			k.keepQuota(task, job.Queue, nomination.Node)
			k.reclaimedCards[nomination.Node] = append(k.reclaimedCards[nomination.Node], keptCardsOwner{task, job.Queue, k.ServiceType(task), k.Volcano.Queues[job.Queue].Queue.Spec.Priority, nomination.from})
		}
	}

	k.forgetFreedCards(k.freed.Reclaimed, waiting)
}

// waitingCharge returns what a pending pod will use of a queue with a card. The guarantees of a tree treat usage that
// cannot be reclaimed in another way, so the charge states that, too.
func waitingCharge(request *workload.Request, queue api.QueueID, name card.Name) *quota.Charge {
	charge := &quota.Charge{Queue: string(queue), MilliCPU: request.MilliCPU, Memory: request.Memory, IsUnreclaimable: request.IsUnreclaimable}
	if request.Count > 0 {
		charge.Cards = []card.Amount{{Name: name, Count: request.Count}}
	}
	return charge
}

// keepQuota keeps quota of a tree for a pod for which cards are kept on a node. Flat queues have no ancestors in
// which others could use the quota up.
func (k *Kept) keepQuota(task *api.TaskInfo, queue api.QueueID, node string) {
	request := k.RequestFor(task)
	name, allowed := k.CardFor(request, node)
	if !k.IsTree() || !allowed {
		return
	}
	charge := waitingCharge(request, queue, name)
	if k.keptCharges == nil {
		k.keptCharges = map[api.TaskID]*quota.Charge{}
	}
	k.keptCharges[task.UID] = charge
	k.Ledger.Keep(string(task.UID), charge)
}

// KeepAgain keeps quota again for a pod whose placement is undone: it waits again for what was freed for it.
func (k *Kept) KeepAgain(task api.TaskID) {
	if charge, isOwner := k.keptCharges[task]; isOwner {
		k.Ledger.Keep(string(task), charge)
	}
}

// IdleFor returns what a node has idle or will have for a pod: without the resources of stuck
// pods, and without what is kept from the pod. Of the cards that are kept for waiting jobs those count that are
// free now.
func (k *Kept) IdleFor(task *api.TaskInfo, node *api.NodeInfo) *api.Resource {
	idle := k.stuck.FutureIdleOn(node)
	if kept := k.keptOnNode(task, k.Volcano.Jobs[task.Job], node.Name); kept != nil {
		idle.MilliCPU -= kept.MilliCPU
		idle.Memory -= kept.Memory
		for name, quantity := range kept.ScalarResources {
			idle.AddScalar(name, -quantity)
		}
	}

	if r, known := k.CheckInputFor(task); known {
		if awaited := k.AwaitedOn(r, node); awaited > 0 {
			free := max(0, idle.Get(r.Request.Resource))
			idle.AddScalar(r.Request.Resource, -min(free, float64(awaited)*snapshot.Milli))
		}
	}

	return idle
}

// KeepsCardsOn reports whether some cards of a node may be kept from a pod, at a glance: IdleFor knows what is
// left for it. Volcano counts kept cards as free, so it would evict too few pods on such a node.
func (k *Kept) KeepsCardsOn(task *api.TaskInfo, node *api.NodeInfo) bool {
	if len(k.preemptedCards.byNode[node.Name]) > 0 {
		return true
	}
	r, known := k.CheckInputFor(task)
	return known && k.AwaitedOn(r, node) > 0
}

// Nodes returns the nodes on which cards are kept that preempt freed or that waiting jobs lack. A
// node may come twice.
func (k *Kept) Nodes() []string {
	names := slices.Collect(maps.Keys(k.preemptedCards.byNode))
	if k.awaited != nil {
		names = slices.AppendSeq(names, maps.Keys(k.awaited.byNode))
	}
	return names
}

// isPromised reports whether pods on a node were evicted for a pod: what is free there is for it, too.
func (k *Kept) isPromised(task *api.TaskInfo, node *api.NodeInfo) bool {
	uid := task.Pod.UID
	nominated := k.freed.Nominations[uid]
	return (nominated.preempts && nominated.Node == node.Name) || k.freed.Reclaimed[uid].Node == node.Name || k.freed.Preempted[uid].Node == node.Name
}

// HasPromisedNode reports whether freed cards of some node are kept for a pod.
func (k *Kept) HasPromisedNode(task *api.TaskInfo) bool {
	hasReclaimed := k.freed.Reclaimed[task.Pod.UID].Node != ""
	_, hasPreempted := k.freed.Preempted[task.Pod.UID]
	return hasReclaimed || hasPreempted
}

// PromisedCards returns how many cards of a resource of a node are kept for pods for which others were evicted.
func (k *Kept) PromisedCards(node string, resource corev1.ResourceName) (kept card.Count) {
	add := func(task *api.TaskInfo) {
		if request := k.RequestFor(task); task.Status == api.Pending && request.Resource == resource {
			kept = kept.Add(request.Count)
		}
	}

	for i := range k.reclaimedCards[node] {
		add(k.reclaimedCards[node][i].task)
	}
	for _, preemptor := range k.preemptedCards.byNode[node] {
		add(preemptor.task)
	}

	return kept
}

// CheckQuota returns why a pod does not fit the quota of its queue on any card, beside what is kept
// for others, nil if it does.
func (k *Kept) CheckQuota(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.QuotaChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}

// CheckCard returns why a pod may not use the card of its node, beside what is kept for others, nil if it may.
func (k *Kept) CheckCard(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.CardChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}

// CheckPlace returns why a pod may not be where it is placed, beside what is kept for others, nil if it may.
func (k *Kept) CheckPlace(r snapshot.CheckInput) *workload.Refusal {
	if refusal := k.RunChecks(snapshot.PlaceChecks, r); refusal != nil {
		return refusal
	}
	return k.CheckKeptQuota(r)
}
