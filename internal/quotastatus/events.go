package quotastatus

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
)

// Event is one event on a CardQuota.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is one of the event reasons of the API package.
	Reason, Message string
}

// Events returns what the change from one status to the next is worth telling:
// transitions only, so that a status that stays is silent.
func Events(before, after v1alpha1.CardQuotaStatus) []Event {
	var events []Event
	changed := func(kind, reason string) (*metav1.Condition, bool) {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if is == nil || is.Reason != reason {
			return is, false
		}
		return is, was == nil || was.Reason != is.Reason
	}
	for _, kind := range []struct{ condition, reason, event string }{
		{v1alpha1.ConditionQueueSynced, v1alpha1.ReasonWeightConflict, v1alpha1.EventWeightConflict},
		{v1alpha1.ConditionQueueSynced, v1alpha1.ReasonQueueConflict, v1alpha1.EventQueueConflict},
		{v1alpha1.ConditionQueueSynced, v1alpha1.ReasonQueueReserved, v1alpha1.EventQueueRefused},
		{v1alpha1.ConditionQueueSynced, v1alpha1.ReasonQueueRefused, v1alpha1.EventQueueRefused},
		{v1alpha1.ConditionQueueSynced, v1alpha1.ReasonInvalidNamespaceSelector, v1alpha1.EventInvalidNamespaceSelector},
		{v1alpha1.ConditionWithinQuota, v1alpha1.ReasonOverQuota, v1alpha1.EventOverQuota},
		{v1alpha1.ConditionInventorySatisfied, v1alpha1.ReasonOverAllocated, v1alpha1.EventOverAllocated},
	} {
		if is, ok := changed(kind.condition, kind.reason); ok {
			events = append(events, Event{Type: corev1.EventTypeWarning, Reason: kind.event, Message: is.Message})
		}
	}
	if kind, reason, message, ok := enforcement.News(before.Conditions, after.Conditions); ok {
		events = append(events, Event{Type: kind, Reason: reason, Message: message})
	}
	if is, ok := changed(v1alpha1.ConditionReady, v1alpha1.ReasonReady); ok {
		events = append(events, Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.EventReady, Message: is.Message})
	}
	return events
}
