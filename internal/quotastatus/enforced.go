package quotastatus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
)

// enforced is condition Enforced. It is false while nothing was found out: then
// the condition stays as it was.
func enforced(f Facts) (Sync, bool) {
	if f.Enforced == nil {
		return Sync{}, false
	}
	return Sync{f.Enforced.Status, f.Enforced.Reason, f.Enforced.Message}, true
}

// unproven tells why a CardQuota whose Queue is in order is not ready all the
// same. It is false when enforcement is proven, and when nobody can know of it
// because there is no ServiceTypePolicy.
func unproven(s *v1alpha1.CardQuotaStatus, queue string) (Sync, bool) {
	is := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEnforced)
	if is == nil || is.Status != metav1.ConditionFalse {
		return Sync{}, false
	}
	return Sync{metav1.ConditionFalse, is.Reason, clip.Text(fmt.Sprintf(
		"queue %s carries this quota, but it is not proven to be enforced: %s", queue, is.Message), v1alpha1.MaxMessageLength)}, true
}

// enforcedEvent returns what a change of condition Enforced is worth telling.
// Unknown is no news.
func enforcedEvent(before, after v1alpha1.CardQuotaStatus) (Event, bool) {
	was, is := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionEnforced), meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionEnforced)
	switch {
	case is == nil, is.Status == metav1.ConditionUnknown, was != nil && was.Status == is.Status && was.Reason == is.Reason:
		return Event{}, false
	case is.Status == metav1.ConditionTrue:
		return Event{Type: corev1.EventTypeNormal, Reason: v1alpha1.EventEnforced, Message: is.Message}, true
	default:
		return Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.EventNotEnforced, Message: is.Reason + ": " + is.Message}, true
	}
}
