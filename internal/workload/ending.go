package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Ending tells whether a pod that is being deleted may still hold its cards: it
// was given a node and has not finished. The node must be there as well, see
// Works.
func Ending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && AtWork(pod)
}

// Works tells whether a node's kubelet reports that pods run there. Cards of a
// node that does not are of use to nobody, and its pods are not ending but stuck:
// nothing that their owner does makes them go. A node that does not say is taken
// to work.
func Works(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// Goodbye is how long a pod may take to end: as the deletion says, before that as
// the pod itself does.
func Goodbye(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	// Absurd ones are no longer than a century, which a Duration holds.
	return time.Duration(min(max(seconds, 0), 100*366*24*3600)) * time.Second
}

// EndingOf returns what a pod that is being deleted still holds, and of which
// queue, like ChargeOf for a pod that is not. It is false for one that holds
// nothing.
func EndingOf(pod *corev1.Pod, group *v1beta1.PodGroup, inv *card.Inventory, last *quota.Charge) (quota.Charge, bool) {
	if !Ending(pod) {
		return quota.Charge{}, false
	}
	var lastQueue string
	if last != nil {
		lastQueue = last.Queue
	}
	return ChargeAt(AskOf(pod, inv), QueueOf(pod, group, lastQueue), pod.Spec.NodeName, inv, last), true
}
