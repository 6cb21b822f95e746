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

// Charge is what a pod holds and which queue it is charged to.
type Charge struct {
	// Queue is "" when no queue pays.
	Queue string
	// Cards has more than one entry when it is uncertain which card the pod holds.
	Cards            Quota
	MilliCPU, Memory int64
}

// String tells charges apart.
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

// Origin is what is known of a placed pod beside what it says of itself. Its maker
// can write any queue into it.
type Origin struct {
	// Ours reports that the pod names our scheduler.
	Ours bool
	// Admits reports whether a queue takes work of a namespace; nil is always.
	AllowsNamespace func(queue, namespace string) bool
}

// ChargeOf returns what a pod holds, false when it holds nothing that counts as
// used. last is its charge so far, nil when there is none.
func ChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) (Charge, bool) {
	if !IsCharged(pod) {
		return Charge{}, false
	}
	return newCharge(pod, group, inv, last, origin), true
}

// TerminatingChargeOf returns what a pod holds that is being deleted.
func TerminatingChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) (Charge, bool) {
	if !IsTerminating(pod) {
		return Charge{}, false
	}
	return newCharge(pod, group, inv, last, origin), true
}

// newCharge counts the cards by the node that the pod is on.
func newCharge(pod *corev1.Pod, group *v1beta1.PodGroup, inv *Inventory, last *Charge, origin Origin) Charge {
	ask := RequestOf(origin.withoutUnprovenRecord(pod), inv)
	now := Charge{Queue: origin.queueOf(pod, group, last), Cards: Quota{}, MilliCPU: ask.MilliCPU, Memory: ask.Memory}
	held := ask.resources
	if len(held) == 0 && last != nil && ask.Denial != "" {
		held = unrecognisedCards(pod, inv)
	}
	for resource, count := range held {
		for _, card := range cardsOn(pod.Spec.NodeName, resource, ask, inv, last) {
			now.Cards[card] += count
		}
	}
	return now
}

// queueOf is QueueOf for a placed pod. What was charged before stays, and so does
// what the record or the PodGroup of a pod of ours says; anything else counts only
// where the queue takes the namespace.
func (o Origin) queueOf(pod *corev1.Pod, group *v1beta1.PodGroup, last *Charge) string {
	charged := ""
	if last != nil {
		charged = last.Queue
	}
	queue := QueueOf(pod, group, charged)
	proven := charged != "" || o.Ours && (group != nil || pod.Annotations[v1alpha1.AnnotationChargedQueue] != "")
	if !proven && queue != "" && o.AllowsNamespace != nil && !o.AllowsNamespace(queue, pod.Namespace) {
		return ""
	}
	return queue
}

// withoutUnprovenRecord returns the pod without a record that is not our scheduler's: only ours
// proves that a resource was a card.
func (o Origin) withoutUnprovenRecord(pod *corev1.Pod) *corev1.Pod {
	if o.Ours || pod.Annotations[v1alpha1.AnnotationChargedQueue] == "" {
		return pod
	}
	pod = pod.DeepCopy()
	delete(pod.Annotations, v1alpha1.AnnotationChargedQueue)
	return pod
}

// unrecognisedCards is a resource that is a card on no node any more, of a pod that held
// cards before.
func unrecognisedCards(pod *corev1.Pod, inv *Inventory) map[corev1.ResourceName]int64 {
	waiting := pod.DeepCopy()
	waiting.Spec.NodeName = ""
	return RequestOf(waiting, inv).resources
}

// cardsOn lists the cards that a resource may be on a node: the one that the node
// names now; of a node that names none or is gone what was charged last; else all
// that it may be, so that uncertainty withholds cards.
func cardsOn(node string, resource corev1.ResourceName, ask Request, inv *Inventory, last *Charge) []string {
	if card := inv.CardOn(node, resource); card != "" {
		return []string{card}
	}
	if last != nil {
		var cards []string
		for card := range last.Cards {
			if offered := inv.ResourcesOf(card); len(offered) == 0 || slices.Contains(offered, resource) {
				cards = append(cards, card)
			}
		}
		if len(cards) > 0 || len(ask.resources) == 0 {
			return cards
		}
	}
	if len(ask.Named) > 0 {
		return ask.Named
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

// QueueOf returns the queue that a pod is charged to, or would be: the one it was
// charged to last; of a placed pod the one that the binding wrote into it; its
// PodGroup's; the one that its own annotations name. "" is no queue.
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
