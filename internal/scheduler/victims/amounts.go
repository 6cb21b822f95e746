package victims

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// Amounts are quantities by name: resources of a node in Volcano's units, and cards, CPU and
// memory of a quota.
type Amounts map[string]float64

// The names of what a quota can lack.
const (
	QuotaCards  = "quota of cards"
	QuotaCPU    = "quota of CPU"
	QuotaMemory = "quota of memory"
)

// UnreclaimableQuota names the part of a quota that is used by pods from which others cannot reclaim.
func UnreclaimableQuota(of string) string { return of + " that cannot be reclaimed" }

// quotaOf returns the name under which Amounts have the quota of a resource. All cards have the same one, because a pod
// needs cards of one name only.
func quotaOf(resource quota.Resource) string {
	switch resource {
	case quota.CPU:
		return QuotaCPU
	case quota.Memory:
		return QuotaMemory
	}
	return QuotaCards
}

// MissingResources returns what a node lacks for a request, empty if it fits. futureIdle is what the node has free, and
// what terminating pods will release.
func MissingResources(request, futureIdle *api.Resource) Amounts {
	idle := resourceAmounts(futureIdle)
	missing := Amounts{}
	for what, requested := range resourceAmounts(request) {
		if shortfall := requested - idle[what]; requested > 0 && shortfall > solver.Tolerance {
			missing[what] = shortfall
		}
	}
	return missing
}

// resourceAmounts returns resources by name, without those that Volcano does not count on nodes.
func resourceAmounts(r *api.Resource) Amounts {
	list := make(Amounts, 2+len(r.ScalarResources))
	list["cpu"] = r.MilliCPU
	list["memory"] = r.Memory
	for name, quantity := range r.ScalarResources {
		if !api.IsIgnoredScalarResource(name) {
			list[string(name)] = quantity
		}
	}
	return list
}

// irreducibleSubset selects candidates of which none can be left out, by their index in released: the first that release
// what is missing, without those that the others make unnecessary. It selects none if all together do not
// suffice, or nothing is missing.
func irreducibleSubset(missing Amounts, released []Amounts) []int {
	var picked []int
	remaining := maps.Clone(missing)
	for i, amounts := range released {
		if remaining.IsZero() {
			break
		}
		if remaining.isReducedBy(amounts) {
			picked = append(picked, i)
			remaining.add(amounts, -1)
		}
	}

	if !remaining.IsZero() {
		return nil
	}

	// Candidates come in the order of eviction, so the last ones are spared first.
	for i := len(picked) - 1; i >= 0; i-- {
		if without := maps.Clone(remaining).add(released[picked[i]], 1); without.IsZero() {
			remaining = without
			picked = append(picked[:i], picked[i+1:]...)
		}
	}

	return picked
}

// IsZero reports whether no amount is left, within the tolerance of the solver.
func (a Amounts) IsZero() bool {
	for _, n := range a {
		if n > solver.Tolerance {
			return false
		}
	}
	return true
}

// isReducedBy reports whether other amounts have some of anything that is left.
func (a Amounts) isReducedBy(other Amounts) bool {
	for what, n := range a {
		if n > solver.Tolerance && other[what] > 0 {
			return true
		}
	}
	return false
}

// add adds other amounts, multiplied by times, for the names that a has. It changes a and returns it.
func (a Amounts) add(other Amounts, times float64) Amounts {
	for what := range a {
		a[what] += times * other[what]
	}
	return a
}
