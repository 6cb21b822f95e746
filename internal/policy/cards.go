package policy

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// CardMappings returns the mappings of cards in force: those in the status of the policy, which an
// invalid spec does not change. A policy may be nil.
func CardMappings(policy *v1alpha1.ServiceTypePolicy) card.Mappings {
	if policy == nil {
		return nil
	}
	return mappingsOf(policy.Status.Cards)
}

// ExpectedMappings returns the mappings of cards in force. Before a spec of the policy takes effect,
// they are those of the spec, if they are valid: commands may run before the operator has applied the policy. A policy
// may be nil.
func ExpectedMappings(policy *v1alpha1.ServiceTypePolicy) card.Mappings {
	if policy == nil || HasTakenEffect(policy) || len(policy.Status.Cards) > 0 {
		return CardMappings(policy)
	}
	mappings := mappingsOf(policy.Spec.Cards)
	if mappings.Validate() != nil {
		return nil
	}
	return mappings
}

// WrittenMappings returns the mappings of cards of an effective spec, which may not be in force yet.
func WrittenMappings(effective v1alpha1.ServiceTypePolicySpec) card.Mappings {
	return mappingsOf(effective.Cards)
}

// HasTakenEffect reports whether a spec of the policy has been in force, so that its status has the
// mappings of cards in force. The status has service types since then, because each effective spec has some.
func HasTakenEffect(policy *v1alpha1.ServiceTypePolicy) bool {
	return len(policy.Status.ServiceTypes) > 0
}

// InForce returns what is in force of a policy that was read: its spec, with the status of the last
// policy that took effect. So what the status says stays while the policy is deleted, and until a new
// one takes effect, as in the scheduler. The mode is that of a new policy from its first status on. Both may be nil.
func InForce(read, last *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	switch {
	case last == nil || (read != nil && HasTakenEffect(read)):
		return read
	case read == nil:
		return last
	}
	merged := read.DeepCopy()
	merged.Status = *last.Status.DeepCopy()
	merged.Status.Mode = cmp.Or(read.Status.Mode, last.Status.Mode) // decided before anything else takes effect
	return merged
}

// mappingsOf returns the entries of the API as package card reads them.
func mappingsOf(entries []v1alpha1.CardMapping) card.Mappings {
	mappings := make(card.Mappings, len(entries))
	for i, entry := range entries {
		mappings[i] = card.Mapping{
			Resource: corev1.ResourceName(entry.Resource), Model: entry.Model, ModelLabel: entry.ModelLabel,
			NodeSelector: entry.NodeSelector, MemoryLabel: entry.MemoryLabel,
		}
	}
	return mappings
}

// sortedCards returns the entries by resource and selector, nil for none, so that equal lists are equal.
func sortedCards(entries []v1alpha1.CardMapping) []v1alpha1.CardMapping {
	if len(entries) == 0 {
		return nil
	}
	sorted := make([]v1alpha1.CardMapping, len(entries))
	for i, m := range mappingsOf(entries).Sorted() {
		sorted[i] = v1alpha1.CardMapping{
			Resource: string(m.Resource), Model: m.Model, ModelLabel: m.ModelLabel, NodeSelector: m.NodeSelector, MemoryLabel: m.MemoryLabel,
		}
	}
	return sorted
}

// validateCards returns the errors of the mappings of cards.
func validateCards(path *field.Path, entries []v1alpha1.CardMapping) field.ErrorList {
	var errs field.ErrorList
	for _, mistake := range mappingsOf(entries).Mistakes() {
		at := path
		if mistake.Index >= 0 { // below 0 it is about the whole list; by resource, because an effective spec is sorted
			at = at.Key(entries[mistake.Index].Resource)
		}
		if mistake.Field != "" {
			at = at.Child(mistake.Field)
		}
		errs = append(errs, field.Forbidden(at, mistake.Message))
	}

	return errs
}
