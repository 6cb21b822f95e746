package capacitycard

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// amounts are quantities by name: resources of a node in Volcano's units, and cards, CPU and
// memory of a quota.
type amounts map[string]float64

// The names of what a quota can lack.
const (
	quotaCards  = "quota of cards"
	quotaCPU    = "quota of CPU"
	quotaMemory = "quota of memory"
)

// unreclaimableQuota names the part of a quota that is used by pods from which others cannot reclaim.
func unreclaimableQuota(of string) string { return of + " that cannot be reclaimed" }

// quotaOf names the part of a quota that limits a resource.
func quotaOf(resource quota.Resource) string {
	switch resource {
	case quota.CPU:
		return quotaCPU
	case quota.Memory:
		return quotaMemory
	}
	return quotaCards
}

// releasedByEach returns what the eviction of each victim on a node releases. The first one that
// breaks a gang also releases the quota of the gang's pods on other nodes, since they go too.
func (p *victimSelection) releasedByEach(victims []*api.TaskInfo, breaks map[api.TaskID]bool, queue api.QueueID, name card.Name) []amounts {
	released := make([]amounts, len(victims))
	broken := map[api.JobID]bool{}
	for i, victim := range victims {
		released[i] = p.releasedAmounts(victim, queue, name)
		if !breaks[victim.UID] || broken[victim.Job] {
			continue
		}

		broken[victim.Job] = true
		for other := range gang.TasksIn(p.Volcano.Jobs[victim.Job], gang.IsOnNode) {
			if other.NodeName != victim.NodeName {
				p.addReleasedQuota(released[i], other, queue, name)
			}
		}
	}

	return released
}

// releasedAmounts returns what the eviction of a pod releases: on its node, and in a queue of
// the named card, CPU and memory, if that queue is charged.
func (p *victimSelection) releasedAmounts(task *api.TaskInfo, queue api.QueueID, name card.Name) amounts {
	released := resourceAmounts(task.Resreq)
	p.addReleasedQuota(released, task, queue, name)
	return released
}

// addReleasedQuota adds what the eviction of a pod releases in a queue.
func (p *victimSelection) addReleasedQuota(released amounts, task *api.TaskInfo, queue api.QueueID, name card.Name) {
	charge := p.ChargeInQueue(queue, task)
	if charge == nil {
		return
	}

	for resource, amount := range charge.Amounts() {
		if resource.IsCard() && resource.Card() != name {
			continue
		}

		what := quotaOf(resource)
		released[what] += float64(amount)
		if charge.IsUnreclaimable {
			released[unreclaimableQuota(what)] += float64(amount)
		}
	}
}

// missingResources returns what a node lacks for a request, including what terminating pods
// release; empty if it fits.
func missingResources(request, futureIdle *api.Resource) amounts {
	idle := resourceAmounts(futureIdle)
	missing := amounts{}
	for what, asked := range resourceAmounts(request) {
		if shortfall := asked - idle[what]; asked > 0 && shortfall > solver.Tolerance {
			missing[what] = shortfall
		}
	}
	return missing
}

// resourceAmounts returns the resources that are counted on a node.
func resourceAmounts(r *api.Resource) amounts {
	list := make(amounts, 2+len(r.ScalarResources))
	list["cpu"] = r.MilliCPU
	list["memory"] = r.Memory
	for name, quantity := range r.ScalarResources {
		if !api.IsIgnoredScalarResource(name) {
			list[string(name)] = quantity
		}
	}
	return list
}

// irreducibleSubset selects as few candidates as needed, in their order: the first that help,
// then without those that the others make unnecessary. It selects none if all together do not
// suffice.
func irreducibleSubset(missing amounts, released []amounts) []int {
	var picked []int
	remaining := maps.Clone(missing)
	for i, give := range released {
		if remaining.isZero() {
			break
		}
		if remaining.isReducedBy(give) {
			picked = append(picked, i)
			remaining.add(give, -1)
		}
	}

	if !remaining.isZero() {
		return nil
	}

	// Candidates come in the order of eviction, so the last ones are spared first.
	for i := len(picked) - 1; i >= 0; i-- {
		if without := maps.Clone(remaining).add(released[picked[i]], 1); without.isZero() {
			remaining = without
			picked = append(picked[:i], picked[i+1:]...)
		}
	}

	return picked
}

func (a amounts) isZero() bool {
	for _, n := range a {
		if n > solver.Tolerance {
			return false
		}
	}
	return true
}

func (a amounts) isReducedBy(give amounts) bool {
	for what, n := range a {
		if n > solver.Tolerance && give[what] > 0 {
			return true
		}
	}
	return false
}

// add adds other amounts, multiplied by times, for the names that a has.
func (a amounts) add(give amounts, times float64) amounts {
	for what := range a {
		a[what] += times * give[what]
	}
	return a
}
