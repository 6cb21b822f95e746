package observer_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/test/observer"
)

// evictAs evicts a pod like one of Volcano's actions.
func (w *scene) evictAs(name, by string) {
	w.Helper()
	conditions := fmt.Sprintf(`{"status":{"conditions":[
		{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","message":"volcano: preempting to accommodate a higher priority pod"},
		{"type":"Ready","status":"False","reason":"Evict","message":"Pod is evicted, because of %s"}]}}`, by)
	_, err := w.cluster.Kubectl(w.Context(), "patch", "pod", "-n", w.name, name, "--subresource=status", "-p", conditions)
	w.Expect(err).NotTo(HaveOccurred())
	w.deletePod(name)
}

// createReclaimQueues creates a reclaimable queue and one that may reclaim.
func (w *scene) createReclaimQueues() (training, inference string) {
	w.Helper()
	training = w.name + "-training"
	inference = w.name + "-inference"
	for _, q := range []struct {
		name, kind  string
		priority    int
		reclaimable bool
	}{{training, "training", 20000, true}, {inference, "inference", 80000, false}} {
		w.applyManifest(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue,
metadata: {name: %s, annotations: {volcano.sh/card.quota: '{"NVIDIA-H200":4}', volcano.sh/service.type: %s}},
spec: {weight: 1, priority: %d, reclaimable: %t}}`, q.name, q.kind, q.priority, q.reclaimable)
		w.waitUntilOpen(q.name)
	}

	return training, inference
}

func TestOnlyEvictionsOutsideTheRulesAreFound(t *testing.T) {
	w := newScene(t, "break-tide")
	training, inference := w.createReclaimQueues()
	o := w.startObserver(observer.Options{PlacedWithin: 2 * time.Second})
	o.Excuse(observer.Reason) // no scheduler runs that could state one

	for _, name := range []string{"first", "second", "third"} {
		w.podIn(training, name, "NVIDIA-H200", "1")
		w.bindPod(name, "h200-0")
	}

	w.podIn(inference, "service", "NVIDIA-H200", "1")
	w.evictAs("first", "reclaim")
	w.bindPod("service", "h200-0")

	w.podIn(training, "waiting", "NVIDIA-H200", "1")
	w.evictAs("service", "reclaim") // training may not reclaim
	w.deletePod("waiting")
	w.wantExactly(o, "I4 eviction pod/break-tide/service")

	w.podIn(inference, "late", "NVIDIA-H200", "1")
	w.evictAs("second", "reclaim") // for late, which is never placed
	w.wantExactly(o, "I4 eviction pod/break-tide/service", "I4 eviction pod/break-tide/second")
	w.deletePod("late")
}
