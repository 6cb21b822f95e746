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
// there is none.
func (s *searchSession) firstReclaimer(podSets []*podSet) int {
	return slices.IndexFunc(podSets, func(c *podSet) bool { return s.reclaimsFor(&c.request) })
}

// usesNeeded reports whether a pod may be evicted alone for the pending pods: it uses cards
// that they request. If CPU and memory are reclaimed too, that may also be a pod without cards,
// or any pod if the pending pods request no cards.
func (s *problemBuilder) usesNeeded(q *problem, task *api.TaskInfo) bool {
	request := s.plugin.RequestFor(task)
	if q.cardResources[string(request.Resource)] {
		return true
	}
	return s.plugin.ReclaimsAll() && (request.Count == 0 || len(q.cardResources) == 0)
}

// usesOf returns what each pod of a request uses of the quotas of CPU and memory. They are part
// of the problem only if evictions can release them.
func (s *problemBuilder) usesOf(q *problem, queue api.QueueID, request *quota.Request) []solver.QuotaAmount {
	var uses []solver.QuotaAmount
	for _, name := range quota.Compute {
		amount := request.Amount(name)
		if amount <= 0 {
			continue
		}

		pool, known := q.pools[name]
		if !known {
			pool = s.addPool(q, queue, name)
			if !s.plugin.ReclaimsAll() {
				// Only what is reclaimed must be deserved. CPU and memory that are not may be borrowed.
				q.tree.ignoreDeserved(pool)
			}
		}
		uses = append(uses, solver.QuotaAmount{Quota: pool, Amount: amount})
	}

	return uses
}

// mayReclaimCPUMemory reports whether a queue may use so much more CPU, in millicores, and
// memory, in bytes, while it reclaims: its quota must have them left, and if they are reclaimed,
// the queue must deserve them. In a tree, evictions may free the quotas of its ancestors.
func (s *searchSession) mayReclaimCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	request := quota.Request{MilliCPU: milliCPU, Memory: memory}
	return s.plugin.Ledger.Fits(string(queue), request, s.plugin.WithinReclaimable())
}
