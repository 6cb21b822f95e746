package capacitycard

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// deletions counts what the API server was asked to delete.
func (s *scene) deletions() int {
	n := 0
	for _, action := range s.Cache.Client().(*fake.Clientset).Actions() {
		if action.Matches("delete", "pods") {
			n++
		}
	}
	return n
}

// TestAnEvictionThatFailedIsMadeAgain: of a pod that says that it is evicted nobody deletes
// anything for a minute; then it may be evicted again, and is deleted although Volcano's
// evictor does nothing about a pod that says so already.
func TestAnEvictionThatFailedIsMadeAgain(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		action func() framework.Action
	}{
		"preempt": {`queue q {"A":8}; low q 1: a*8 class=low; high q 1: - class=high`, func() framework.Action { return preempt.New() }},
		"reclaim": {"t tra 1: a*8; i inf 1: -", func() framework.Action { return reclaim.New() }},
	}) {
		s := newTide(t, tc.text)
		now := s.Now
		s.m.now = func() time.Time { return now }
		for _, pod := range s.Pods {
			if pod.Spec.NodeName != "" {
				evictedSince(now.Add(-10 * time.Second))(pod)
			}
		}
		s.evict(tc.action())
		s.Close()
		check.Equal(t, "on their way out while they say so", 0, s.deletions())
		now = now.Add(time.Minute)
		s.evict(tc.action())
		check.Equal(t, "on their way out", 1, len(s.In(api.Releasing)))
		s.Close()
		for deadline := time.Now().Add(5 * time.Second); s.deletions() == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		check.Equal(t, "pods that are deleted", 1, s.deletions())
	}
}
