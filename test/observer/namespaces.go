package observer

import (
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

func (m *clusterState) recordNamespace(namespace *corev1.Namespace, c change) {
	m.endingNamespaces[namespace.Name] = namespace.DeletionTimestamp != nil
	if c.deleted {
		delete(m.namespaces, namespace.Name)
		delete(m.endingNamespaces, namespace.Name)
		return
	}
	setValueOf(m.namespaces, namespace.Name, namespace.Labels, c.seen)
	m.chargeUnchargedPods()
}

// originOf returns what is known about the scheduler of a pod.
func (m *clusterState) originOf(pod *corev1.Pod) rule.Origin {
	return rule.Origin{Ours: pod.Spec.SchedulerName == m.options.SchedulerName, AllowsNamespace: m.allowsNamespace}
}

// allowsNamespace reports whether a queue takes work of a namespace now. An unknown queue takes
// any.
func (m *clusterState) allowsNamespace(queue, namespace string) bool {
	selectors := m.selectors[queue]
	labels := map[string]string(nil)
	if known := m.namespaces[namespace]; known != nil {
		labels = known.current()
	}
	return selectors == nil || selectors.current().Selects(labels)
}

// chargeUnchargedPods counts the pods again that no queue is charged for: a queue may take
// their namespace now.
func (m *clusterState) chargeUnchargedPods() {
	for _, state := range m.pods {
		if state.charge != nil && state.charge.Queue == "" {
			m.updateCharge(state)
		}
	}
}

// checkTenancy checks that the charged queue allowed the pod's namespace at some moment of the
// window before the pod got its node. It does not matter which scheduler bound the pod.
func (m *clusterState) checkTenancy(state *podState, c change) {
	pod := state.pod
	if state.charge == nil || len(state.charge.Cards) == 0 {
		return
	}

	queue := m.namedQueue(state)
	choices := m.selectors[queue]
	if choices == nil {
		return // no such queue, which is a matter of the quota
	}

	moment := m.windowStart(c.seen)
	was := []map[string]string{nil} // an unknown namespace has no labels
	if known := m.namespaces[pod.Namespace]; known != nil {
		was = known.valuesSince(moment)
	}

	always, sometimes := m.isTreeSince(moment)
	if sometimes && m.allowsNamespaceInTree(queue, was, c) {
		return
	}

	for _, choice := range choices.valuesSince(moment) {
		for _, labels := range was {
			if !always && choice.Selects(labels) {
				return
			}
		}
	}

	m.addViolation(Tenancy, c.seen, "pod/"+pod.Namespace+"/"+pod.Name, "was placed on node %s with cards of queue <%s>, which left namespace <%s> out for the %s before (revision %d)",
		pod.Spec.NodeName, queue, pod.Namespace, c.seen.Sub(moment), c.revision)
}
