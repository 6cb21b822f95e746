package observer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"cardquota.dev/operator/internal/decision"
)

// choice is which namespaces a queue takes.
type choice struct {
	selector labels.Selector
	nobody   bool
}

// String tells choices apart.
func (c choice) String() string {
	if c.selector == nil {
		return fmt.Sprint("every namespace unless ", c.nobody)
	}
	return fmt.Sprint(c.selector, c.nobody)
}

func (m *machine) takeNamespace(namespace *corev1.Namespace, c change) {
	if c.deleted {
		delete(m.namespaces, namespace.Name)
		return
	}
	if m.namespaces[namespace.Name] == nil {
		m.namespaces[namespace.Name] = &timeline[map[string]string]{}
	}
	m.namespaces[namespace.Name].set(namespace.Labels, c.seen)
}

// judgeTenancy checks that the queue which pays for a pod took the pod's
// namespace at some moment of the window before the pod was given a node. Who is
// bound past the scheduler is judged alike: a card is a card.
func (m *machine) judgeTenancy(state *podState, c change) {
	pod := state.pod
	if state.charge == nil || len(state.charge.Cards) == 0 {
		return
	}
	choices := m.choices[state.charge.Queue]
	if choices == nil {
		return // no such queue, which is a matter of the quota
	}
	moment := c.seen.Add(-m.options.QuotaWindow)
	was := []map[string]string{nil} // a namespace that nobody has seen has no labels
	if known := m.namespaces[pod.Namespace]; known != nil {
		was = known.since(moment)
	}
	for _, choice := range choices.since(moment) {
		for _, has := range was {
			namespace := &corev1.Namespace{}
			namespace.Labels = has
			if !choice.nobody && decision.MayUse(state.charge.Queue, choice.selector, pod.Namespace, namespace) == nil {
				return
			}
		}
	}
	m.report(Tenancy, c.seen, "pod/"+pod.Namespace+"/"+pod.Name, "was placed on node %s with cards of queue <%s>, which left namespace <%s> out for the %s before (revision %d)",
		pod.Spec.NodeName, state.charge.Queue, pod.Namespace, m.options.QuotaWindow, c.revision)
}
