package cardquota

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// annotationClosedByParent on a Queue belongs to Volcano's queue controller.
const annotationClosedByParent = "volcano.sh/closed-by-parent"

// Fields are written as the API server writes them in conflicts.
const (
	fieldParent      = ".spec.parent"
	fieldPriority    = ".spec.priority"
	fieldReclaimable = ".spec.reclaimable"
	fieldWeight      = ".spec.weight"
)

// fieldsThatMayDiffer are the fields whose values may differ without anybody having
// touched what the CardQuota says.
var fieldsThatMayDiffer = []string{
	fieldParent, fieldWeight, labelField(LabelManagedBy),
	annotationField(v1alpha1.AnnotationCardAllocated), annotationField(annotationClosedByParent),
}

func annotationField(key string) string { return ".metadata.annotations." + key }
func labelField(key string) string      { return ".metadata.labels." + key }
func capabilityField(key string) string { return ".spec.capability." + key }

// compareFields compares every field of an apply configuration with the live Queue:
// field to whether the value is in place.
func compareFields(config *apply.QueueApplyConfiguration, live *v1beta1.Queue) map[string]bool {
	fields := map[string]bool{}
	for key, want := range config.Annotations {
		got, ok := live.Annotations[key]
		fields[annotationField(key)] = ok && got == want
	}
	for key, want := range config.Labels {
		fields[labelField(key)] = live.Labels[key] == want
	}
	spec := config.Spec
	if spec == nil {
		return fields
	}
	if spec.Capability != nil {
		for key, want := range *spec.Capability {
			got, ok := live.Spec.Capability[key]
			fields[capabilityField(string(key))] = ok && got.Cmp(want) == 0
		}
	}
	if spec.Parent != nil {
		fields[fieldParent] = live.Spec.Parent == *spec.Parent
	}
	if spec.Priority != nil {
		fields[fieldPriority] = live.Spec.Priority == *spec.Priority
	}
	if spec.Reclaimable != nil {
		fields[fieldReclaimable] = live.Spec.Reclaimable != nil && *live.Spec.Reclaimable == *spec.Reclaimable
	}
	if spec.Weight != nil {
		fields[fieldWeight] = live.Spec.Weight == *spec.Weight
	}
	return fields
}

// InSync tells whether applying the plan would change nothing: every value is
// in place, and the operator owns exactly the planned fields.
func (p DesiredQueue) InSync(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}
	owned := managersByField(live.ManagedFields, isOwnApply)
	fields := compareFields(p.Config, live)
	for field, inPlace := range fields {
		if _, ok := owned[field]; !ok || !inPlace {
			return false
		}
	}
	return len(owned) == len(fields)
}

// DriftedFields lists the planned fields whose value on the live Queue is another one,
// sorted. What changes by itself (card.allocated) and what is given way is not
// drift.
func (p DesiredQueue) DriftedFields(live *v1beta1.Queue) []string {
	var drift []string
	for field, inPlace := range compareFields(p.Config, live) {
		if !inPlace && !slices.Contains(fieldsThatMayDiffer, field) {
			drift = append(drift, field)
		}
	}
	slices.Sort(drift)
	return drift
}

// ServiceTypeChanged tells whether what the service type means was another thing when
// the live Queue was written: the priority or reclaimable that the operator
// itself wrote is not the planned one, or the operator has the quota and neither
// of them, and nobody else does. Writing such a plan replaces nothing of anybody.
func (p DesiredQueue) ServiceTypeChanged(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}
	fields := compareFields(p.Config, live)
	ours, theirs := managersByField(live.ManagedFields, isOwnApply), managersByField(live.ManagedFields, isOtherManager)
	_, fresh := ours[annotationField(v1alpha1.AnnotationCardQuota)]
	for _, field := range []string{fieldPriority, fieldReclaimable} {
		inPlace, planned := fields[field]
		_, own := ours[field]
		_, taken := theirs[field]
		if own && !inPlace {
			return true
		}
		fresh = fresh && planned && !own && !taken
	}
	return fresh
}

// otherWeightManager names the manager of spec.weight when it is somebody else and
// the value is not the wanted one.
func otherWeightManager(live *v1beta1.Queue, want int32) string {
	if live == nil || live.Spec.Weight == want {
		return ""
	}
	return managersByField(live.ManagedFields, isOtherManager)[fieldWeight]
}

// isOtherManager selects what anybody else wrote.
func isOtherManager(e metav1.ManagedFieldsEntry) bool { return e.Manager != v1alpha1.FieldManager }

// isOwnApply selects what the operator itself applied. An entry of the same
// manager with operation Update holds what admission webhooks added.
func isOwnApply(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == v1alpha1.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// managersByField maps every leaf field of the chosen entries to its manager.
func managersByField(entries []metav1.ManagedFieldsEntry, choose func(metav1.ManagedFieldsEntry) bool) map[string]string {
	out := map[string]string{}
	for _, entry := range entries {
		if entry.FieldsV1 == nil || !choose(entry) {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			continue // the API server wrote it; an entry nobody can read owns nothing
		}
		set.Leaves().Iterate(func(path fieldpath.Path) { out[path.String()] = entry.Manager })
	}
	return out
}

// HasOwnedFields tells whether the operator owns anything of the Queue.
func HasOwnedFields(live *v1beta1.Queue) bool {
	return slices.ContainsFunc(live.ManagedFields, isOwnApply)
}

// CreatedByOperator tells whether the operator made the Queue. The annotation alone does
// not say so: it may have been copied or written by hand, or have stayed on a
// Queue that was given up since.
func CreatedByOperator(live *v1beta1.Queue) bool {
	_, ours := managersByField(live.ManagedFields, isOwnApply)[annotationField(v1alpha1.AnnotationCreatedBy)]
	return ours && live.Annotations[v1alpha1.AnnotationCreatedBy] != ""
}

// HasManagedByLabel tells whether the operator wrote the label of who manages the Queue.
func HasManagedByLabel(live *v1beta1.Queue) bool {
	_, ours := managersByField(live.ManagedFields, isOwnApply)[labelField(LabelManagedBy)]
	return ours && live.Labels[LabelManagedBy] == v1alpha1.FieldManager
}

// ManagedFieldsWithoutOperator returns the managed fields without the operator's, for a Queue that
// shall keep its values and belong to nobody. An empty result would be ignored
// by the API server; a single empty entry is how it is told to forget all.
func ManagedFieldsWithoutOperator(live *v1beta1.Queue) []metav1.ManagedFieldsEntry {
	rest := slices.DeleteFunc(slices.Clone(live.ManagedFields), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldManager && e.Subresource == ""
	})
	if len(rest) == 0 {
		return []metav1.ManagedFieldsEntry{{}}
	}
	return rest
}

// FieldConflict is a field that the operator wants and somebody else wrote.
type FieldConflict struct {
	// Manager is the field manager, such as kubectl-edit; "" when whoever it was
	// left no trace, as after removing the field.
	Manager string
	// Field is the path as the API server writes it.
	Field string
}

// managerPattern finds the manager in the message of a conflict's cause, such as
// `conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1`.
var managerPattern = regexp.MustCompile(`conflict with "([^"]*)"`)

// FieldConflicts reads the field conflicts of a refused apply; it is empty for any
// other error, and does not hold conflicts with the operator itself, whose
// name stands on what admission webhooks added to its own requests.
func FieldConflicts(err error) []FieldConflict {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []FieldConflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		conflict := FieldConflict{Field: cause.Field}
		if found := managerPattern.FindStringSubmatch(cause.Message); found != nil {
			conflict.Manager = found[1]
		}
		if conflict.Manager != v1alpha1.FieldManager {
			out = append(out, conflict)
		}
	}
	return out
}

// IsFieldConflict tells whether an apply was refused because of field conflicts.
func IsFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// DescribeConflicts names who wrote what, in one clause: "kubectl-edit wrote
// spec.priority, volcano.sh/card.quota; somebody removed spec.capability.cpu".
func DescribeConflicts(conflicts []FieldConflict) string {
	written := map[string][]string{}
	for _, c := range conflicts {
		written[c.Manager] = append(written[c.Manager], displayedField(c.Field))
	}
	clauses := make([]string, 0, len(written))
	for _, manager := range slices.Sorted(maps.Keys(written)) {
		who := manager + " wrote "
		if manager == "" {
			who = "somebody changed or removed "
		}
		slices.Sort(written[manager])
		clauses = append(clauses, who+strings.Join(written[manager], ", "))
	}
	return strings.Join(clauses, "; ")
}

// displayedField writes a field as people call it: an annotation by its key,
// anything else by its path.
func displayedField(field string) string {
	if key, ok := strings.CutPrefix(field, annotationField("")); ok {
		return key
	}
	return strings.TrimPrefix(field, ".")
}
