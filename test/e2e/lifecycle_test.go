package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
)

func TestACardQuotaIsDeletedAndRecreated(t *testing.T) {
	t.Parallel()
	s := newScene(t, "recreated")
	quota := s.quota("recreated", cards(h200, 3))
	s.create(s.deploymentOf(work{name: "web", queue: "recreated", card: h200, count: 1, pods: 2}))
	s.wantRunning("web", 2, 0)

	// What runs goes on, nothing new starts, and the queue stays until then.
	s.Expect(s.Delete(s.ctx, quota)).To(Succeed())
	s.Eventually(func() string { return s.quotaOfQueue("recreated") }).Should(Equal("{}"))
	s.scale("web", 3)
	s.wantRunning("web", 2, 1)
	draining := s.condition("recreated", api.ConditionQueueSynced, metav1.ConditionFalse)
	s.Expect(draining.Reason).To(Equal(api.ReasonDraining))

	s.Expect(s.Delete(s.ctx, &appsv1.Deployment{ObjectMeta: s.object("web")}, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	for _, object := range []client.Object{&api.CardQuota{}, &v1beta1.Queue{}} {
		s.Eventually(func() bool {
			return apierrors.IsNotFound(s.Get(s.ctx, types.NamespacedName{Name: "recreated"}, object))
		}, "60s").Should(BeTrue(), "%T is gone", object)
	}

	s.quota("recreated", cards(h200, 1))
	s.create(s.deploymentOf(work{name: "again", queue: "recreated", card: h200, count: 1, pods: 2}))
	s.wantRunning("again", 1, 1)
}

func TestCPUOnlyJobsInTheUntouchedDefaultQueueRunAsBefore(t *testing.T) {
	t.Parallel()
	s := newScene(t, "untouched")
	job := s.vcjob(work{name: "batch", pods: 3, gang: 3, annotations: map[string]string{"test.cardquota.dev/run-for": "1s"}})
	s.create(job, s.deploymentOf(work{name: "web", pods: 3}))
	s.run(work{name: "pod", pods: 2})
	s.wantRunning("web", 3, 0)
	s.wantRunning("pod", 2, 0)
	s.Eventually(func() string {
		s.get(keyOf(job), job)
		return string(job.Status.State.Phase)
	}).Should(Equal("Completed"))

	queue := &v1beta1.Queue{}
	s.get(types.NamespacedName{Name: "default"}, queue)
	for key := range queue.Annotations {
		s.Expect(key).NotTo(HavePrefix("volcano.sh/card."))
	}
	s.Expect(queue.Spec.Capability).To(BeEmpty())

	// Cards are another matter.
	s.run(work{name: "cards", card: h200, count: 1, pods: 1})
	s.wantRunning("cards", 0, 1)
	s.wantSaid("cards", insufficient("default", h200, 1, 0))
}

// eventsOn lists the messages of events on a cluster-wide object.
func (s *scene) eventsOn(kind, name, reason string) []string {
	events := &corev1.EventList{}
	s.list(events)
	var out []string
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && event.Reason == reason {
			out = append(out, event.Message)
		}
	}
	return out
}
