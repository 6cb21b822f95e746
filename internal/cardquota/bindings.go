package cardquota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
)

// Binding is a pod with cards that was bound to a node.
type Binding struct {
	Queue string
	// Cards are the cards that the pod holds, the first one if it may hold one of several.
	Cards []card.Amount
	// Waited is the time from the creation of the pod until it was bound.
	Waited time.Duration
}

// NewBindings returns the pods with cards that our schedulers bound between the last two counts. Before
// the first count nothing is new. schedulers is nil for every scheduler.
func (f *PodFacts) NewBindings(schedulers []string) []Binding {
	var bindings []Binding
	for _, bound := range f.newlyCharged {
		pod := bound.pod
		if len(schedulers) > 0 && !slices.Contains(schedulers, pod.Spec.SchedulerName) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
				waited := max(0, c.LastTransitionTime.Sub(pod.CreationTimestamp.Time))
				bindings = append(bindings, Binding{Queue: bound.charge.Queue, Cards: bound.charge.HeldCards(), Waited: waited})
			}
		}
	}
	return bindings
}
