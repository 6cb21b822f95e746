package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// PolicyInput is the input of the rules for the ServiceTypePolicy besides the object.
type PolicyInput struct {
	// Quotas are all CardQuotas.
	Quotas []*v1alpha1.CardQuota
	// Base is the base ConfigMap of the policy, Rendered that of the scheduler, nil for none.
	// BaseUnknown reports that one could not be read; then the base is not checked.
	Base, Rendered *corev1.ConfigMap
	BaseUnknown    bool
	// Volcano is the namespace of Volcano's programs.
	Volcano string
	// InForce is what was last in force of a policy, nil for none. It outlives its policy.
	InForce *v1alpha1.ServiceTypePolicy
	// Nodes are all nodes, as the mappings in force name their cards.
	Nodes []card.TrackedNode
}

// effectiveSpec returns the effective spec of a policy.
func (i *PolicyInput) effectiveSpec(object *v1alpha1.ServiceTypePolicy) v1alpha1.ServiceTypePolicySpec {
	return policy.EffectivePolicy(policy.InForce(object, i.InForce))
}

// ValidateServiceTypePolicy validates the policy. before is nil for a new one. It refuses
// no error that the policy had before.
func ValidateServiceTypePolicy(object, before *v1alpha1.ServiceTypePolicy, input PolicyInput) Result {
	var result Result
	if object.DeletionTimestamp != nil || (before != nil && equality.Semantic.DeepEqual(object.Spec, before.Spec)) {
		return result
	}

	effective := input.effectiveSpec(object)
	result.Errors = policyErrors(effective)
	if before != nil {
		result = result.OnlyNew(Result{Errors: policyErrors(input.effectiveSpec(before))})
	}

	if len(result.Errors) > 0 {
		return result
	}

	// Warnings about a policy that is refused would hide the error that the user must correct.
	warnUndefinedServiceTypes(&result, effective, input.Quotas)
	warnPrioritiesCut(&result, effective, input.Quotas)
	if before == nil || input.effectiveSpec(before).QueueHierarchy != effective.QueueHierarchy {
		warnQueueHierarchy(&result, effective.QueueHierarchy, input.Quotas)
	}

	warnUnmappedCards(&result, effective, policy.InForce(object, input.InForce))
	if before == nil || !equality.Semantic.DeepEqual(input.effectiveSpec(before).Cards, effective.Cards) {
		warnCardNames(&result, effective, policy.InForce(object, input.InForce), input.Nodes)
	}

	warnUnmanagedDenied(&result, object, before)
	warnDeprecated(&result, effective)
	warnBaseConfigMap(&result, effective, object.Status.ConfigHash, input)
	return result
}

// policyErrors returns the errors for which the operator would not apply an effective spec,
// whatever the base.
func policyErrors(effective v1alpha1.ServiceTypePolicySpec) field.ErrorList {
	if found := policy.Validate(effective); len(found) > 0 {
		return found
	}
	if _, _, err := schedulerconfig.Render(schedulerconfig.BuiltIn, "", policy.OverlayFor(effective)); err != nil {
		return field.ErrorList{field.Forbidden(specPath, strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return nil
}

// warnUndefinedServiceTypes warns of CardQuotas whose service type the policy does not
// define. Their queues stay unchanged.
func warnUndefinedServiceTypes(result *Result, effective v1alpha1.ServiceTypePolicySpec, quotas []*v1alpha1.CardQuota) {
	warnCardQuotas(result, specPath.Child("serviceTypes"), quotas, func(quota *v1alpha1.CardQuota) string {
		if slices.ContainsFunc(effective.ServiceTypes, func(t v1alpha1.ServiceType) bool { return t.Name == quota.Spec.ServiceType }) {
			return ""
		}
		return quota.Spec.ServiceType
	}, "have a service type that this policy does not define", "their queues keep their priority, and neither reclaim cards nor lose any to a reclaim")
}

// warnUnmappedCards warns of resources that entries in force name as cards, and that the policy names no more.
func warnUnmappedCards(result *Result, effective v1alpha1.ServiceTypePolicySpec, inForce *v1alpha1.ServiceTypePolicy) {
	named := map[string]bool{}
	for _, entry := range effective.Cards {
		named[entry.Resource] = true
	}

	var lost []string
	for _, entry := range inForce.Status.Cards {
		if !named[entry.Resource] && !slices.Contains(lost, entry.Resource) {
			lost = append(lost, entry.Resource)
		}
	}

	if len(lost) > 0 {
		result.warn(specPath.Child("cards"), "no entry names %s, which is in force as a card: no quota limits it any more, unless the labels of nodes name it", conditions.JoinFirst(lost, maxNames))
	}
}

// warnUnmanagedDenied warns if queues without a CardQuota will get nothing.
func warnUnmanagedDenied(result *Result, object, before *v1alpha1.ServiceTypePolicy) {
	if object.Spec.UnmanagedQueues == v1alpha1.UnmanagedDeny && (before == nil || before.Spec.UnmanagedQueues != v1alpha1.UnmanagedDeny) {
		result.warn(specPath.Child("unmanagedQueues"), "%s: pods that request CPU or memory no longer start in queues without a CardQuota, also not in queue default, unless the Queue states spec.capability", v1alpha1.UnmanagedDeny)
	}
}

// warnDeprecated warns of values that a later version will not have, and says what to write instead.
func warnDeprecated(result *Result, effective v1alpha1.ServiceTypePolicySpec) {
	if effective.VictimOrder == v1alpha1.VictimsByLoss {
		result.warn(specPath.Child("victimOrder"),
			"%s is deprecated, because it evicts work of high priority where work of low priority would suffice: remove the field; for the least loss among the queues of one priority, list a single class in spec.priorityClasses",
			effective.VictimOrder)
	}
	if effective.PriorityClassPolicy == v1alpha1.PriorityClassesNone {
		result.warn(specPath.Child("priorityClassPolicy"),
			"%s is deprecated: remove the field, and list a single class in spec.priorityClasses, which makes all work of a queue equal, too",
			effective.PriorityClassPolicy)
	}
}

// warnBaseConfigMap warns of a base configuration that the policy cannot be merged into now, and of a missing one, for
// which the built-in one stands. In mode Observe the operator writes no configuration. written is the hash of the one that
// the operator last wrote.
func warnBaseConfigMap(result *Result, effective v1alpha1.ServiceTypePolicySpec, written string, input PolicyInput) {
	if input.BaseUnknown || effective.Mode == v1alpha1.ModeObserve {
		return
	}
	at := specPath.Child("scheduler", "baseConfigMap")
	switch found := policy.RenderConfiguration(effective, policy.BaseFor(effective, input.Volcano), input.Base, input.Rendered, written); {
	case found.Text == "":
		result.warn(at, "the policy waits: %s", found.Message)
	case found.BuiltIn:
		result.warn(at, "%s", found.Message)
	}
}
