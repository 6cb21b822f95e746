package cardreclaim

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// reclaimsFor reports whether resources are reclaimed for a request: cards, and CPU and memory
// if the policy says so.
func (s *searchSession) reclaimsFor(request *quota.Request) bool {
	return request.Count > 0 || s.plugin.ReclaimsAll()
}

// firstReclaimer returns the index of the first pod set for which resources are reclaimed, -1 if
// there is none. All such pod sets of a problem reclaim from the same victim jobs.
func (s *searchSession) firstReclaimer(podSets []*podSet) int {
	return slices.IndexFunc(podSets, func(set *podSet) bool { return s.reclaimsFor(&set.request) })
}

// usesNeeded reports whether a running pod uses what the pending pods need, so that it may be evicted alone for them:
// cards that they request. If CPU and memory are reclaimed too, that may also be a pod without cards,
// or any pod if the pending pods request no cards.
func (b *problemBuilder) usesNeeded(p *problem, task *api.TaskInfo) bool {
	request := b.plugin.RequestFor(task)
	if p.cardResources[string(request.Resource)] {
		return true
	}
	return b.plugin.ReclaimsAll() && (request.Count == 0 || len(p.cardResources) == 0)
}

// usesOf returns what each pod of a request uses of the quotas of CPU and memory, by pool. It adds the pools to the
// problem if they are new.
func (b *problemBuilder) usesOf(p *problem, queue api.QueueID, request *quota.Request) []solver.QuotaAmount {
	var uses []solver.QuotaAmount
	for _, name := range quota.Compute {
		amount := request.Amount(name)
		if amount <= 0 {
			continue
		}

		pool, known := p.pools[name]
		if !known {
			pool = b.addPool(p, queue, name)
			if !b.plugin.ReclaimsAll() {
				// Only what is reclaimed must be deserved. CPU and memory that are not may be borrowed.
				p.tree.ignoreDeserved(pool)
			}
		}
		uses = append(uses, solver.QuotaAmount{Quota: pool, Amount: amount})
	}

	return uses
}

// mayReclaimCPUMemory reports whether a queue may use so much more CPU, in millicores, and
// memory, in bytes, while it reclaims: its quota must have them left, and if they are reclaimed,
// the queue must deserve them. In a tree, evictions may free the quotas of its ancestors, so these do not count.
func (s *searchSession) mayReclaimCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	request := quota.Request{MilliCPU: milliCPU, Memory: memory}
	return s.plugin.Ledger.Fits(string(queue), request, s.plugin.WithinReclaimable())
}
