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
		"preempt": {`queue q {"A":8}; low q 1: a*8 class=low; high q 1: - class=high`, func() framework.Action { return preempt.New() }},
		"reclaim": {"t tra 1: a*8; i inf 1: -", func() framework.Action { return reclaim.New() }},
	}) {
		s := newReclaimScene(t, tc.text)
		now := s.Now
		s.m.now = func() time.Time { return now }
		for _, pod := range s.Pods {
			if pod.Spec.NodeName != "" {
				evictedSince(now.Add(-10 * time.Second))(pod)
			}
		}

		s.evict(tc.action())
		check.Equal(t, "on their way out while they say so", 0, len(s.In(api.Releasing)))
		now = now.Add(time.Minute)
		s.evict(tc.action())
		check.Equal(t, "on their way out", 1, len(s.In(api.Releasing)))
	}
}
