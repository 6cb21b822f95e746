package observer_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/test/observer"
)

// evictAs evicts a pod like one of Volcano's actions.
func (s *scene) evictAs(name, by string) {
	conditions := fmt.Sprintf(`{"status":{"conditions":[
		{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","message":"volcano: preempting to accommodate a higher priority pod"},
		{"type":"Ready","status":"False","reason":"Evict","message":"Pod is evicted, because of %s"}]}}`, by)
	s.Expect(s.cluster.Kubectl(s.Context(), "patch", "pod", "-n", s.name, name, "--subresource=status", "-p", conditions)).Error().NotTo(HaveOccurred())
	s.deletePod(name)
}

// createReclaimQueues creates a reclaimable queue and one that may reclaim.
func (s *scene) createReclaimQueues() (training, inference string) {
	createQueue := func(serviceType string, priority int, reclaimable bool) string {
		name := s.name + "-" + serviceType
		s.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue,
metadata: {name: %s, annotations: {volcano.sh/card.quota: '{"NVIDIA-H200":4}', volcano.sh/service.type: %s}},
spec: {weight: 1, priority: %d, reclaimable: %t}}`, name, serviceType, priority, reclaimable)
		s.waitUntilOpen(name)
		return name
	}

	return createQueue("training", 20000, true), createQueue("inference", 80000, false)
}

// TestOnlyReclaimsOutsideTheRulesAreFound: the observer reports evictions that the rules do not allow (invariant I4).
// Inference may reclaim from training, if the pod for which it evicts is then placed. Three pods are evicted. Pod
// first of training is evicted for service, which is placed: that is right. Pod service of inference is evicted for
// pod waiting of training, but training may not reclaim. Pod second of training is evicted for late, which is not
// placed within 2 s. The last two are violations. Pod third of training runs on.
func TestOnlyReclaimsOutsideTheRulesAreFound(t *testing.T) {
	s := newSceneOnCluster(t, "break-tide")
	training, inference := s.createReclaimQueues()
	o := s.startObserver(observer.Options{PlacedWithin: 2 * time.Second})
	o.Excuse(observer.Reason) // no scheduler runs that could state one

	for _, name := range []string{"first", "second", "third"} {
		s.createPodIn(training, name, "NVIDIA-H200", "1")
		s.bindPod(name, "h200-0")
	}

	s.createPodIn(inference, "service", "NVIDIA-H200", "1")
	s.evictAs("first", "reclaim")
	s.bindPod("service", "h200-0")

	s.createPodIn(training, "waiting", "NVIDIA-H200", "1")
	s.evictAs("service", "reclaim") // training may not reclaim
	s.deletePod("waiting")
	s.settleAndExpect(o, "I4 eviction pod/break-tide/service")

	s.createPodIn(inference, "late", "NVIDIA-H200", "1")
	s.evictAs("second", "reclaim") // for late, which is never placed
	s.settleAndExpect(o, "I4 eviction pod/break-tide/service", "I4 eviction pod/break-tide/second")
	s.deletePod("late")
}
