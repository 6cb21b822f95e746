package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// defaultQueue is the queue of a PodGroup that names none, as in Volcano.
const defaultQueue = "default"

// Charge is what a pod uses and which queue it is charged to.
type Charge struct {
	// Queue is "" when no queue is charged.
	Queue string
	// Cards has more than one entry when it is uncertain which card the pod uses.
	Cards            Quota
	MilliCPU, Memory int64
}

// String returns a text that differs between different charges.
func (c Charge) String() string {
	return fmt.Sprintf("%s of <%s>, cpu %dm, memory %d", c.Cards, c.Queue, c.MilliCPU, c.Memory)
}

// String lists the cards, sorted.
func (q Quota) String() string {
	var out []string
	for _, card := range slices.Sorted(maps.Keys(q)) {
		out = append(out, fmt.Sprintf("%d %s", q[card], card))
	}
	return cmp.Or(strings.Join(out, ", "), "no cards")
}

// Origin is what is known about a placed pod beyond its own fields, into which its creator can
// write any queue.
type Origin struct {
	// Ours reports whether the pod names our scheduler.
	Ours bool
	// AllowsNamespace reports whether a queue takes work of a namespace; nil means always.
	AllowsNamespace func(queue, namespace string) bool
}

// ChargeOf returns what a pod uses, false when it uses nothing that counts as used. last is
// its current charge, or nil.
func ChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) (Charge, bool) {
	if !IsCharged(pod) {
		return Charge{}, false
	}
	return newCharge(pod, group, inv, last, origin), true
}

// TerminatingChargeOf returns what a terminating pod uses.
func TerminatingChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) (Charge, bool) {
	if !IsTerminating(pod) {
		return Charge{}, false
	}
	return newCharge(pod, group, inv, last, origin), true
}

// newCharge counts the cards by the node that the pod is on.
func newCharge(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) Charge {
	request := RequestOf(origin.withoutUnprovenRecord(pod), inv)
	now := Charge{Queue: origin.queueOf(pod, group, last), Cards: Quota{}, MilliCPU: request.MilliCPU, Memory: request.Memory}
	resources := request.resources
	if len(resources) == 0 && last != nil && request.Denial != "" {
		resources = unrecognisedCards(pod, inv)
	}

	for resource, count := range resources {
		for _, card := range cardsOn(pod.Spec.NodeName, resource, request, inv, last) {
			now.Cards[card] += count
		}
	}

	return now
}

// queueOf is QueueOf for a placed pod. The queue that was charged before stays charged, and so
// does the queue in the record or PodGroup of a pod of our scheduler. Any other queue counts
// only where it allows the namespace.
func (o Origin) queueOf(pod *corev1.Pod, group *v1beta1.PodGroup, last *Charge) string {
	charged := ""
	if last != nil {
		charged = last.Queue
	}
	queue := QueueOf(pod, group, charged)
	proven := charged != "" || (o.Ours && (group != nil || pod.Annotations[v1alpha1.AnnotationChargedQueue] != ""))
	if !proven && queue != "" && o.AllowsNamespace != nil && !o.AllowsNamespace(queue, pod.Namespace) {
		return ""
	}
	return queue
}

// withoutUnprovenRecord returns the pod without the record of another scheduler: only ours
// proves that a resource was a card.
func (o Origin) withoutUnprovenRecord(pod *corev1.Pod) *corev1.Pod {
	if o.Ours || pod.Annotations[v1alpha1.AnnotationChargedQueue] == "" {
		return pod
	}
	pod = pod.DeepCopy()
	delete(pod.Annotations, v1alpha1.AnnotationChargedQueue)
	return pod
}

// unrecognisedCards returns the resource of a charged pod that is no longer a card on any node.
func unrecognisedCards(pod *corev1.Pod, inv *Inventory) map[corev1.ResourceName]int64 {
	waiting := pod.DeepCopy()
	waiting.Spec.NodeName = ""
	return RequestOf(waiting, inv).resources
}

// cardsOn returns the cards that a resource may be on a node: the card that the node names now;
// if it names none or is gone, the card charged last; else every possible card, so that
// uncertainty withholds cards.
func cardsOn(node string, resource corev1.ResourceName, request Request, inv *Inventory, last *Charge) []string {
	if card := inv.CardInUse(node, resource); card != "" {
		return []string{card}
	}

	if last != nil {
		var cards []string
		for card := range last.Cards {
			if offered := inv.ResourcesOf(card); len(offered) == 0 || slices.Contains(offered, resource) {
				cards = append(cards, card)
			}
		}

		if len(cards) > 0 || len(request.resources) == 0 {
			return cards
		}
	}

	if len(request.Named) > 0 {
		return request.Named
	}

	all := inv.Cards(resource)
	known, _ := inv.Node(node)
	ofModel := slices.DeleteFunc(slices.Clone(all), func(card string) bool {
		model, _, _ := strings.Cut(card, "/")
		return model != known.Model
	})
	if len(ofModel) > 0 {
		return ofModel
	}

	return all
}

// PodGroupName returns the name of a pod's PodGroup, "" when it has none.
func PodGroupName(pod *corev1.Pod) string {
	return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]
}

// QueueOf returns the queue that a pod is or would be charged to. In this order: the queue
// charged last; for a placed pod the queue that the binding recorded; the PodGroup's queue; the
// queue in the pod's own annotations. "" is no queue.
func QueueOf(pod *corev1.Pod, group *v1beta1.PodGroup, last string) string {
	bound := ""
	if pod.Spec.NodeName != "" {
		bound = pod.Annotations[v1alpha1.AnnotationChargedQueue]
	}
	ofGroup := ""
	if group != nil {
		ofGroup = QueueOfGroup(group)
	}
	return cmp.Or(last, bound, ofGroup, pod.Annotations[v1beta1.QueueNameAnnotationKey], pod.Annotations[batchv1alpha1.QueueNameKey])
}

// QueueOfGroup returns the queue of a PodGroup.
func QueueOfGroup(group *v1beta1.PodGroup) string {
	return cmp.Or(group.Spec.Queue, defaultQueue)
}
