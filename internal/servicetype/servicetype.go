// Package servicetype defines service types: which may reclaim from which, their built-in
// priorities, and how a pod gets its type and its priority.
package servicetype

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// IsName reports whether a text can be the name of a service type: a DNS label, as the API's schema
// demands. Users can write any text on a Queue.
func IsName(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }

// None is the service type that status and metrics show for queues without one, and for pods outside
// any queue.
const None = "none"

// DisplayName returns the name under which status and metrics show the service type of a queue: None
// for one that no ServiceTypePolicy can define. What a pod states is never shown, because any tenant
// can write it.
func DisplayName(ofQueue string) string {
	if !IsName(ofQueue) {
		return None
	}
	return ofQueue
}

// Rule is what a service type may reclaim, and whether others may reclaim from it.
type Rule struct {
	// Reclaimable reports whether other types may reclaim from this one.
	Reclaimable bool
	// ReclaimFrom are the types that this one reclaims from.
	ReclaimFrom []string
	// MinimumRuntime is how long a job of this type runs before other types may reclaim from
	// it.
	MinimumRuntime time.Duration
}

// MaxMinimumRuntime bounds Rule.MinimumRuntime: a type that is protected for longer than a week
// should not be reclaimable.
const MaxMinimumRuntime = 7 * 24 * time.Hour

// Matrix says which service types may reclaim from which. A type without an entry neither
// reclaims nor is reclaimed from.
type Matrix map[string]Rule

// DefaultMatrix returns the matrix without a policy: inference reclaims from training.
func DefaultMatrix() Matrix {
	return Matrix{
		Inference: {ReclaimFrom: []string{Training}},
		Training:  {Reclaimable: true},
	}
}

// CanReclaim reports whether a workload of one type may reclaim from a workload of another.
func (m Matrix) CanReclaim(by, from string) bool {
	return slices.Contains(m[by].ReclaimFrom, from) && m[from].Reclaimable
}

// Reclaims reports whether a type reclaims from any other.
func (m Matrix) Reclaims(name string) bool { return len(m[name].ReclaimFrom) > 0 }

// Validate refuses a type that reclaims from itself, twice from another, or from a type that is not defined
// or not reclaimable. It refuses names and minimum runtimes that are not allowed. It refuses cycles as well,
// in which workloads would evict each other for ever. It returns all errors joined.
func (m Matrix) Validate() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := ValidateName(name); err != nil {
			faults = append(faults, err)
		}
		if runtime := m[name].MinimumRuntime; runtime < 0 || runtime > MaxMinimumRuntime {
			faults = append(faults, fmt.Errorf("type %.80q has a minimum runtime of %s: write 0s to %s", name, runtime, MaxMinimumRuntime))
		}

		seen := map[string]bool{}
		for _, from := range m[name].ReclaimFrom {
			rule, defined := m[from]
			switch {
			case seen[from]:
				faults = append(faults, fmt.Errorf("type %.80q takes from %.80q twice: remove one", name, from))
			case from == name:
				faults = append(faults, fmt.Errorf("type %.80q takes from itself: a workload would displace its own kind for ever", name))
			case !defined:
				faults = append(faults, fmt.Errorf("type %.80q takes from %.80q, which is not defined: define it or remove it", name, from))
			case !rule.Reclaimable:
				faults = append(faults, fmt.Errorf("type %.80q takes from %.80q, which is not reclaimable: make it reclaimable or remove it", name, from))
			}

			seen[from] = true
		}
	}

	// A cycle through a wrong entry would be reported twice, so look for it once all entries are
	// right.
	if len(faults) == 0 {
		if circle := m.findCycle(); circle != "" {
			faults = append(faults, fmt.Errorf("types take from each other in a circle: %.300s", circle))
		}
	}

	return errors.Join(faults...)
}

// findCycle names a chain of types that ends where it starts, "" if there is none. It visits what a type
// reclaims from, depth first, and no type twice that leads to no cycle.
func (m Matrix) findCycle() string {
	done := map[string]bool{} // types that lead to no cycle
	// visit returns a cycle to which a type leads. path has the types from which it was reached.
	var visit func(name string, path []string) string
	visit = func(name string, path []string) string {
		if i := slices.Index(path, name); i >= 0 {
			return strings.Join(append(path[i:], name), " from ")
		}

		if done[name] {
			return ""
		}

		for _, from := range m[name].ReclaimFrom {
			if found := visit(from, append(slices.Clip(path), name)); found != "" {
				return found
			}
		}

		done[name] = true
		return ""
	}

	for _, name := range slices.Sorted(maps.Keys(m)) {
		if found := visit(name, nil); found != "" {
			return found
		}
	}

	return ""
}

// The built-in service types.
const (
	Inference = "inference"
	Training  = "training"
)

// Type is what a service type means for its queues.
type Type struct {
	// Priority is the Queue's spec.priority; the queue with the higher one comes first.
	Priority int32
	// Reclaimable reports whether other queues may reclaim from it.
	Reclaimable bool
}

var builtIn = map[string]Type{
	Inference: {Priority: 80000, Reclaimable: false},
	Training:  {Priority: 20000, Reclaimable: true},
}

// BuiltIn returns a built-in service type. It is false for any other name: such a queue keeps
// its priority.
func BuiltIn(name string) (Type, bool) {
	meaning, ok := builtIn[name]
	return meaning, ok
}

// OwnerKinds maps the kind of a pod's owner to the service type of workloads that name none. A
// key is a kind, "Job", for every API group, or a kind with its group, "Job.batch.volcano.sh",
// which wins over the kind alone.
//
// A ReplicaSet owns the pods of a Deployment; a key Deployment means such pods and wins over
// ReplicaSet.
type OwnerKinds map[string]string

// kindPattern is a kind with or without its API group.
var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}(\.[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$`)

// ValidateName refuses an invalid name of a service type.
func ValidateName(name string) error {
	if !IsName(name) {
		return fmt.Errorf("service type %.80q is no name: write lower-case letters, digits and dashes, at most 63", name)
	}
	return nil
}

// Validate refuses invalid kinds and service types. It returns all errors joined.
func (o OwnerKinds) Validate() error {
	var faults []error
	for _, kind := range slices.Sorted(maps.Keys(o)) {
		if !kindPattern.MatchString(kind) {
			faults = append(faults, fmt.Errorf("%.80q is no kind: write for example Job or Job.batch.volcano.sh", kind))
		}
		if err := ValidateName(o[kind]); err != nil {
			faults = append(faults, fmt.Errorf("kind %.80q: %w", kind, err))
		}
	}
	return errors.Join(faults...)
}

// TypeFor returns the service type for the kind of the pod's controller, "" when there is none.
func (o OwnerKinds) TypeFor(pod *corev1.Pod) string {
	if len(o) == 0 {
		return ""
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}

	// A Job of Kubernetes and one of Volcano have the same kind, so the group counts too.
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
	kinds := []string{owner.Kind}
	if _, ofDeployment := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; ofDeployment && owner.Kind == "ReplicaSet" && group == "apps" {
		kinds = []string{"Deployment", "ReplicaSet"}
	}

	// An entry with the group is more exact than one without. The core group has no name.
	for _, kind := range kinds {
		if name, ok := o[strings.TrimSuffix(kind+"."+group, ".")]; ok {
			return name
		}
		if name, ok := o[kind]; ok {
			return name
		}
	}

	return ""
}

// MaxPriority is the largest value of a PriorityClass that does not belong to
// Kubernetes (schedulingv1.HighestUserDefinablePriority).
const MaxPriority = 1_000_000_000

// PriorityClasses are the PriorityClasses whose priority counts between queues. A tenant may
// have the right to create a class, and must not protect its jobs from other queues with it.
type PriorityClasses struct {
	// Values are the priorities by name of the class. A class in the cluster with the same name
	// and another value does not change them.
	Values map[string]int32
	// Lowest is the lowest value, 0 without any.
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

// DefaultPriorityClasses returns the classes of the installation.
func DefaultPriorityClasses() PriorityClasses {
	return NewPriorityClasses(map[string]int32{"pc-high": 80000, "pc-medium": 60000, "pc-normal": 40000, "pc-low": 20000})
}

// Priority returns the priority between queues of a pod or PodGroup with this class. Any other
// class, and none, have the lowest listed value.
func (c PriorityClasses) Priority(class string) int32 {
	if value, listed := c.Values[class]; listed {
		return value
	}
	return c.Lowest
}

// JobPriority returns the priority between queues of a job. group is the class of its PodGroup,
// highestPod the highest priority of its pods, and the lower one counts: a ResourceQuota limits
// the classes of pods, but not of PodGroups. A PodGroup without a class has the priority of its
// pods.
func (c PriorityClasses) JobPriority(group string, highestPod int32) int32 {
	if group == "" {
		return highestPod
	}
	return min(c.Priority(group), highestPod)
}

// Validate refuses invalid names, and values above MaxPriority. It returns all errors joined.
func (c PriorityClasses) Validate() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			faults = append(faults, fmt.Errorf("%.80q is no name of a PriorityClass: write for example pc-high", name))
		}
		if value := c.Values[name]; value > MaxPriority {
			faults = append(faults, fmt.Errorf("PriorityClass %.80q has value %d: write at most %d", name, value, MaxPriority))
		}
	}
	return errors.Join(faults...)
}
