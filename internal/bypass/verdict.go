package bypass

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/policy"
)

// Standing is condition BypassGuarded when the objects are as they shall be.
func Standing(spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) policy.Verdict {
	switch {
	case spec.Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassAllow:
		return verdict(metav1.ConditionFalse, v1alpha1.ReasonBypassOff,
			"spec.admission.schedulerBypassPolicy is Allow: pods may take cards through another schedulerName or a nodeName of their own, and hold them uncharged; condition Enforced tells when one does")
	case len(resources) == 0:
		return verdict(metav1.ConditionUnknown, v1alpha1.ReasonNoCardResources,
			"no node has offered a card yet: label nodes with <vendor>/<type>.product and .memory, and run the vendor's device plugin")
	case spec.Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassWarn:
		return verdict(metav1.ConditionFalse, v1alpha1.ReasonBypassWarned,
			"pods that ask for %s under another schedulerName, or bring their nodeName along, are created with a warning, and so may the charge for cards be moved or ended: set spec.admission.schedulerBypassPolicy to Deny to refuse them", Join(resources))
	default:
		return verdict(metav1.ConditionTrue, v1alpha1.ReasonBypassDenied,
			"pods that ask for %s under another schedulerName, or bring their nodeName along, are refused by ValidatingAdmissionPolicy %s, and what would move or end the charge for cards that are held by %s",
			Join(resources), v1alpha1.BypassPolicyName, v1alpha1.ChargePolicyName)
	}
}

// Refused is condition BypassGuarded when the objects could not be written.
func Refused(err error) policy.Verdict {
	return verdict(metav1.ConditionFalse, v1alpha1.ReasonGuardRefused,
		"pods may take cards past the scheduler, or hold them uncharged, since a rule against it could not be written: %v; Kubernetes 1.30 or newer and the shipped ClusterRole are needed", err)
}

func verdict(status metav1.ConditionStatus, reason, format string, values ...any) policy.Verdict {
	return policy.Verdict{Status: status, Reason: reason, Message: clip.Text(fmt.Sprintf(format, values...), v1alpha1.MaxMessageLength)}
}
