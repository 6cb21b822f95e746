package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
)

// Validate returns everything that is wrong with an effective spec, nil when it
// may be put into force. Rules of the API's schema are checked again where the
// scheduler would refuse the whole configuration because of them.
func Validate(effective v1alpha1.ServiceTypePolicySpec) field.ErrorList {
	spec := field.NewPath("spec")
	types := map[string]v1alpha1.ServiceType{}
	for _, t := range effective.ServiceTypes {
		types[t.Name] = t
	}
	errs := each(spec.Child("serviceTypes"), matrix(effective).Validate())
	for _, t := range effective.ServiceTypes {
		errs = append(errs, validateType(spec.Child("serviceTypes").Key(t.Name), t, types)...)
	}
	errs = append(errs, validateOwners(spec.Child("owners"), effective.Owners, types)...)
	classes := map[string]int32{}
	for _, class := range effective.PriorityClasses {
		classes[class.Name] = class.Value
	}
	errs = append(errs, each(spec.Child("priorityClasses"), servicetype.NewPriorityClasses(classes).Validate())...)
	errs = append(errs, within(spec.Child("overCommitPercent"), effective.OverCommitPercent, 100, 10000)...)
	return append(errs, within(spec.Child("nodeOrderWeightPercent"), effective.NodeOrderWeightPercent, 1, 100000)...)
}

// validateType returns what is wrong with one type that the matrix does not see.
func validateType(path *field.Path, t v1alpha1.ServiceType, types map[string]v1alpha1.ServiceType) field.ErrorList {
	var errs field.ErrorList
	for _, name := range t.ReclaimFrom {
		if giver, defined := types[name]; defined && name != t.Name && giver.Priority >= t.Priority {
			errs = append(errs, field.Invalid(path.Child("reclaimFrom"), name, fmt.Sprintf(
				"type %q (priority %d) takes from %q (priority %d): cards are taken back only from queues of lower priority, so give %q more than %d or %q less than %d",
				t.Name, t.Priority, name, giver.Priority, t.Name, giver.Priority, name, t.Priority)))
		}
	}
	return append(errs, within(path.Child("minimumRuntimeSeconds"), t.MinimumRuntimeSeconds, 0, int32(servicetype.LongestMinimumRuntime.Seconds()))...)
}

func validateOwners(path *field.Path, kinds []v1alpha1.OwnerKind, types map[string]v1alpha1.ServiceType) field.ErrorList {
	var errs field.ErrorList
	owners := servicetype.Owners{}
	for _, o := range kinds {
		if _, defined := types[o.ServiceType]; !defined {
			errs = append(errs, field.Invalid(path.Key(o.Kind).Child("serviceType"), o.ServiceType, "is not defined: define it in serviceTypes or remove the owner kind"))
		}
		owners[o.Kind] = o.ServiceType
	}
	return append(errs, each(path, owners.Validate())...)
}

// within requires a number from least to most.
func within(path *field.Path, value, least, most int32) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be from %d to %d", least, most))}
}

// each takes joined errors apart.
func each(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	var errs field.ErrorList
	for _, text := range strings.Split(err.Error(), "\n") {
		errs = append(errs, field.Forbidden(path, text))
	}
	return errs
}

// matrix is who takes cards back from whom by an effective spec.
func matrix(spec v1alpha1.ServiceTypePolicySpec) servicetype.Matrix {
	out := make(servicetype.Matrix, len(spec.ServiceTypes))
	for _, t := range spec.ServiceTypes {
		out[t.Name] = servicetype.Rule{Reclaimable: t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded, ReclaimFrom: t.ReclaimFrom}
	}
	return out
}
