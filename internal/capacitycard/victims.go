package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
)

// amounts are quantities by what they are of: resources of a node in Volcano's
// units, and cards, CPU and memory of a queue's quota.
type amounts map[string]float64

// What of a queue's quota may be short.
const (
	quotaCards  = "quota of cards"
	quotaCPU    = "quota of CPU"
	quotaMemory = "quota of memory"
)

// tolerance is how much Volcano lets a request exceed what is idle
// (pkg/scheduler/api, minResource).
const tolerance = 0.1

// lacking is what a node has too little of for a request, counting what is
// being released on it; empty when the request fits.
func lacking(request, futureIdle *api.Resource) amounts {
	idle, lacks := resources(futureIdle), amounts{}
	for what, asked := range resources(request) {
		if short := asked - idle[what]; asked > 0 && short > tolerance {
			lacks[what] = short
		}
	}
	return lacks
}

// resources lists what is counted on a node.
func resources(r *api.Resource) amounts {
	list := make(amounts, 2+len(r.ScalarResources))
	list["cpu"], list["memory"] = r.MilliCPU, r.Memory
	for name, quantity := range r.ScalarResources {
		if !api.IsIgnoredScalarResource(name) {
			list[string(name)] = quantity
		}
	}
	return list
}

// lackQuota adds what a queue has too little of.
func (a amounts) lackQuota(all []quota.Shortage) {
	for _, short := range all {
		if short.Kind == quota.Ending {
			continue // evictions are no help
		}
		what := map[quota.Kind]string{quota.Cards: quotaCards, quota.CPU: quotaCPU, quota.Memory: quotaMemory}[short.Kind]
		a[what] = float64(short.Total - short.Limit)
	}
}

// irreducible picks as few of the candidates as are needed, in their order:
// the first that help, and then without any whose place the others fill. It
// picks none when all together are not enough: nobody is evicted for a pod that
// could not run afterwards either.
func irreducible(lacks amounts, gives []amounts) []int {
	var picked []int
	left := lacks.clone()
	for i, give := range gives {
		if left.none() {
			break
		}
		if left.reducedBy(give) {
			picked = append(picked, i)
			left.subtract(give)
		}
	}
	if !left.none() {
		return nil
	}
	for i := len(picked) - 1; i >= 0; i-- {
		if without := left.clone(); without.add(gives[picked[i]]).none() {
			left = without
			picked = append(picked[:i], picked[i+1:]...)
		}
	}
	return picked
}

func (a amounts) clone() amounts {
	c := make(amounts, len(a))
	for what, n := range a {
		c[what] = n
	}
	return c
}

func (a amounts) none() bool {
	for _, n := range a {
		if n > tolerance {
			return false
		}
	}
	return true
}

func (a amounts) reducedBy(give amounts) bool {
	for what, n := range a {
		if n > tolerance && give[what] > 0 {
			return true
		}
	}
	return false
}

func (a amounts) subtract(give amounts) {
	for what := range a {
		a[what] -= give[what]
	}
}

func (a amounts) add(give amounts) amounts {
	for what := range a {
		a[what] += give[what]
	}
	return a
}
