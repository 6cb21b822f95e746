package servicetype

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/internal/clip"
)

// VictimOrder says what decides which jobs of other queues give cards back.
type VictimOrder string

// The victim orders.
const (
	// VictimsByPriority takes cards from the lowest priority that suffices. Loss
	// decides between victims of one priority.
	VictimsByPriority VictimOrder = "Priority"
	// VictimsByLoss takes cards from those who lose least. Priority decides between
	// victims who lose the same.
	VictimsByLoss VictimOrder = "Loss"
)

// HighestPriority is the largest value of a PriorityClass that does not belong to
// Kubernetes (schedulingv1.HighestUserDefinablePriority).
const HighestPriority = 1_000_000_000

// PriorityClasses are the PriorityClasses whose priority counts between queues.
// In a cluster of several tenants a tenant may have the right to create a class:
// it must not protect the tenant's jobs from other queues.
type PriorityClasses struct {
	// Values are the priorities by name of the class, as listed: an existing class
	// of the same name and another value does not change them.
	Values map[string]int32
	// Lowest is the least of the values, 0 without any.
	Lowest int32
}

// NewPriorityClasses returns the classes with the given values.
func NewPriorityClasses(values map[string]int32) PriorityClasses {
	classes := PriorityClasses{Values: values}
	if len(values) > 0 {
		classes.Lowest = slices.Min(slices.Collect(maps.Values(values)))
	}
	return classes
}

// DefaultPriorityClasses are the classes that come with the installation.
func DefaultPriorityClasses() PriorityClasses {
	return NewPriorityClasses(map[string]int32{"pc-high": 80000, "pc-medium": 60000, "pc-normal": 40000, "pc-low": 20000})
}

// Priority returns the priority between queues of a pod or PodGroup that names
// the class: the listed value, and the lowest listed value for any other class and
// for none.
func (c PriorityClasses) Priority(class string) int32 {
	if value, listed := c.Values[class]; listed {
		return value
	}
	return c.Lowest
}

// JobPriority returns the priority between queues of a job whose PodGroup names
// the class group, and whose pods have at most the priority highestPod. The
// smaller one counts: a ResourceQuota limits which classes the pods of a namespace
// may name, and nothing limits what a PodGroup names. A PodGroup that names no
// class has the priority of its pods.
func (c PriorityClasses) JobPriority(group string, highestPod int32) int32 {
	if group == "" {
		return highestPod
	}
	return min(c.Priority(group), highestPod)
}

// Validate refuses names that no PriorityClass can have, and values above
// HighestPriority. It returns all faults joined.
func (c PriorityClasses) Validate() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			faults = append(faults, fmt.Errorf("%q is no name of a PriorityClass: write for example pc-high", clip.Text(name, shown)))
		}
		if value := c.Values[name]; value > HighestPriority {
			faults = append(faults, fmt.Errorf("PriorityClass %q has value %d: write at most %d", clip.Text(name, shown), value, HighestPriority))
		}
	}
	return errors.Join(faults...)
}
