package observer

import (
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

func (m *machine) takeNamespace(namespace *corev1.Namespace, c change) {
	if c.deleted {
		delete(m.namespaces, namespace.Name)
		return
	}
	if m.namespaces[namespace.Name] == nil {
		m.namespaces[namespace.Name] = &timeline[map[string]string]{}
	}
	m.namespaces[namespace.Name].set(namespace.Labels, c.seen)
	m.rechargeUnpaid()
}

// originOf is what is known of who placed a pod.
func (m *machine) originOf(pod *corev1.Pod) rule.Origin {
	return rule.Origin{Ours: pod.Spec.SchedulerName == m.options.SchedulerName, Admits: m.admits}
}

// admits reports whether a queue takes work of a namespace now. A queue that
// nobody has seen takes any.
func (m *machine) admits(queue, namespace string) bool {
	selectors, labels := m.choices[queue], map[string]string(nil)
	if known := m.namespaces[namespace]; known != nil {
		labels = known.last()
	}
	return selectors == nil || selectors.last().Selects(labels)
}

// rechargeUnpaid counts pods again that no queue pays for: one may take their
// namespace now.
func (m *machine) rechargeUnpaid() {
	for _, state := range m.pods {
		if state.charge != nil && state.charge.Queue == "" {
			m.recharge(state)
		}
	}
}

// judgeTenancy checks that the queue which pays for a pod took the pod's
// namespace at some moment of the window before the pod was given a node. Who is
// bound past the scheduler is judged alike: a card is a card.
func (m *machine) judgeTenancy(state *podState, c change) {
	pod := state.pod
	if state.charge == nil || len(state.charge.Cards) == 0 {
		return
	}
	queue := m.namedQueue(state)
	choices := m.choices[queue]
	if choices == nil {
		return // no such queue, which is a matter of the quota
	}
	moment := m.since(c.seen)
	was := []map[string]string{nil} // a namespace that nobody has seen has no labels
	if known := m.namespaces[pod.Namespace]; known != nil {
		was = known.since(moment)
	}
	for _, choice := range choices.since(moment) {
		for _, labels := range was {
			if choice.Selects(labels) {
				return
			}
		}
	}
	m.report(Tenancy, c.seen, "pod/"+pod.Namespace+"/"+pod.Name, "was placed on node %s with cards of queue <%s>, which left namespace <%s> out for the %s before (revision %d)",
		pod.Spec.NodeName, queue, pod.Namespace, c.seen.Sub(moment), c.revision)
}
