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

// annotationClosedByParent on a Queue is written by Volcano's queue controller.
const annotationClosedByParent = "volcano.sh/closed-by-parent"

// The paths of fields, as the API server writes them in conflicts.
const (
	fieldParent      = ".spec.parent"
	fieldPriority    = ".spec.priority"
	fieldReclaimable = ".spec.reclaimable"
	fieldWeight      = ".spec.weight"
)

// fieldsThatMayDiffer are the fields whose values may differ although no other manager
// changed the spec of the CardQuota.
var fieldsThatMayDiffer = []string{
	fieldParent, fieldWeight, labelField(LabelManagedBy),
	annotationField(v1alpha1.AnnotationCardAllocated), annotationField(annotationClosedByParent),
}

func annotationField(key string) string { return ".metadata.annotations." + key }
func labelField(key string) string      { return ".metadata.labels." + key }
func capabilityField(key string) string { return ".spec.capability." + key }

// compareFields reports, for every field of an apply configuration, whether the live Queue
// has its value.
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

// InSync reports whether applying the desired Queue would change nothing: every value is in
// place, and the operator owns exactly the desired fields.
func (d DesiredQueue) InSync(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}
	owned := managersByField(live.ManagedFields, isOwnApply)
	fields := compareFields(d.Config, live)
	for field, inPlace := range fields {
		if _, ok := owned[field]; !ok || !inPlace {
			return false
		}
	}
	return len(owned) == len(fields)
}

// DriftedFields returns, sorted, the desired fields with another value on the live Queue.
// Fields that may differ, such as card.allocated, are left out.
func (d DesiredQueue) DriftedFields(live *v1beta1.Queue) []string {
	var drift []string
	for field, inPlace := range compareFields(d.Config, live) {
		if !inPlace && !slices.Contains(fieldsThatMayDiffer, field) {
			drift = append(drift, field)
		}
	}
	slices.Sort(drift)
	return drift
}

// ServiceTypeChanged reports whether the policy changed the service type since the operator
// wrote the live Queue. Then the operator's own priority or reclaimable differs from the
// desired one. Or the operator owns the quota, and no manager owns either field. Writing
// the desired Queue then replaces no other manager's value.
func (d DesiredQueue) ServiceTypeChanged(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}
	fields := compareFields(d.Config, live)
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

// otherWeightManager returns the manager of spec.weight if it is another one and the value
// is not the wanted one.
func otherWeightManager(live *v1beta1.Queue, want int32) string {
	if live == nil || live.Spec.Weight == want {
		return ""
	}
	return managersByField(live.ManagedFields, isOtherManager)[fieldWeight]
}

// isOtherManager reports whether an entry belongs to another manager than the operator.
func isOtherManager(e metav1.ManagedFieldsEntry) bool { return e.Manager != v1alpha1.FieldManager }

// isOwnApply reports whether an entry is what the operator applied. An entry of the
// operator with operation Update holds what admission webhooks added.
func isOwnApply(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == v1alpha1.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// managersByField returns the manager of every leaf field of the chosen entries.
func managersByField(entries []metav1.ManagedFieldsEntry, choose func(metav1.ManagedFieldsEntry) bool) map[string]string {
	out := map[string]string{}
	for _, entry := range entries {
		if entry.FieldsV1 == nil || !choose(entry) {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			continue // the API server wrote it; an unreadable entry owns nothing
		}
		set.Leaves().Iterate(func(path fieldpath.Path) { out[path.String()] = entry.Manager })
	}
	return out
}

// HasOwnedFields reports whether the operator owns any field of the Queue.
func HasOwnedFields(live *v1beta1.Queue) bool {
	return slices.ContainsFunc(live.ManagedFields, isOwnApply)
}

// CreatedByOperator reports whether the operator created the Queue. The annotation alone
// does not prove it: a user may have copied or written it, or the operator has abandoned
// the Queue since.
func CreatedByOperator(live *v1beta1.Queue) bool {
	_, ours := managersByField(live.ManagedFields, isOwnApply)[annotationField(v1alpha1.AnnotationCreatedBy)]
	return ours && live.Annotations[v1alpha1.AnnotationCreatedBy] != ""
}

// HasManagedByLabel reports whether the operator wrote the label LabelManagedBy of the
// Queue.
func HasManagedByLabel(live *v1beta1.Queue) bool {
	_, ours := managersByField(live.ManagedFields, isOwnApply)[labelField(LabelManagedBy)]
	return ours && live.Labels[LabelManagedBy] == v1alpha1.FieldManager
}

// ManagedFieldsWithoutOperator returns the managed fields without the operator's, for a
// Queue that keeps its values without an owner. The API server ignores an empty list; a
// single empty entry makes it drop all managed fields.
func ManagedFieldsWithoutOperator(live *v1beta1.Queue) []metav1.ManagedFieldsEntry {
	rest := slices.DeleteFunc(slices.Clone(live.ManagedFields), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldManager && e.Subresource == ""
	})
	if len(rest) == 0 {
		return []metav1.ManagedFieldsEntry{{}}
	}
	return rest
}

// FieldConflict is a desired field that another manager wrote.
type FieldConflict struct {
	// Manager is the field manager, such as kubectl-edit. It is "" when managedFields does
	// not name one, as after a removal.
	Manager string
	// Field is the path as the API server writes it.
	Field string
}

// managerPattern matches the manager in the message of a conflict's cause, such as
// `conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1`.
var managerPattern = regexp.MustCompile(`conflict with "([^"]*)"`)

// FieldConflicts returns the field conflicts of a refused apply, none for any other error.
// It leaves out conflicts with the operator itself, which manages what admission webhooks
// add to its own requests.
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

// IsFieldConflict reports whether an apply was refused because of field conflicts.
func IsFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// DescribeConflicts returns which manager wrote which fields, such as "kubectl-edit wrote
// spec.priority, volcano.sh/card.quota; another client changed or removed
// spec.capability.cpu".
func DescribeConflicts(conflicts []FieldConflict) string {
	written := map[string][]string{}
	for _, c := range conflicts {
		written[c.Manager] = append(written[c.Manager], displayedField(c.Field))
	}
	clauses := make([]string, 0, len(written))
	for _, manager := range slices.Sorted(maps.Keys(written)) {
		who := manager + " wrote "
		if manager == "" {
			who = "another client changed or removed "
		}
		slices.Sort(written[manager])
		clauses = append(clauses, who+strings.Join(written[manager], ", "))
	}
	return strings.Join(clauses, "; ")
}

// displayedField returns an annotation's key, and the path of any other field.
func displayedField(field string) string {
	if key, ok := strings.CutPrefix(field, annotationField("")); ok {
		return key
	}
	return strings.TrimPrefix(field, ".")
}
