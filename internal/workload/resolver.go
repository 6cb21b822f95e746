package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Resolver returns what pods and PodGroups request and use, and which queue is charged. It
// checks what the objects say of themselves: a tenant can write any queue into a pod, and would
// use up another tenant's quota.
type Resolver struct {
	// Inventory has the cards of all nodes. Method Queue does not need it.
	Inventory *card.Inventory
	// Schedulers are the names of our schedulers. They placed and checked the pods that name
	// one of them, unless the pod's creator set the node. nil is every scheduler.
	Schedulers []string
	// AllowsNamespace reports whether a queue accepts pods of a namespace; nil accepts all.
	AllowsNamespace func(queue, namespace string) bool
}

// UsesOurScheduler reports whether a pod names one of our schedulers.
func (r *Resolver) UsesOurScheduler(pod *corev1.Pod) bool {
	return r.Schedulers == nil || slices.Contains(r.Schedulers, pod.Spec.SchedulerName)
}

// Queue returns the queue that a pod is charged to: the one charged last, else the one that our
// scheduler recorded when it bound the pod, else its PodGroup's. A pod without a PodGroup (a
// restarting vcjob deletes it for a moment) names the queue itself. "" is no queue: another
// scheduler placed the pod, and it names none.
//
// The queue stays, whatever its namespace selector says now, if it was charged before, or if
// our scheduler placed the pod and the record or the PodGroup names it. Otherwise no scheduler
// of ours has checked the pod, and the queue must accept its namespace.
func (r *Resolver) Queue(pod *corev1.Pod, group *v1beta1.PodGroup, lastCharged string) string {
	charged := ChargedQueue(pod)
	var queue string
	switch {
	case lastCharged != "":
		return lastCharged
	case charged != "":
		queue = charged
	case group != nil:
		queue = PodGroupQueue(group)
	case pod.Annotations[v1beta1.QueueNameAnnotationKey] != "":
		queue = pod.Annotations[v1beta1.QueueNameAnnotationKey]
	default:
		queue = pod.Annotations[batchv1alpha1.QueueNameKey]
	}

	// A tenant can write any queue into a pod that another scheduler places. That must not use up
	// its quota. A pod without a node uses nothing yet.
	trusted := pod.Spec.NodeName == "" || (r.UsesOurScheduler(pod) && (group != nil || charged != ""))
	if !trusted && queue != "" && r.AllowsNamespace != nil && !r.AllowsNamespace(queue, pod.Namespace) {
		return ""
	}

	return queue
}

// Usage returns what a pod on a node uses and which queue is charged. last is its previous
// charge, nil when there is none. IsAssigned and IsTerminating say whether the pod counts now.
func (r *Resolver) Usage(pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge) quota.Charge {
	request := r.Request(pod)
	return r.UsageOf(&request, pod, group, last)
}

// UsageOf is Usage for a pod whose request is known.
func (r *Resolver) UsageOf(request *Request, pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge) quota.Charge {
	var lastQueue string
	if last != nil {
		lastQueue = last.Queue
	}
	return ChargeFor(request, r.Queue(pod, group, lastQueue), pod.Spec.NodeName, r.Inventory, last)
}

// ChargeFor returns the charge for a request on a node: the card that the node has now. If the node lost its
// label or is gone, the last charge stays. If the node is unknown, every card that the request may use is
// charged, so that no card is given away twice. NotOffered of the charge has its cards that the node does not
// offer to new pods, so that the inventory does not count them.
func ChargeFor(request *Request, queue, node string, inv *card.Inventory, last *quota.Charge) quota.Charge {
	charge := quota.Charge{Queue: queue, MilliCPU: request.MilliCPU, Memory: request.Memory}

	// A resource that no node offers as a card any more stays charged as it was last, until the pod ends. A
	// pod without cards has no such resource.
	if request.Count == 0 {
		addCandidates(&charge, lastCards(request.Unverified, inv, last), request.Unverified.Count)
		charge.NotOffered = notOffered(&charge, 0, inv, node, request.Unverified.Resource)
		return charge
	}

	// Most pods have one resource on a known node, and need no list of candidates.
	if len(request.ExtraResources) == 0 {
		if name, ok := inv.CardInUseOnNode(node, request.Resource); ok {
			charge.Cards = []card.Amount{{Name: name, Count: request.Count}}
			charge.NotOffered = notOffered(&charge, 0, inv, node, request.Resource)
			return charge
		}
	}

	resources := append([]ResourceCount{{Resource: request.Resource, Count: request.Count}}, request.ExtraResources...)
	for _, requested := range resources {
		names := possibleCards(request, requested, node, inv, last)
		if len(resources) > 1 { // the last charge may mix the resources, and the next must be equal
			names = slices.Sorted(slices.Values(names))
		}
		before := len(charge.Cards)
		addCandidates(&charge, names, requested.Count)
		charge.NotOffered = append(charge.NotOffered, notOffered(&charge, before, inv, node, requested.Resource)...)
	}

	return charge
}

// notOffered returns the cards of a charge from an index on, which are those of a resource, if the node does
// not offer the resource to new pods, nil if it does.
func notOffered(charge *quota.Charge, from int, inv *card.Inventory, node string, resource corev1.ResourceName) []card.Amount {
	if _, isOffered := inv.CardOnNode(node, resource); isOffered {
		return nil
	}
	return slices.Clone(charge.Cards[from:])
}

// addCandidates charges every card that a resource may be. All but the first are Repeated: the pod uses one of
// them, so sums of the cards that exist leave them out.
func addCandidates(charge *quota.Charge, names []card.Name, count card.Count) {
	for i, name := range names {
		amount := card.Amount{Name: name, Count: count}
		charge.Cards = append(charge.Cards, amount)
		if i > 0 {
			charge.Repeated = append(charge.Repeated, amount)
		}
	}
}

// possibleCards returns the cards that a resource may be on a node: what the node says, else what was
// charged last, else what the pod names, else all cards of the resource.
func possibleCards(request *Request, requested ResourceCount, node string, inv *card.Inventory, last *quota.Charge) []card.Name {
	if name, ok := inv.CardInUseOnNode(node, requested.Resource); ok {
		return []card.Name{name}
	}
	if names := lastCards(requested, inv, last); len(names) > 0 {
		return names
	}
	if !request.Named.AllowsAny() {
		return request.Named.Names()
	}

	// A node keeps its model even if it does not offer the resource now, which rules out other
	// models.
	names := inv.NamesFor(requested.Resource)
	if known, ok := inv.Node(node); ok && known.Model != "" {
		ofModel := slices.DeleteFunc(slices.Clone(names), func(n card.Name) bool { return n.Model() != known.Model })
		if len(ofModel) > 0 {
			return ofModel
		}
	}

	return names
}

// lastCards returns the cards that a resource was charged as last, each once. One that no node offers any
// more may have been of any resource.
func lastCards(requested ResourceCount, inv *card.Inventory, last *quota.Charge) []card.Name {
	if last == nil || requested.Count == 0 {
		return nil
	}
	names := make([]card.Name, 0, len(last.Cards))
	for _, amount := range last.Cards {
		if resources := inv.ResourcesFor(amount.Name); !slices.Contains(names, amount.Name) && (len(resources) == 0 || slices.Contains(resources, requested.Resource)) {
			names = append(names, amount.Name)
		}
	}
	return names
}
