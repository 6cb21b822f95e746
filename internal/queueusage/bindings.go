package queueusage

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// Binding is a pod with cards that was bound to a node.
type Binding struct {
	Queue string
	// Cards are the cards that the pod uses, the first one if it may use one of several.
	Cards []card.Amount
	// Waited is the time from the creation of the pod until it was bound.
	Waited time.Duration
}

// NewBindings returns the pods with cards that our schedulers bound between the last two counts. Before
// the first count nothing is new. schedulers is nil for every scheduler.
func (f *PodFacts) NewBindings(schedulers []string) []Binding {
	var bindings []Binding
	for _, bound := range f.newlyCharged {
		pod := bound.Pod
		if len(schedulers) > 0 && !slices.Contains(schedulers, pod.Spec.SchedulerName) {
			continue
		}

		if at := workload.BoundTime(pod); !at.IsZero() {
			waited := max(0, at.Sub(pod.CreationTimestamp.Time))
			bindings = append(bindings, Binding{Queue: bound.Charge.Queue, Cards: bound.Charge.DistinctCards(), Waited: waited})
		}
	}

	return bindings
}

// PlacedSince returns since when a placed pod certainly uses its cards: since its binding, or its start if
// no scheduler bound it. It is zero if the pod states neither.
func PlacedSince(pod *corev1.Pod) time.Time {
	at := workload.BoundTime(pod)
	if at.IsZero() && pod.Status.StartTime != nil {
		at = pod.Status.StartTime.Time
	}
	return at
}
