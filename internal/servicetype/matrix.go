// Package servicetype knows the service types that need no policy: what a
// queue of inference or training is worth to the scheduler.
package servicetype

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rule is what a service type may take and whether others may take from it.
type Rule struct {
	// Reclaimable tells whether cards may be taken back from this type at all.
	Reclaimable bool
	// ReclaimFrom are the types that this one takes cards back from.
	ReclaimFrom []string
	// MinimumRuntime is how long a job of this type runs before cards are taken
	// back from it.
	MinimumRuntime time.Duration
}

// LongestMinimumRuntime bounds Rule.MinimumRuntime: what nobody may take back
// for longer than a week should not be reclaimable.
const LongestMinimumRuntime = 7 * 24 * time.Hour

// Matrix says which service types may take cards back from which. A type that
// it does not name neither takes nor is taken from.
type Matrix map[string]Rule

// DefaultMatrix is the matrix of the tide: inference takes from training, and
// nobody else takes from anybody.
func DefaultMatrix() Matrix {
	return Matrix{
		Inference: {ReclaimFrom: []string{Training}},
		Training:  {Reclaimable: true},
	}
}

// MayReclaim tells whether a workload of one type may take cards back from a
// workload of another.
func (m Matrix) MayReclaim(by, from string) bool {
	return slices.Contains(m[by].ReclaimFrom, from) && m[from].Reclaimable
}

// Takes tells whether a type takes cards back from any other.
func (m Matrix) Takes(name string) bool { return len(m[name].ReclaimFrom) > 0 }

// Validate refuses a matrix that contradicts itself: a type that takes from
// itself, from a type that is not defined or not reclaimable, or types that
// take from each other in a circle, which would let two workloads displace one
// another for ever. It returns all faults joined.
func (m Matrix) Validate() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := ValidateName(name); err != nil {
			faults = append(faults, err)
		}
		if runtime := m[name].MinimumRuntime; runtime < 0 || runtime > LongestMinimumRuntime {
			faults = append(faults, fmt.Errorf("type %.80q has a minimum runtime of %s: write 0s to %s", name, runtime, LongestMinimumRuntime))
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
	if len(faults) == 0 {
		if circle := m.circle(); circle != "" {
			faults = append(faults, fmt.Errorf("types take from each other in a circle: %.300s", circle))
		}
	}
	return errors.Join(faults...)
}

// circle names a chain of types that ends where it begins, "" if there is none.
func (m Matrix) circle() string {
	done := map[string]bool{}
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
	// Priority is the Queue's spec.priority; of two queues the higher one is
	// served first.
	Priority int32
	// Reclaimable tells whether other queues may take cards back from it.
	Reclaimable bool
}

// BuiltIn returns the meaning of a service type. It is false for a name that
// has no built-in meaning: such a queue keeps the priority it has.
func BuiltIn(name string) (Type, bool) {
	switch name {
	case Inference:
		return Type{Priority: 80000, Reclaimable: false}, true
	case Training:
		return Type{Priority: 20000, Reclaimable: true}, true
	default:
		return Type{}, false
	}
}
