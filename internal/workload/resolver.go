package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Resolver answers from pods and PodGroups what they ask for, what they hold and
// which queue pays, with what is known beside what they say of themselves: whoever
// may create pods can write any queue into them, and take its quota away from those
// that it is for.
type Resolver struct {
	// Inventory are the cards of all nodes; Queue does without.
	Inventory *card.Inventory
	// Schedulers are ours: they placed the pods that name one of them, and let them
	// in, unless the pod's maker brought a node along. nil is every scheduler.
	Schedulers []string
	// Admits tells whether a queue takes work of a namespace; nil is always.
	AllowsNamespace func(queue, namespace string) bool
}

// UsesOurScheduler reports whether a scheduler of ours is asked to place a pod.
func (r *Resolver) UsesOurScheduler(pod *corev1.Pod) bool {
	return r.Schedulers == nil || slices.Contains(r.Schedulers, pod.Spec.SchedulerName)
}

// Queue returns the queue that pays for a pod: the one charged last, else the one that
// was written down when it was bound, else its PodGroup's; without a PodGroup (it is
// deleted for a moment while a vcjob restarts) the one its own annotations name. "" is
// no queue: the pod was placed by another scheduler and names none.
//
// Where the queue of a placed pod was charged before, or our scheduler placed the pod
// and its record or its PodGroup names the queue, that stays, whatever namespaces the
// queue is for now. Else nobody has judged the pod yet, and the queue pays only if it
// takes the namespace.
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
	trusted := pod.Spec.NodeName == "" || r.UsesOurScheduler(pod) && (group != nil || charged != "")
	if !trusted && queue != "" && r.AllowsNamespace != nil && !r.AllowsNamespace(queue, pod.Namespace) {
		return ""
	}
	return queue
}

// Usage returns what a pod on a node holds and which queue pays. last is what was
// charged for the pod before, nil when that is not known. Whether the pod holds
// anything now say Counted and Ending.
func (r *Resolver) Usage(pod *corev1.Pod, group *v1beta1.PodGroup, last *quota.Charge) quota.Charge {
	var lastQueue string
	if last != nil {
		lastQueue = last.Queue
	}
	request := r.Request(pod)
	return ChargeFor(&request, r.Queue(pod, group, lastQueue), pod.Spec.NodeName, r.Inventory, last)
}

// ChargeFor returns the charge for a request that is placed on a node: the card
// that the node has now. A node that lost its label or is gone moves no number:
// what was charged last stays. Where nothing is known of the node, every card
// that it may be is charged, so that uncertainty withholds cards and never
// gives them away twice.
func ChargeFor(request *Request, queue, node string, inv *card.Inventory, last *quota.Charge) quota.Charge {
	charge := quota.Charge{Queue: queue, MilliCPU: request.MilliCPU, Memory: request.Memory}
	if request.Count == 0 {
		for _, name := range lastCards(request.Unverified, inv, last) {
			charge.Cards = append(charge.Cards, card.Amount{Name: name, Count: request.Unverified.Count})
		}
		return charge
	}
	if len(request.ExtraResources) == 0 {
		if name, ok := inv.CardOnNode(node, request.Resource); ok {
			charge.Cards = []card.Amount{{Name: name, Count: request.Count}}
			return charge
		}
	}
	for _, held := range append([]ResourceCount{{Resource: request.Resource, Count: request.Count}}, request.ExtraResources...) {
		for _, name := range possibleCards(request, held, node, inv, last) {
			charge.Cards = append(charge.Cards, card.Amount{Name: name, Count: held.Count})
		}
	}
	return charge
}

// possibleCards lists the cards that a held resource may be on a node.
func possibleCards(request *Request, held ResourceCount, node string, inv *card.Inventory, last *quota.Charge) []card.Name {
	if name, ok := inv.CardOnNode(node, held.Resource); ok {
		return []card.Name{name}
	}
	if names := lastCards(held, inv, last); len(names) > 0 {
		return names
	}
	if !request.Named.AllowsAny() {
		return request.Named.Names()
	}
	names := inv.NamesFor(held.Resource)
	if known, ok := inv.Node(node); ok && known.Model != "" {
		ofModel := slices.DeleteFunc(slices.Clone(names), func(n card.Name) bool { return n.Model() != known.Model })
		if len(ofModel) > 0 {
			return ofModel
		}
	}
	return names
}

// lastCards lists the cards that a held resource was charged as last.
func lastCards(held ResourceCount, inv *card.Inventory, last *quota.Charge) []card.Name {
	if last == nil || held.Count == 0 {
		return nil
	}
	names := make([]card.Name, 0, len(last.Cards))
	for _, amount := range last.Cards {
		if resources := inv.ResourcesFor(amount.Name); len(resources) == 0 || slices.Contains(resources, held.Resource) {
			names = append(names, amount.Name)
		}
	}
	return names
}
