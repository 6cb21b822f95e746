package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// TestACardQuotaIsDeletedAndRecreated: a CardQuota is deleted while 2 of its 3 cards are used. Running pods run on,
// no new one starts, and the queue stays until the last pod is gone. Then a CardQuota of the same name, with a
// quota of 1, works as a new one.
func TestACardQuotaIsDeletedAndRecreated(t *testing.T) {
	s := newScene(t, "recreated")
	s.createQuota("recreated", cardList(h200, 3))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: "recreated", card: h200, count: 1, pods: 2}))
	s.wantRunningAndWaiting("web", 2, 0)

	// Running pods continue, no new ones start, and the queue stays until then.
	quota := s.cardQuota("recreated")
	queue := s.readQueue("recreated")
	s.Expect(s.Delete(s.ctx, quota)).To(Succeed())
	s.Eventually(func() string { return s.quotaOfQueue("recreated") }).Should(Equal("{}"))
	s.scaleDeployment("web", 3) // a third pod, for which the deleted quota had a card
	s.wantRunningAndWaiting("web", 2, 1)
	s.Expect(s.waitForCondition("recreated", api.ConditionQueueSynced, metav1.ConditionFalse).Reason).To(Equal(api.ReasonDraining))
	s.Expect(s.readQueue("recreated").UID).To(Equal(queue.UID), "the queue stays while pods use its cards")

	s.Expect(s.Delete(s.ctx, &appsv1.Deployment{ObjectMeta: s.objectMeta("web")}, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	for _, object := range []client.Object{quota, queue} {
		s.Eventually(s.IsGone(s.ctx, object), "60s").Should(BeTrue(), "%T is gone", object)
	}

	s.createQuota("recreated", cardList(h200, 1))
	s.createObjects(s.deploymentOf(podSet{name: "again", queue: "recreated", card: h200, count: 1, pods: 2}))
	s.wantRunningAndWaiting("again", 1, 1)
}

// TestCPUOnlyJobsInTheUntouchedDefaultQueueRunAsBefore: a cluster may use Volcano's default queue for work without
// cards, and no CardQuota names it. Deployments, pods and jobs run there as before, and the operator writes nothing
// into it. Cards are not allowed there.
func TestCPUOnlyJobsInTheUntouchedDefaultQueueRunAsBefore(t *testing.T) {
	s := newScene(t, "untouched")
	s.createObjects(s.deploymentOf(podSet{name: "web", pods: 3}))
	s.createPods(podSet{name: "pod", pods: 2})
	s.wantPods(map[string]string{"web": runningAndWaiting(3, 0), "pod": runningAndWaiting(2, 0)})

	// Volcano's webhook denies a job until a scheduler has created the default queue.
	s.createObjects(s.newVCJob(podSet{name: "batch", pods: 3, gang: 3, annotations: map[string]string{"test.cardquota.dev/run-for": "1s"}}))
	s.wantPhase("batch", batchv1alpha1.Completed)

	queue := s.readQueue("default")
	for key := range queue.Annotations {
		s.Expect(key).NotTo(HavePrefix("volcano.sh/card."))
	}
	s.Expect(queue.Spec.Capability).To(BeEmpty())
	s.Expect(queue.ManagedFields).NotTo(ContainElement(HaveField("Manager", api.FieldManager)))

	// Cards are not allowed there.
	s.createPods(podSet{name: "cards", card: h200, count: 1, pods: 1})
	s.wantRunningAndWaiting("cards", 0, 1)
	s.wantReason("cards", insufficientMessage("default", h200, 1, 0))
}
