package waiting

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// Bounds of an entry in bytes, as in its schema. A tenant can write any owner into a pod, and any
// message into a PodGroup.
const (
	MaxCardLength = 2600 // 16 alternatives of 160
	maxNameLength = validation.DNS1123SubdomainMaxLength
)

// Truncate returns entries within their bounds. It does not change the given ones.
func Truncate(entries []v1alpha1.BlockedStatus) []v1alpha1.BlockedStatus {
	out := slices.Clone(entries)
	for i := range out {
		entry := &out[i]
		truncateReference(&entry.Workload)
		entry.Card = conditions.Truncate(entry.Card, MaxCardLength)
		entry.Message = conditions.Truncate(entry.Message, conditions.MaxMessageLength)
		entry.Holders = slices.Clone(entry.Holders)
		for j := range entry.Holders {
			holder := &entry.Holders[j]
			truncateReference(&holder.Workload)
			holder.Queue = conditions.Truncate(holder.Queue, maxNameLength)
			holder.ServiceType = conditions.Truncate(holder.ServiceType, maxNameLength)
		}
	}

	return out
}

// truncateReference truncates the names of a workload, but for its namespace, which exists.
func truncateReference(w *v1alpha1.WorkloadReference) {
	w.APIGroup = conditions.Truncate(w.APIGroup, maxNameLength)
	w.Kind = conditions.Truncate(w.Kind, maxNameLength)
	w.Name = conditions.Truncate(w.Name, maxNameLength)
}
