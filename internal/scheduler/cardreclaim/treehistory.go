package cardreclaim

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
)

// seenTake is a limit as a search saw it: the most that could be taken, and how much the victims
// use that count against it. Only a limit below what they use keeps any of them.
type seenTake struct{ most, used int64 }

// addTake records that a victim counts against a limit.
func (s *searchScope) addTake(key takeKey, most, amount int64) {
	if s.takes == nil {
		s.takes = map[takeKey]seenTake{}
	}
	s.takes[key] = seenTake{most, quota.AddSaturating(s.takes[key].used, amount)}
}

// haveSameTakes reports whether the limits allow the same victims as a search saw them. The use
// of their queues may change on nodes that the search did not look at.
func (s *reclaimSession) haveSameTakes(seen map[takeKey]seenTake) bool {
	for key, take := range seen {
		if min(s.mostTaken(key), take.used) != min(take.most, take.used) {
			return false
		}
	}
	return true
}

// hashLevels returns a hash of what a job's queue may use at each level, as far as its pending
// pods request it. The use of other queues changes that, on whatever nodes.
func (s *reclaimSession) hashLevels(job *api.JobInfo) (sum uint64) {
	var total quota.Request
	names := sets.New(quota.Compute[:]...)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		request := s.plugin.RequestFor(task)
		for _, name := range request.Names {
			names.Insert(quota.Resource(name))
		}

		total.Count = total.Count.Add(request.Count)
		total.MilliCPU = quota.AddSaturating(total.MilliCPU, request.MilliCPU)
		total.Memory = quota.AddSaturating(total.Memory, request.Memory)
	}

	for name := range names {
		requested := total.Amount(name)
		m := s.plugin.Ledger.MayUseByLevel(string(job.Queue), name)
		for i := range m.Quota {
			// What exceeds the request decides nothing, so its changes repeat no search.
			sum += hashOf(struct {
				name            quota.Resource
				level           int
				quota, deserved int64
				coverable       int64
			}{name, i, min(m.Quota[i], requested), min(m.Deserved[i], requested), min(m.Coverable[i], requested)})
		}
	}

	return sum
}
