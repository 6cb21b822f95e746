// Package policy contains the rules of a ServiceTypePolicy: its service types and reclaim matrix,
// the scheduler configuration and PriorityClasses that it needs, and its status.
//
// The package is pure: no client, no clock, no logger.
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
)

// DefaultScheduler is the schedulerName of Volcano's installation, for objects without defaults. Volcano's webhook
// writes it into jobs that name no scheduler.
const DefaultScheduler = "volcano"

// defaultConfigMap is the ConfigMap of Volcano's installation.
const defaultConfigMap = "volcano-scheduler-configmap"

// defaultMaxGracePeriodSeconds is the default of maxTerminationGracePeriodSeconds.
const defaultMaxGracePeriodSeconds = 3600

// Effective returns the spec with all defaults, among them the built-in service types that it does not define. It sorts
// service types, owners, cards and reclaimFrom, so that two spellings of one policy are equal.
func Effective(spec v1alpha1.ServiceTypePolicySpec) v1alpha1.ServiceTypePolicySpec {
	out := *spec.DeepCopy()
	for _, defaultType := range defaultServiceTypes() {
		if !slices.ContainsFunc(out.ServiceTypes, func(t v1alpha1.ServiceType) bool { return t.Name == defaultType.Name }) {
			out.ServiceTypes = append(out.ServiceTypes, defaultType)
		}
	}

	for i := range out.ServiceTypes {
		t := &out.ServiceTypes[i]
		t.ReclaimPolicy = cmp.Or(t.ReclaimPolicy, v1alpha1.ReclaimNever)
		slices.Sort(t.ReclaimFrom)
	}

	slices.SortFunc(out.ServiceTypes, func(a, b v1alpha1.ServiceType) int { return cmp.Compare(a.Name, b.Name) })
	out.Cards = sortedCards(out.Cards)
	slices.SortFunc(out.Owners, func(a, b v1alpha1.OwnerKind) int { return cmp.Compare(a.Kind, b.Kind) })

	out.Mode = cmp.Or(out.Mode, v1alpha1.ModeEnforce)

	// Own PriorityClasses replace the default ones as a whole.
	out.PriorityClassPolicy = cmp.Or(out.PriorityClassPolicy, v1alpha1.PriorityClassesManaged)
	switch {
	case out.PriorityClassPolicy == v1alpha1.PriorityClassesNone:
		out.PriorityClasses = nil
	case len(out.PriorityClasses) == 0:
		out.PriorityClasses = defaultPriorityClasses()
	}

	out.ComputeQuota = cmp.Or(out.ComputeQuota, v1alpha1.ComputeQuotaIgnoreForCardPods)
	out.Reclaim = cmp.Or(out.Reclaim, v1alpha1.ReclaimGangs)
	out.Preempt = cmp.Or(out.Preempt, v1alpha1.PreemptOff)
	out.VictimOrder = cmp.Or(out.VictimOrder, v1alpha1.VictimsByPriority)
	out.ReclaimResources = cmp.Or(out.ReclaimResources, v1alpha1.ReclaimResourcesCards)
	out.QueueHierarchy = cmp.Or(out.QueueHierarchy, v1alpha1.QueueHierarchyFlat)
	out.UnmanagedQueues = cmp.Or(out.UnmanagedQueues, v1alpha1.UnmanagedEnforce)
	out.OverCommitPercent = cmp.Or(out.OverCommitPercent, 100)
	out.NodeOrderWeightPercent = cmp.Or(out.NodeOrderWeightPercent, 100)
	ref := &out.Scheduler.BaseConfigMap
	ref.Name = cmp.Or(ref.Name, defaultConfigMap)
	ref.Key = cmp.Or(ref.Key, ConfigMapKey)

	if len(out.Scheduler.Names) == 0 {
		out.Scheduler.Names = []string{DefaultScheduler}
	}

	out.Admission.SchedulerBypassPolicy = cmp.Or(out.Admission.SchedulerBypassPolicy, v1alpha1.SchedulerBypassDeny)
	out.Admission.MaxTerminationGracePeriodSeconds = cmp.Or(out.Admission.MaxTerminationGracePeriodSeconds, defaultMaxGracePeriodSeconds)
	out.Admission.JobEvictionPolicy = cmp.Or(out.Admission.JobEvictionPolicy, v1alpha1.JobUnchanged)
	out.Admission.VCJobEvictionPolicy = cmp.Or(out.Admission.VCJobEvictionPolicy, v1alpha1.VCJobUnchanged)
	return out
}

// EffectivePolicy returns the effective spec of a policy with the status of what is in force. An unset
// queueHierarchy keeps the one in force: a policy that is created again without the field does not end
// the tree.
func EffectivePolicy(inForce *v1alpha1.ServiceTypePolicy) v1alpha1.ServiceTypePolicySpec {
	effective := Effective(inForce.Spec)
	effective.QueueHierarchy = cmp.Or(inForce.Spec.QueueHierarchy, inForce.Status.QueueHierarchy, v1alpha1.QueueHierarchyFlat)
	return effective
}

// defaultServiceTypes returns inference and training as they are without a policy.
func defaultServiceTypes() []v1alpha1.ServiceType {
	var types []v1alpha1.ServiceType
	for name, rule := range servicetype.DefaultMatrix() {
		meaning, _ := servicetype.BuiltIn(name)
		defaultType := v1alpha1.ServiceType{Name: name, Priority: meaning.Priority, ReclaimFrom: rule.ReclaimFrom}
		if rule.Reclaimable {
			defaultType.ReclaimPolicy = v1alpha1.ReclaimWhenNeeded
		}
		types = append(types, defaultType)
	}
	return types
}

// defaultPriorityClasses returns those of the installation, the highest first.
func defaultPriorityClasses() []v1alpha1.PriorityClass {
	var classes []v1alpha1.PriorityClass
	for name, value := range servicetype.DefaultPriorityClasses().Values {
		classes = append(classes, v1alpha1.PriorityClass{Name: name, Value: value})
	}
	slices.SortFunc(classes, func(a, b v1alpha1.PriorityClass) int { return cmp.Compare(b.Value, a.Value) })
	return classes
}

// ServiceTypes returns the service types in force: those in the status of the policy, which an
// invalid spec does not change. Without a policy, or before the first one took effect, the
// built-in types apply.
func ServiceTypes(policy *v1alpha1.ServiceTypePolicy) func(name string) (servicetype.Type, bool) {
	types := effectiveTypes(policy)
	return func(name string) (servicetype.Type, bool) {
		meaning, ok := types[name]
		return meaning, ok
	}
}

// effectiveTypes returns the service types in force by name, the built-in ones before a policy took effect.
func effectiveTypes(policy *v1alpha1.ServiceTypePolicy) map[string]servicetype.Type {
	types := map[string]servicetype.Type{}
	if policy == nil || !HasTakenEffect(policy) {
		for name := range servicetype.DefaultMatrix() {
			types[name], _ = servicetype.BuiltIn(name)
		}
		return types
	}
	for _, row := range policy.Status.ServiceTypes {
		types[row.Name] = servicetype.Type{Priority: row.Priority, Reclaimable: row.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded}
	}
	return types
}

// PriorityBands returns the bands of the service types in force: the priorities of their queues. It
// is false for a type that is not defined.
func PriorityBands(policy *v1alpha1.ServiceTypePolicy) func(name string) (servicetype.Band, bool) {
	types := effectiveTypes(policy)
	return func(name string) (servicetype.Band, bool) { return servicetype.BandFor(name, types) }
}

// WrittenBands returns the bands of the service types of an effective spec, which may not be in
// force yet.
func WrittenBands(effective v1alpha1.ServiceTypePolicySpec) func(name string) (servicetype.Band, bool) {
	types := map[string]servicetype.Type{}
	for _, t := range effective.ServiceTypes {
		types[t.Name] = servicetype.Type{Priority: t.Priority, Reclaimable: t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded}
	}
	return func(name string) (servicetype.Band, bool) { return servicetype.BandFor(name, types) }
}

// ServiceTypeNames returns the service types of a policy, sorted: those in force and those of
// its spec.
func ServiceTypeNames(policy *v1alpha1.ServiceTypePolicy) []string {
	known := slices.Collect(maps.Keys(effectiveTypes(policy)))
	for _, t := range Effective(policy.Spec).ServiceTypes {
		known = append(known, t.Name)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// UnmanagedQueues returns what Queues without card.quota may use.
func UnmanagedQueues(policy *v1alpha1.ServiceTypePolicy) v1alpha1.UnmanagedQueues {
	if policy == nil {
		return v1alpha1.UnmanagedEnforce
	}
	return cmp.Or(policy.Spec.UnmanagedQueues, v1alpha1.UnmanagedEnforce)
}

// IsTree reports whether the queues of the policy in force form a tree. Like the service types, it is read from the
// status, which an invalid spec does not change. A policy may be nil.
func IsTree(policy *v1alpha1.ServiceTypePolicy) bool {
	return policy != nil && policy.Status.QueueHierarchy == v1alpha1.QueueHierarchyTree
}

// SameServiceTypes reports whether the service types in force of two policies mean the same for queues: their
// names, priorities, and whether they are reclaimable. A policy may be nil.
func SameServiceTypes(a, b *v1alpha1.ServiceTypePolicy) bool {
	return maps.Equal(effectiveTypes(a), effectiveTypes(b))
}

// Validate returns all errors of an effective spec. It repeats rules of the API's schema for which the
// scheduler would refuse the whole configuration: an object stored under an earlier schema may break them.
func Validate(effective v1alpha1.ServiceTypePolicySpec) field.ErrorList {
	spec := field.NewPath("spec")
	types := map[string]v1alpha1.ServiceType{}
	for _, t := range effective.ServiceTypes {
		types[t.Name] = t
	}

	errs := fieldErrors(spec.Child("serviceTypes"), reclaimMatrix(effective).Validate())
	for _, t := range effective.ServiceTypes {
		errs = append(errs, validateType(spec.Child("serviceTypes").Key(t.Name), t, types)...)
	}

	errs = append(errs, validateOwners(spec.Child("owners"), effective.Owners, types)...)
	if _, err := BillingTimeZone(effective); err != nil {
		errs = append(errs, field.Invalid(spec.Child("billingTimeZone"), effective.BillingTimeZone, err.Error()))
	}

	errs = append(errs, validateCards(spec.Child("cards"), effective.Cards)...)
	classes := map[string]int32{}
	for _, class := range effective.PriorityClasses {
		classes[class.Name] = class.Value
	}

	errs = append(errs, fieldErrors(spec.Child("priorityClasses"), servicetype.NewPriorityClasses(classes).Validate())...)
	errs = append(errs, validateReclaim(spec.Child("reclaim"), effective)...)
	errs = append(errs, checkRange(spec.Child("overCommitPercent"), effective.OverCommitPercent, 100, 10000)...)
	if effective.MaxReservationMinutes != 0 { // 0 is the scheduler's default
		errs = append(errs, checkRange(spec.Child("maxReservationMinutes"), effective.MaxReservationMinutes, 5, 1440)...)
	}

	return append(errs, checkRange(spec.Child("nodeOrderWeightPercent"), effective.NodeOrderWeightPercent, 1, 100000)...)
}

// validateReclaim refuses Volcano's action reclaim in a tree of queues.
func validateReclaim(path *field.Path, effective v1alpha1.ServiceTypePolicySpec) field.ErrorList {
	if effective.Reclaim != v1alpha1.ReclaimPods || effective.QueueHierarchy != v1alpha1.QueueHierarchyTree {
		return nil
	}
	return field.ErrorList{field.Invalid(path, effective.Reclaim, "cannot be used with queueHierarchy: Tree, because Volcano's action reclaim knows no tree: set reclaim: Gangs, with which cardreclaim takes back by all rules of the tree, or Off")}
}

// validateType returns the errors of one type that the matrix does not find.
func validateType(path *field.Path, t v1alpha1.ServiceType, types map[string]v1alpha1.ServiceType) field.ErrorList {
	var errs field.ErrorList
	for _, name := range t.ReclaimFrom {
		if victimType, defined := types[name]; defined && name != t.Name && victimType.Priority >= t.Priority {
			errs = append(errs, field.Invalid(path.Child("reclaimFrom"), name, fmt.Sprintf(
				"type %q (priority %d) takes from %q (priority %d): cards are taken back only from queues of lower priority, so give %q more than %d or %q less than %d",
				t.Name, t.Priority, name, victimType.Priority, t.Name, victimType.Priority, name, t.Priority)))
		}
	}
	return append(errs, checkRange(path.Child("minimumRuntimeSeconds"), t.MinimumRuntimeSeconds, 0, int32(servicetype.MaxMinimumRuntime.Seconds()))...)
}

// validateOwners returns the errors of the owner kinds.
func validateOwners(path *field.Path, kinds []v1alpha1.OwnerKind, types map[string]v1alpha1.ServiceType) field.ErrorList {
	var errs field.ErrorList
	owners := servicetype.OwnerKinds{}
	for _, o := range kinds {
		if _, defined := types[o.ServiceType]; !defined {
			errs = append(errs, field.Invalid(path.Key(o.Kind).Child("serviceType"), o.ServiceType, "is not defined: define it in serviceTypes or remove the owner kind"))
		}
		owners[o.Kind] = o.ServiceType
	}
	return append(errs, fieldErrors(path, owners.Validate())...)
}

// checkRange requires a number from minimum to maximum.
func checkRange(path *field.Path, value, minimum, maximum int32) field.ErrorList {
	if value >= minimum && value <= maximum {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be from %d to %d", minimum, maximum))}
}

// fieldErrors returns one error at the field for each of some joined errors.
func fieldErrors(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	var errs field.ErrorList
	for _, text := range strings.Split(err.Error(), "\n") {
		errs = append(errs, field.Forbidden(path, text))
	}
	return errs
}

// ReclaimMatrix returns which service types reclaim from which by the policy in force, none if it reclaims nothing.
func ReclaimMatrix(inForce *v1alpha1.ServiceTypePolicy) servicetype.Matrix {
	if inForce == nil {
		return servicetype.DefaultMatrix()
	}
	effective := Effective(inForce.Spec)
	if effective.Reclaim == v1alpha1.ReclaimOff {
		return servicetype.Matrix{}
	}
	return reclaimMatrix(effective)
}

// IgnoresComputeOfCardPods reports whether the policy in force limits no CPU and memory of pods with cards.
func IgnoresComputeOfCardPods(inForce *v1alpha1.ServiceTypePolicy) bool {
	return inForce != nil && Effective(inForce.Spec).ComputeQuota == v1alpha1.ComputeQuotaIgnoreForCardPods
}

// reclaimMatrix returns which service types reclaim from which in an effective spec.
func reclaimMatrix(spec v1alpha1.ServiceTypePolicySpec) servicetype.Matrix {
	out := make(servicetype.Matrix, len(spec.ServiceTypes))
	for _, t := range spec.ServiceTypes {
		out[t.Name] = servicetype.Rule{Reclaimable: t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded, ReclaimFrom: t.ReclaimFrom}
	}
	return out
}
