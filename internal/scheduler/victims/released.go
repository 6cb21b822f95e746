package victims

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/gang"
)

// releasedByEach returns what the eviction of each victim on a node releases there, and in a queue of the
// named card, CPU and memory. breaks has the pods whose eviction leaves their gang too small, so that all of
// the gang is evicted. The first such victim of a gang also releases the quota of the gang's pods on other
// nodes.
func (s *Selection) releasedByEach(victims []*api.TaskInfo, breaks map[api.TaskID]bool, queue api.QueueID, name card.Name) []Amounts {
	released := make([]Amounts, len(victims))
	broken := map[api.JobID]bool{}
	for i, victim := range victims {
		released[i] = s.ReleasedAmounts(victim, queue, name)
		if !breaks[victim.UID] || broken[victim.Job] {
			continue
		}

		broken[victim.Job] = true
		for other := range gang.TasksIn(s.Volcano.Jobs[victim.Job], gang.IsOnNode) {
			if other.NodeName != victim.NodeName {
				s.addReleasedQuota(released[i], other, queue, name)
			}
		}
	}

	return released
}

// ReleasedAmounts returns what the eviction of a pod releases: on its node, and in the quota of a queue of
// the named card, CPU and memory, if that queue is charged for the pod.
func (s *Selection) ReleasedAmounts(task *api.TaskInfo, queue api.QueueID, name card.Name) Amounts {
	released := resourceAmounts(task.Resreq)
	s.addReleasedQuota(released, task, queue, name)
	return released
}

// addReleasedQuota adds to released what the eviction of a pod releases in the quota of a queue: the named card, CPU and
// memory. A pod that the queue is not charged for releases nothing.
func (s *Selection) addReleasedQuota(released Amounts, task *api.TaskInfo, queue api.QueueID, name card.Name) {
	charge := s.ChargeInQueue(queue, task)
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
			released[UnreclaimableQuota(what)] += float64(amount)
		}
	}
}
