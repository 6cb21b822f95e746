package cardquota

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// annotationClosedByParent on a Queue is written by Volcano's queue controller.
const annotationClosedByParent = "volcano.sh/closed-by-parent"

// The paths of fields, as the API server writes them in conflicts.
const (
	fieldParent      = ".spec.parent"
	fieldPriority    = ".spec.priority"
	fieldReclaimable = ".spec.reclaimable"
	fieldWeight      = ".spec.weight"
	fieldUnlimited   = ".metadata.annotations." + v1alpha1.AnnotationUnlimitedResources
)

// fieldsThatMayDiffer are the fields whose values may differ although no other manager
// changed the spec of the CardQuota.
var fieldsThatMayDiffer = []string{
	fieldParent, fieldWeight, labelField(v1alpha1.LabelManagedBy),
	annotationField(v1alpha1.AnnotationCardAllocated), annotationField(annotationClosedByParent), annotationField(v1alpha1.AnnotationBefore),
}

func annotationField(key string) string { return ".metadata.annotations." + key }
func labelField(key string) string      { return ".metadata.labels." + key }
func capabilityField(key string) string { return ".spec.capability." + key }
func deservedField(key string) string   { return ".spec.deserved." + key }
func guaranteeField(key string) string  { return ".spec.guarantee.resource." + key }

// Volcano's apply configurations have no ExtractQueue (v1.14). It would replace InSync alone: the rules below
// ask which manager owns each field, and a typed Queue does not have a priority of 0 to extract.

// compareFields reports, for every field of an apply configuration, whether the live Queue has its value.
// Other fields have no entry.
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

	compareResources(fields, capabilityField, spec.Capability, live.Spec.Capability)
	compareResources(fields, deservedField, spec.Deserved, live.Spec.Deserved)
	if spec.Guarantee != nil {
		compareResources(fields, guaranteeField, spec.Guarantee.Resource, live.Spec.Guarantee.Resource)
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

// compareResources compares the amounts of one list.
func compareResources(fields map[string]bool, path func(key string) string, want *corev1.ResourceList, live corev1.ResourceList) {
	if want == nil {
		return
	}
	for key, amount := range *want {
		got, ok := live[key]
		fields[path(string(key))] = ok && got.Cmp(amount) == 0
	}
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

// ServiceTypeChanged reports whether the live Queue differs because the policy changed the
// service type, so that writing the desired Queue replaces no other manager's value. Either the
// operator owns priority or reclaimable, with an old value. Or it owns the quota, and no manager
// owns priority and reclaimable.
func (d DesiredQueue) ServiceTypeChanged(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}

	fields := compareFields(d.Config, live)
	ours := managersByField(live.ManagedFields, isOwnApply)
	theirs := managersByField(live.ManagedFields, isOtherManager)

	// A Queue that was written while its service type was unknown lacks both fields. Adding them displaces
	// nothing. lacksBoth is true at first if the operator has written the Queue, which it proves by the
	// quota.
	_, lacksBoth := ours[annotationField(v1alpha1.AnnotationCardQuota)]
	for _, field := range []string{fieldPriority, fieldReclaimable} {
		isInPlace, isDesired := fields[field]
		_, isOurs := ours[field]
		_, isTheirs := theirs[field]
		if isOurs && !isInPlace {
			return true
		}
		lacksBoth = lacksBoth && isDesired && !isOurs && !isTheirs
	}

	return lacksBoth
}

// TreeChanged reports whether the tree changed since the operator wrote the live Queue, so that
// no other manager caused the difference: a field that the operator owns and the tree decides has
// another value or is not desired any more, or no manager owns a desired field that only trees have or that earlier
// versions did not write.
func (d DesiredQueue) TreeChanged(live *v1beta1.Queue) bool {
	if live == nil {
		return false
	}

	fields := compareFields(d.Config, live)
	ours := managersByField(live.ManagedFields, isOwnApply)
	theirs := managersByField(live.ManagedFields, isOtherManager)

	for field := range ours {
		if isInPlace, isDesired := fields[field]; isTreeField(field) && (!isDesired || !isInPlace) {
			return true
		}
	}

	for field := range fields {
		_, isOurs := ours[field]
		_, isTheirs := theirs[field]
		// Earlier versions of the operator did not write what is unlimited. Without own fields the operator never wrote
		// the Queue.
		isNew := isOnlyInTrees(field) || field == fieldUnlimited
		if isNew && !isOurs && !isTheirs && len(ours) > 0 {
			return true
		}
	}

	return false
}

// isTreeField reports whether the tree decides a field of a Queue.
func isTreeField(field string) bool {
	return field == fieldParent || field == annotationField(v1alpha1.AnnotationCardQuota) || field == fieldUnlimited ||
		strings.HasPrefix(field, capabilityField("")) || isOnlyInTrees(field)
}

// isOnlyInTrees reports whether only Queues of a tree carry a field.
func isOnlyInTrees(field string) bool {
	return field == annotationField(v1alpha1.AnnotationCardDeserved) || field == annotationField(v1alpha1.AnnotationCardGuarantee) ||
		field == annotationField(v1alpha1.AnnotationHoldMessage) ||
		strings.HasPrefix(field, deservedField("")) || strings.HasPrefix(field, guaranteeField(""))
}

// OwnsParent reports whether the operator wrote spec.parent of the Queue.
func OwnsParent(live *v1beta1.Queue) bool {
	_, isOurs := managersByField(live.ManagedFields, isOwnApply)[fieldParent]
	return isOurs
}

// IsBelowQueue reports whether the operator placed a Queue below another one than root.
func IsBelowQueue(live *v1beta1.Queue) bool {
	return live.Spec.Parent != "" && live.Spec.Parent != workload.RootQueue && OwnsParent(live)
}

// unknownManager names the manager of a field that managedFields do not name.
const unknownManager = "another client"

// otherParentManager returns the manager that keeps spec.parent at another value than the
// wanted one, "" for none, and if none is wanted. Volcano's queue controller writes root into
// every Queue without a parent, so its value does not count. Nor does a value without an owner,
// if the wanted parent is another queue than root.
func otherParentManager(live *v1beta1.Queue, want string) string {
	if live == nil || want == "" {
		return ""
	}

	hasOtherParent := live.Spec.Parent != "" && live.Spec.Parent != want
	if !hasOtherParent || OwnsParent(live) {
		return ""
	}

	manager := managersByField(live.ManagedFields, isOtherManager)[fieldParent]
	if want != workload.RootQueue && (manager == "" || isQueueController(manager)) {
		return ""
	}
	return cmp.Or(manager, unknownManager)
}

// HasOtherParentManager reports whether another manager keeps the Queue below another parent.
func HasOtherParentManager(live *v1beta1.Queue, want string) bool {
	return otherParentManager(live, want) != ""
}

// isQueueController reports whether a field manager is Volcano's controller manager, whose
// program has a prefix in its image.
func isQueueController(manager string) bool { return strings.HasSuffix(manager, "controller-manager") }

// otherWeightManager returns the other manager that keeps spec.weight at another value than the
// wanted one, "" for none.
func otherWeightManager(live *v1beta1.Queue, want int32) string {
	if live == nil || live.Spec.Weight == want {
		return ""
	}
	return managersByField(live.ManagedFields, isOtherManager)[fieldWeight]
}

// isOtherManager reports whether an entry belongs to another manager than the operator.
func isOtherManager(e metav1.ManagedFieldsEntry) bool { return e.Manager != v1alpha1.FieldManager }

// isOwnApply reports whether an entry is what the operator applied. An entry of the
// operator with operation Update has what admission webhooks added.
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
	return ownAnnotation(live, v1alpha1.AnnotationCreatedBy) != ""
}

// ownAnnotation returns the value of an annotation that the operator owns, "" for none. Users may write one of the same
// key.
func ownAnnotation(live *v1beta1.Queue, key string) string {
	if _, isOurs := managersByField(live.ManagedFields, isOwnApply)[annotationField(key)]; isOurs {
		return live.Annotations[key]
	}
	return ""
}

// HasManagedByLabel reports whether the operator wrote the label LabelManagedBy of the
// Queue.
func HasManagedByLabel(live *v1beta1.Queue) bool {
	_, isOurs := managersByField(live.ManagedFields, isOwnApply)[labelField(v1alpha1.LabelManagedBy)]
	return isOurs && live.Labels[v1alpha1.LabelManagedBy] == v1alpha1.FieldManager
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
