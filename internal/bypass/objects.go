package bypass

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// Names are those of all policies; their bindings have the same.
func Names() []string { return []string{v1alpha1.BypassPolicyName, v1alpha1.ChargePolicyName} }

// Policies returns all ValidatingAdmissionPolicies for an effective spec, none
// when no resource is a card.
func Policies(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) []*admissionv1.ValidatingAdmissionPolicy {
	if len(resources) == 0 {
		return nil
	}
	return []*admissionv1.ValidatingAdmissionPolicy{Policy(owner, spec, resources), Charge(owner, spec, resources)}
}

// Binding returns the ValidatingAdmissionPolicyBinding of the policy of a name,
// nil when the spec binds nothing.
func Binding(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	var action admissionv1.ValidationAction
	switch spec.Admission.SchedulerBypassPolicy {
	case v1alpha1.SchedulerBypassDeny:
		action = admissionv1.Deny
	case v1alpha1.SchedulerBypassWarn:
		action = admissionv1.Warn
	default:
		return nil
	}
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: meta(owner, name, "puts the ValidatingAdmissionPolicy of the same name into force", nil),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionv1.ValidationAction{action},
		},
	}
}

// meta makes an object go with the ServiceTypePolicy. blockOwnerDeletion stays
// false: it would need a right over the policy's finalizers on some clusters.
func meta(owner *v1alpha1.ServiceTypePolicy, name, what string, annotations map[string]string) metav1.ObjectMeta {
	controls, blocks := true, false
	all := map[string]string{v1alpha1.AnnotationDescription: "Made by ServiceTypePolicy " + owner.Name +
		": " + what + ". Change spec.admission there; changes here are put back."}
	for key, value := range annotations {
		all[key] = value
	}
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "cardquota"},
		Annotations: all,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceTypePolicy", Name: owner.Name, UID: owner.UID,
			Controller: &controls, BlockOwnerDeletion: &blocks,
		}},
	}
}
