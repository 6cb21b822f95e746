package waiting

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// MaxCardLength bounds the card of an entry in bytes: 16 alternatives of 160, as in its schema.
const MaxCardLength = 2600

// Truncate returns entries within the bounds of their schema. It does not change the given ones. A tenant can
// write any owner into a pod, and any message into a PodGroup.
func Truncate(entries []v1alpha1.BlockedStatus) []v1alpha1.BlockedStatus {
	out := slices.Clone(entries)
	for i := range out {
		entry := &out[i]
		TruncateReference(&entry.Workload)
		entry.Card = conditions.Truncate(entry.Card, MaxCardLength)
		entry.Message = conditions.Truncate(entry.Message, conditions.MaxMessageLength)
		entry.Holders = slices.Clone(entry.Holders)
		for j := range entry.Holders {
			holder := &entry.Holders[j]
			TruncateReference(&holder.Workload)
			holder.Queue = conditions.Truncate(holder.Queue, validation.DNS1123SubdomainMaxLength)
			holder.ServiceType = conditions.Truncate(holder.ServiceType, validation.DNS1123SubdomainMaxLength)
		}
	}

	return out
}

// TruncateReference truncates the names of a workload, but for its namespace, which exists.
func TruncateReference(w *v1alpha1.WorkloadReference) {
	w.APIGroup = conditions.Truncate(w.APIGroup, validation.DNS1123SubdomainMaxLength)
	w.Kind = conditions.Truncate(w.Kind, validation.DNS1123SubdomainMaxLength)
	w.Name = conditions.Truncate(w.Name, validation.DNS1123SubdomainMaxLength)
}
