package capacitycard

import (
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestFailedEvictionIsRetried: a pod that says that it is evicted is not evicted for
// a minute. If it is still there then, it may be evicted again.
func TestFailedEvictionIsRetried(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		action func() framework.Action
	}{
		"preempt": {`queue q quota={"A":8}; job low queue=q min=1 running=a*8 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, func() framework.Action { return preempt.New() }},
		"reclaim": {"job t queue=tra min=1 running=a*8; job i queue=inf min=1 pending=1", func() framework.Action { return reclaim.New() }},
	}) {
		s := newReclaimScene(t, tc.text).useClock()
		for _, pod := range s.Pods {
			if pod.Spec.NodeName != "" {
				evictedSince(s.clock.Add(-10 * time.Second))(pod)
			}
		}

		s.evict(tc.action())
		check.Equal(t, "on their way out while they say so", 0, len(s.In(api.Releasing)))
		s.clock = s.clock.Add(time.Minute)
		s.evict(tc.action())
		check.Equal(t, "on their way out", 1, len(s.In(api.Releasing)))
	}
}
