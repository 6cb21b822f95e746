package policy

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/servicetype"
)

// Validate returns everything that is wrong with an effective spec, nil when it
// may be put into force. Rules of the API's schema are checked again where the
// scheduler would refuse the whole configuration because of them.
func Validate(spec v1alpha1.ServiceTypePolicySpec) []string {
	types := map[string]v1alpha1.ServiceType{}
	var faults []string
	for _, t := range spec.ServiceTypes {
		if _, twice := types[t.Name]; twice {
			faults = append(faults, fmt.Sprintf("type %q is defined twice: remove one", t.Name))
		}
		types[t.Name] = t
	}
	faults = append(faults, each(matrix(spec).Validate())...)
	for _, t := range spec.ServiceTypes {
		faults = append(faults, typeFaults(t, types)...)
	}
	faults = append(faults, ownerFaults(spec.Owners, types)...)
	faults = append(faults, classFaults(spec.PriorityClasses)...)
	if p := spec.OverCommitPercent; p < 100 || p > 10000 {
		faults = append(faults, fmt.Sprintf("overCommitPercent %d must be from 100 to 10000", p))
	}
	if w := spec.NodeOrderWeight; w < 1 || w > 1000 {
		faults = append(faults, fmt.Sprintf("nodeOrderWeight %d must be from 1 to 1000", w))
	}
	return faults
}

// typeFaults are those of one type that the matrix does not see.
func typeFaults(t v1alpha1.ServiceType, types map[string]v1alpha1.ServiceType) []string {
	var faults []string
	for _, name := range t.ReclaimFrom {
		if giver, defined := types[name]; defined && name != t.Name && giver.Priority >= t.Priority {
			faults = append(faults, fmt.Sprintf(
				"type %q (priority %d) takes from %q (priority %d): cards are taken back only from queues of lower priority, so give %q more than %d or %q less than %d",
				t.Name, t.Priority, name, giver.Priority, t.Name, giver.Priority, name, t.Priority))
		}
	}
	if longest := int32(servicetype.LongestMinimumRuntime.Seconds()); t.MinimumRuntimeSeconds < 0 || t.MinimumRuntimeSeconds > longest {
		faults = append(faults, fmt.Sprintf("type %q: minimumRuntimeSeconds %d must be from 1 to %d, or unset", t.Name, t.MinimumRuntimeSeconds, longest))
	}
	return faults
}

func ownerFaults(kinds []v1alpha1.OwnerKind, types map[string]v1alpha1.ServiceType) []string {
	var faults []string
	owners := servicetype.Owners{}
	for _, o := range kinds {
		if _, defined := types[o.ServiceType]; !defined {
			faults = append(faults, fmt.Sprintf("owner kind %q stands for type %q, which is not defined: define it in serviceTypes or remove the owner kind",
				o.Kind, o.ServiceType))
		}
		owners[o.Kind] = o.ServiceType
	}
	return append(faults, each(owners.Validate())...)
}

// classFaults are those of the list of PriorityClasses.
func classFaults(listed []v1alpha1.PriorityClass) []string {
	var faults []string
	values := map[string]int32{}
	for _, class := range listed {
		if _, twice := values[class.Name]; twice {
			faults = append(faults, fmt.Sprintf("PriorityClass %q is listed twice: remove one", class.Name))
		}
		values[class.Name] = class.Value
	}
	return append(faults, each(servicetype.NewPriorityClasses(values).Validate())...)
}

// each takes joined errors apart.
func each(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// matrix is who takes cards back from whom by an effective spec.
func matrix(spec v1alpha1.ServiceTypePolicySpec) servicetype.Matrix {
	out := make(servicetype.Matrix, len(spec.ServiceTypes))
	for _, t := range spec.ServiceTypes {
		out[t.Name] = servicetype.Rule{Reclaimable: t.ReclaimPolicy == v1alpha1.ReclaimWhenNeeded, ReclaimFrom: t.ReclaimFrom}
	}
	return out
}
