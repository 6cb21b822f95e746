package e2e

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// TestAQuotaThatCannotBeReadStopsItsQueueOnly: the quota annotation of a Queue may be damaged by hand. A queue with
// an unreadable quota starts no pod with cards, because any number could be wrong, and events say why. Each text has
// a queue of its own with one pod. A good queue beside them runs its 8 pods.
func TestAQuotaThatCannotBeReadStopsItsQueueOnly(t *testing.T) {
	s := newScene(t, "badtext")
	s.createQuota("badtext-good", cardList(h200, 8))

	texts := map[string]string{
		"no-json":    `eight H200`,
		"no-object":  `["NVIDIA-H200"]`,
		"negative":   `{"NVIDIA-H200":-1}`,
		"fractional": `{"NVIDIA-H200":0.5}`,
		"huge":       `{"NVIDIA-H200":99999999999999999999}`,
		"twice":      `{"NVIDIA-H200":1,"NVIDIA-H200":8}`,
		"text":       `{"NVIDIA-H200":"8"}`,
		"cut-off":    `{"NVIDIA-H200":8`,
		"long":       `{"` + strings.Repeat("x", 100_000) + `":1}`,
	}

	want := map[string]string{"good": runningAndWaiting(8, 0)}
	for name, text := range texts {
		s.createAndAwaitOpen(builder.Queue("badtext-" + name).Quota(text).Obj())
		s.createPods(podSet{name: name, queue: "badtext-" + name, card: h200, count: 1, pods: 1})
		want[name] = runningAndWaiting(0, 1)
	}

	s.createObjects(s.deploymentOf(podSet{name: "good", queue: "badtext-good", card: h200, count: 1, pods: 8}))
	s.wantPods(want)
	for name := range texts {
		s.wantReason(name, fmt.Sprintf("Queue <badtext-%s> has an invalid %s: ", name, api.AnnotationCardQuota))
	}
}

// TestBadWorkloadsDoNotDisturbOthers: pods and jobs with an invalid card name or request wait, and events say why. So
// does a pod whose card has no quota in its queue. A Deployment in the same queue, with a quota of 8 H200, runs. A
// bare pod takes its request from its containers alone, so a damaged request of a job in its annotation does not
// matter.
func TestBadWorkloadsDoNotDisturbOthers(t *testing.T) {
	s := newScene(t, "badwork")
	s.createQuota("badwork", cardList(h200, 8))
	for name, w := range map[string]podSet{
		"no-name":     {card: "NVIDIA H200!"},
		"empty-half":  {card: "NVIDIA-H200|"},
		"no-such":     {card: "NVIDIA-H9000"},
		"job-request": {card: h200, annotations: map[string]string{api.AnnotationCardRequest: "nonsense"}},
	} {
		w.name = name
		w.queue = "badwork"
		w.count = 1
		w.pods = 1
		s.createPods(w)
	}

	job := s.newVCJob(podSet{name: "bad-request", queue: "badwork", card: h200, count: 1, pods: 1})
	job.Annotations[api.AnnotationCardRequest] = `{"NVIDIA-H200":-4}`
	s.createObjects(job)
	for name, sentence := range map[string]string{
		"no-name":    "Pod annotation volcano.sh/card.name: ",
		"empty-half": "Pod annotation volcano.sh/card.name: ",
		"no-such":    insufficientMessage("badwork", "NVIDIA-H9000", 1, 0),
	} {
		s.wantReason(name, sentence)
	}

	s.wantGroupReason("bad-request", "PodGroup annotation volcano.sh/card.request: ")
	// A pod without a job runs: its annotation card.request is not read.
	s.wantPods(map[string]string{"no-name": runningAndWaiting(0, 1), "empty-half": runningAndWaiting(0, 1), "no-such": runningAndWaiting(0, 1), "job-request": runningAndWaiting(1, 0)})
	s.createObjects(s.deploymentOf(podSet{name: "good", queue: "badwork", card: h200, count: 1, pods: 4}))
	s.wantRunningAndWaiting("good", 4, 0)
}

// TestAMissingQueueIsReported: a pod and a job name a queue that does not exist. Volcano's webhook refuses the job.
// No webhook refuses the pod: it waits with a reason, and runs as soon as the queue exists.
func TestAMissingQueueIsReported(t *testing.T) {
	s := newScene(t, "missing")
	err := s.Create(s.ctx, s.newVCJob(podSet{name: "job", queue: "missing-nowhere", card: h200, count: 1, pods: 1}))
	s.Expect(err).To(MatchError(ContainSubstring("missing-nowhere")), "Volcano's webhook refuses the job")

	// Admission does not deny a pod; it waits, and runs as soon as the queue exists.
	s.createPods(podSet{name: "pod", queue: "missing-nowhere", card: h200, count: 1, pods: 1})
	s.wantRunningAndWaiting("pod", 0, 1)
	s.wantReason("pod", "Queue <missing-nowhere> does not exist")
	s.createQuota("missing-nowhere", cardList(h200, 1))
	// Volcano's controller retries to create the PodGroup at growing intervals.
	s.Eventually(func() int { return s.countRunning("pod") }, "60s").Should(Equal(1))
}
