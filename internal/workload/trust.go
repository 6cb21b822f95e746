package workload

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Trust is what is known of a placed pod beside what it says of itself. Whoever may
// create pods can write any queue into them, and take its quota away from those that
// it is for.
type Trust struct {
	// Ours tells that the pod names a scheduler of ours, which placed it, and let it
	// in, unless its maker brought a node along.
	Ours bool
	// Admits tells whether a queue takes work of a namespace; nil is always.
	Admits func(queue, namespace string) bool
}

// PayerOf is QueueOf for a placed pod. Where the queue was charged before, or our
// scheduler placed the pod and its record or its PodGroup names the queue, that
// stays, whatever namespaces the queue is for now. Else nobody has judged the pod
// yet, and the queue pays only if it takes the namespace; "" is no queue.
func (t Trust) PayerOf(pod *corev1.Pod, group *v1beta1.PodGroup, lastCharged string) string {
	queue := QueueOf(pod, group, lastCharged)
	known := lastCharged != "" || t.Ours && (group != nil || ChargedQueue(pod) != "")
	if !known && queue != "" && t.Admits != nil && !t.Admits(queue, pod.Namespace) {
		return ""
	}
	return queue
}

// AskOf is AskOf for a pod that need not be ours: only of ours a record of a binding
// proves that a resource was a card.
func (t Trust) AskOf(pod *corev1.Pod, inv *card.Inventory) Ask { return askOf(pod, inv, t.Ours) }

// ChargeOf is ChargeOf for a pod that is not taken at its word.
func (t Trust) ChargeOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *card.Inventory, last *quota.Charge) (quota.Charge, bool) {
	if !Counted(pod) {
		return quota.Charge{}, false
	}
	var lastQueue string
	if last != nil {
		lastQueue = last.Queue
	}
	return ChargeAt(t.AskOf(pod, inv), t.PayerOf(pod, group, lastQueue), pod.Spec.NodeName, inv, last), true
}
