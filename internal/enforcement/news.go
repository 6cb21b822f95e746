package enforcement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// News is what a change of condition Enforced is worth telling as an event: its
// type, reason and message. It is false when nothing is; Unknown is no news.
func News(before, after []metav1.Condition) (kind, reason, message string, ok bool) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionEnforced), meta.FindStatusCondition(after, v1alpha1.ConditionEnforced)
	switch {
	case is == nil, is.Status == metav1.ConditionUnknown, was != nil && was.Status == is.Status && was.Reason == is.Reason:
		return "", "", "", false
	case is.Status == metav1.ConditionTrue:
		return corev1.EventTypeNormal, v1alpha1.EventEnforced, is.Message, true
	default:
		return corev1.EventTypeWarning, v1alpha1.EventNotEnforced, is.Reason + ": " + is.Message, true
	}
}
