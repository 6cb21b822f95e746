package admissionpolicy

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// The names of the ValidatingAdmissionPolicies and of their bindings. One guards against
// bypassing the scheduler, one against changes of the queue that assigned pods are charged
// to.
const (
	BypassPolicyName = "cardquota-bypass.cardquota.dev"
	ChargePolicyName = "cardquota-charge.cardquota.dev"
)

// PolicyNames returns the names of all policies and of their bindings.
func PolicyNames() []string { return []string{BypassPolicyName, ChargePolicyName} }

// Policies returns all ValidatingAdmissionPolicies for an effective spec, none if no
// resource is a card.
func Policies(owner *v1alpha1.ServiceTypePolicy, spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) []*admissionv1.ValidatingAdmissionPolicy {
	if len(resources) == 0 {
		return nil
	}
	return []*admissionv1.ValidatingAdmissionPolicy{BypassPolicy(owner, spec, resources), ChargePolicy(owner, spec, resources)}
}

// rememberResources makes the annotation of card resources, which the operator reads after a restart, list those that
// stay cards then. A resource that only a mapping of the ServiceTypePolicy makes a card is none of them.
func rememberResources(policies []*admissionv1.ValidatingAdmissionPolicy, lasting []corev1.ResourceName) []*admissionv1.ValidatingAdmissionPolicy {
	for _, p := range policies {
		if _, remembers := p.Annotations[v1alpha1.AnnotationCardResources]; remembers {
			p.Annotations[v1alpha1.AnnotationCardResources] = card.JoinResources(lasting)
		}
	}
	return policies
}

// failClosedPolicy returns a policy that fails closed and refuses with reason Forbidden.
func failClosedPolicy(meta metav1.ObjectMeta, spec admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicy {
	spec.FailurePolicy = ptr.To(admissionv1.Fail)
	for i := range spec.Validations {
		spec.Validations[i].Reason = ptr.To(metav1.StatusReasonForbidden)
	}
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: meta, Spec: spec,
	}
}

// Binding returns the ValidatingAdmissionPolicyBinding of the named policy, nil if the spec
// switches it off: schedulerBypassPolicy Allow.
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
		ObjectMeta: objectMeta(owner, name, "puts the ValidatingAdmissionPolicy of the same name into force", nil),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionv1.ValidationAction{action},
		},
	}
}

// objectMeta returns the metadata of an object that the ServiceTypePolicy owns. what says what the object is for.
// blockOwnerDeletion stays false: on some clusters it would need a permission on the
// policy's finalizers.
func objectMeta(owner *v1alpha1.ServiceTypePolicy, name, what string, annotations map[string]string) metav1.ObjectMeta {
	all := map[string]string{v1alpha1.AnnotationDescription: "Created by ServiceTypePolicy " + owner.Name +
		": " + what + ". Change spec.admission there; the operator reverts changes here."}

	maps.Copy(all, annotations)
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager},
		Annotations: all,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceTypePolicy", Name: owner.Name, UID: owner.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
		}},
	}
}

// requestsCardExpr returns the expression that container c requests resource r.
func requestsCardExpr() string {
	return `has(c.resources) && (` + isPositiveExpr("limits") + ` || ` + isPositiveExpr("requests") + `)`
}

// isPositiveExpr returns the expression that a container's limits or requests have some of
// resource r. A request of 0 takes no card.
func isPositiveExpr(field string) string {
	return fmt.Sprintf(`(has(c.resources.%[1]s) && r in c.resources.%[1]s && quantity(string(c.resources.%[1]s[r])).isGreaterThan(quantity('0')))`, field)
}

// celList returns strings as a CEL list.
func celList[S ~string](values []S) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.QuoteToASCII(string(value))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// GuardCondition returns condition BypassGuarded when the objects are written. It is True only if they refuse requests.
func GuardCondition(spec v1alpha1.ServiceTypePolicySpec, resources []corev1.ResourceName) metav1.Condition {
	switch {
	case spec.Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassAllow:
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonBypassOff,
			"spec.admission.schedulerBypassPolicy is Allow: pods may take cards with another schedulerName or their own nodeName, and hold them uncharged; condition Enforced reports such pods")
	case len(resources) == 0:
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNoCardResources,
			"no node has offered a card yet: label nodes with <vendor>/<type>.product and .memory, and run the vendor's device plugin")
	case spec.Admission.SchedulerBypassPolicy == v1alpha1.SchedulerBypassWarn:
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonBypassWarned,
			"pods that request %s under another schedulerName, or set nodeName, are created with a warning, and requests that move or end the charge for cards are allowed with one: set spec.admission.schedulerBypassPolicy to Deny to refuse them", card.JoinResources(resources))
	default:
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonBypassDenied,
			"pods that request %s under another schedulerName, or set nodeName, are refused by ValidatingAdmissionPolicy %s, and requests that would move or end the charge for used cards by %s",
			card.JoinResources(resources), BypassPolicyName, ChargePolicyName)
	}
}

// GuardRefusedCondition returns condition BypassGuarded when an object could not be
// written.
func GuardRefusedCondition(err error) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonGuardRefused,
		"pods may bypass the scheduler, or hold cards uncharged, since an admission policy could not be written: %v; Kubernetes 1.30 or newer and the shipped ClusterRole are needed", err)
}

// ObservingGuardCondition returns condition BypassGuarded in mode Observe.
func ObservingGuardCondition() metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonObserving, "in mode Observe no admission policy refuses pods that bypass the scheduler")
}
