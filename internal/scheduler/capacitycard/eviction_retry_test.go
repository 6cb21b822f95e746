package capacitycard

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFailedEvictionIsRetried: Volcano writes the condition DisruptionTarget to a pod before it deletes the pod, and
// retries the deletion for a while. So a pod that got the condition less than a minute ago is no victim. If it still
// runs after that minute, the eviction has failed, and the pod may be evicted again. All 8 pods on node a got the
// condition 10 seconds ago, and the pending pod needs one card.
func TestFailedEvictionIsRetried(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		action framework.Action
		jobs   string
	}{
		"preempt, for a pod of higher priority in the queue": {preempt.New(), `
			job low queue=inf min=1 running=a*8 priorityClass=low
			job high queue=inf min=1 pending=1 priorityClass=high`},
		"reclaim, for inference from training": {reclaim.New(), `
			job t queue=tra min=1 running=a*8
			job i queue=inf min=1 pending=1`},
	}) {
		began := time.Now().Add(-10 * time.Second)
		s := newReclaimScene(t, tc.jobs, func(p *corev1.Pod) {
			if p.Spec.NodeName != "" {
				evictedSince(began)(p) // adds the condition
			}
		}).useClock()

		s.evict(tc.action)
		check.Equal(t, "pods that are evicted 10 seconds after they got the condition", 0, len(s.In(api.Releasing)))

		s.clock = s.clock.Add(time.Minute)
		s.evict(tc.action)
		check.Equal(t, "pods that are evicted 70 seconds after they got the condition", 1, len(s.In(api.Releasing)))
	}
}
