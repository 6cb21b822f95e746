package e2e

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

func TestAQueueWrittenByHandIsEnforced(t *testing.T) {
	t.Parallel()
	s := newScene(t, "byhand")
	queue := s.queueByHand("byhand", `{"NVIDIA-H200":2}`)
	s.create(s.deploymentOf(work{name: "web", queue: "byhand", card: h200, count: 1, pods: 4}))
	s.wantRunning("web", 2, 2)
	s.wantSaid("web", insufficient("byhand", h200, 1, 2))

	s.get(keyOf(queue), queue)
	before := queue.DeepCopy()
	queue.Annotations[api.AnnotationCardQuota] = `{"NVIDIA-H200":3}`
	s.Expect(s.Patch(s.ctx, queue, client.MergeFrom(before))).To(Succeed())
	s.wantRunning("web", 3, 1)

	s.queueByHand("byhand-none", "")
	s.run(work{name: "none", queue: "byhand-none", card: h200, count: 1, pods: 1})
	s.wantRunning("none", 0, 1)
	s.wantSaid("none", insufficient("byhand-none", h200, 1, 0))
}

func TestAQuotaThatCannotBeReadStopsItsQueueOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, "badtext")
	s.quota("badtext-good", cards(h200, 8))
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
	want := map[string]string{"good": pods(8, 0)}
	for name, text := range texts {
		s.queueByHand("badtext-"+name, text)
		s.run(work{name: name, queue: "badtext-" + name, card: h200, count: 1, pods: 1})
		want[name] = pods(0, 1)
	}
	s.create(s.deploymentOf(work{name: "good", queue: "badtext-good", card: h200, count: 1, pods: 8}))
	s.wantPods(want)
	for name := range texts {
		s.wantSaid(name, fmt.Sprintf("Queue <badtext-%s> has an invalid %s: ", name, api.AnnotationCardQuota))
	}
}

func TestBadWorkloadsDoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	s := newScene(t, "badwork")
	s.quota("badwork", cards(h200, 8, ascend, 8))
	for name, w := range map[string]work{
		"no-name":     {card: "NVIDIA H200!"},
		"empty-half":  {card: "NVIDIA-H200|"},
		"no-such":     {card: "NVIDIA-H9000"},
		"wrong-kind":  {card: ascend}, // asks for nvidia.com/gpu below
		"job-request": {card: h200, annotations: map[string]string{api.AnnotationCardRequest: "nonsense"}},
	} {
		w.name, w.queue, w.count, w.pods = name, "badwork", 1, 1
		pod := s.barePods(w)[0]
		if name == "wrong-kind" {
			right := work{name: name, queue: "badwork", card: h200, count: 1, pods: 1}
			pod = s.barePods(right)[0]
			pod.Annotations[api.AnnotationCardName] = ascend
		}
		s.create(pod)
	}
	job := s.vcjob(work{name: "bad-request", queue: "badwork", card: h200, count: 1, pods: 1})
	job.Annotations[api.AnnotationCardRequest] = `{"NVIDIA-H200":-4}`
	s.create(job)
	for name, sentence := range map[string]string{
		"no-name":    "Pod annotation volcano.sh/card.name: ",
		"empty-half": "Pod annotation volcano.sh/card.name: ",
		"no-such":    insufficient("badwork", "NVIDIA-H9000", 1, 0),
		"wrong-kind": "Pod names card <Ascend-910B>, which is requested as huawei.com/Ascend910, but requests nvidia.com/gpu",
	} {
		s.wantSaid(name, sentence)
	}
	s.wantGroupSaid("bad-request", "PodGroup annotation volcano.sh/card.request: ")
	// A pod is not a job: only its own annotation counts.
	s.wantPods(map[string]string{"no-name": pods(0, 1), "empty-half": pods(0, 1), "no-such": pods(0, 1), "wrong-kind": pods(0, 1), "job-request": pods(1, 0)})
	s.create(s.deploymentOf(work{name: "good", queue: "badwork", card: h200, count: 1, pods: 4}))
	s.wantRunning("good", 4, 0)
}

func TestAMissingQueueIsSaid(t *testing.T) {
	t.Parallel()
	s := newScene(t, "missing")
	err := s.Create(s.ctx, s.vcjob(work{name: "job", queue: "missing-nowhere", card: h200, count: 1, pods: 1}))
	s.Expect(err).To(MatchError(ContainSubstring("missing-nowhere")), "Volcano's webhook refuses the job")

	// A pod is not refused; it waits, and runs as soon as the queue is there.
	s.run(work{name: "pod", queue: "missing-nowhere", card: h200, count: 1, pods: 1})
	s.wantRunning("pod", 0, 1)
	s.wantSaid("pod", "Queue <missing-nowhere> does not exist")
	s.quota("missing-nowhere", cards(h200, 1))
	// Volcano's controller tries again at growing intervals to make the PodGroup.
	s.Eventually(func() int { return s.running("pod") }, "60s").Should(Equal(1))
}

func TestOfTwoCardQuotasForOneQueueTheOlderHasIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, "rivals")
	s.quota("rivals", cards(h200, 1))
	// Creation times are whole seconds, and of two of one age the first by name
	// has the queue: the name of the late one is the later one as well.
	late := &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "rivals-late"},
		Spec: api.CardQuotaSpec{Tenant: "t", ServiceType: "training", QueueName: "rivals", Cards: cards(h200, 5)}}
	s.create(late)
	conflict := s.condition("rivals-late", api.ConditionQueueSynced, metav1.ConditionFalse)
	s.Expect(conflict.Reason).To(Equal(api.ReasonQueueConflict))
	s.Expect(conflict.Message).To(ContainSubstring("rivals"))
	s.condition("rivals", api.ConditionReady, metav1.ConditionTrue)
	s.create(s.deploymentOf(work{name: "web", queue: "rivals", card: h200, count: 1, pods: 3}))
	s.wantRunning("web", 1, 2)
	s.Expect(s.quotaOfQueue("rivals")).To(Equal(`{"NVIDIA-H200":1}`))

	// The younger one takes over without a gap.
	s.Expect(s.Delete(s.ctx, &api.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: "rivals"}})).To(Succeed())
	s.wantRunning("web", 3, 0)
	s.condition("rivals-late", api.ConditionReady, metav1.ConditionTrue)
	live := &v1beta1.Queue{}
	s.get(types.NamespacedName{Name: "rivals"}, live)
	s.Expect(live.Annotations[api.AnnotationCardQuota]).To(Equal(`{"NVIDIA-H200":5}`))
}
