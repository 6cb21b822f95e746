package keptcards

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// IdleFor returns what a node has idle or will have for a pod: without the resources of stuck
// pods, and without what is kept from the pod. More cards may be kept for waiting jobs than are left: then the pod
// has none.
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

// KeepsCardsOn reports whether some cards of a node may be kept from a pod. It does not look from which pods those are
// kept that preempt freed: IdleFor does. Volcano counts kept cards as free, so it would evict too few pods on such a
// node.
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
