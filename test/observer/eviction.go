package observer

import (
	corev1 "k8s.io/api/core/v1"
)

// judgeEviction reports pods that somebody evicts. A pod that was marked when
// the observer started is not reported. What the API shows of an
// eviction is the condition DisruptionTarget, which the eviction API,
// Kubernetes' own components and Volcano all set; Volcano also sets Ready to
// False with the reason Evict, kubelets the pod's reason. A plain deletion
// shows nothing of the kind and is the owner's right.
func (m *machine) judgeEviction(state *podState, c change, happened bool) {
	why := evictionOf(state.pod)
	if why == "" || state.evicted {
		return
	}
	state.evicted = true
	if happened {
		m.report(Eviction, c.seen, "pod/"+state.pod.Namespace+"/"+state.pod.Name, "was evicted from node %s (%s)", state.pod.Spec.NodeName, why)
	}
}

// evictionOf says how a pod is marked as evicted, "" when it is not.
func evictionOf(pod *corev1.Pod) string {
	if pod.Status.Reason == "Evicted" || pod.Status.Reason == "Preempting" {
		return pod.Status.Reason + ": " + pod.Status.Message
	}
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue,
			condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && condition.Reason == "Evict":
			return condition.Reason + ": " + condition.Message
		}
	}
	return ""
}
