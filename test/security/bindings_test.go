package security

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/test/framework"
)

// TestWhatWasHandedOutStaysCharged: a placed pod stays charged to its queue, here handed-out with a quota of one
// card. A tenant can make Kubernetes and Volcano delete its PodGroup, and create it again in queue handed-to. The
// scheduler records the charged queue in an annotation of the pod. So neither a restarted scheduler nor a status forgets
// it: a second pod does not fit. The tenant (user tess, with role edit in the namespace) cannot change the record, also
// not of pod launcher without cards. Past the webhooks it still cannot move or delete the PodGroup. It can change the
// card name of the pod, which does not change the charge. In the end each queue has one pod, of a quota of one.
func TestWhatWasHandedOutStaysCharged(t *testing.T) {
	createReadyQuota(t, newCardQuota("handed-out", nil))
	createReadyQuota(t, newCardQuota("handed-to", nil))
	first := newPod("holder", "handed-out", func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationChargedQueue] = "handed-to" // the scheduler replaces what a user writes
	})
	second := newPod("holder-2", "handed-out", nil)

	createAsTenant(t, first)
	g := newGomega(t)
	g.Eventually(nodeOf(t, first)).ShouldNot(BeEmpty())
	g.Expect(suite.admin.Get(t.Context(), client.ObjectKeyFromObject(first), first)).To(Succeed())
	g.Expect(first.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationChargedQueue, "handed-out"))

	const record = `{"metadata":{"annotations":{"cardquota.dev/charged-queue":"handed-to"}}}`
	g.Eventually(func() error { return framework.MergePatch(t, tessClient(t), first, record, client.DryRunAll) }).Should(
		MatchError(ContainSubstring(admissionpolicy.ChargePolicyName)), "when the API server has seen the policy")

	launcher := newPod("launcher", "handed-out", withoutCards)
	createAsTenant(t, launcher)
	g.Eventually(nodeOf(t, launcher)).ShouldNot(BeEmpty())
	g.Expect(patchAsTenant(t, launcher, record)).To(MatchError(ContainSubstring("has been placed with its CPU and memory")))

	// The rules check what Volcano's scheduler writes into a PodGroup.
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: first.Annotations[v1beta1.KubeGroupNameAnnotationKey]}}
	g.Eventually(func() (int32, error) {
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(group), group)
		return group.Status.Running, err
	}).Should(BeEquivalentTo(1))

	withoutWebhooks(t, func() {
		g.Expect(patchAsTenant(t, group, `{"spec":{"queue":"handed-to"}}`)).To(MatchError(And(
			ContainSubstring(admissionpolicy.ChargePolicyName), ContainSubstring("may not move it to queue handed-to"))))
		g.Expect(tessClient(t).Delete(t.Context(), group.DeepCopy())).To(MatchError(ContainSubstring("has placed pods")))
		g.Expect(patchAsTenant(t, first, `{"metadata":{"annotations":{"volcano.sh/card.name":"NVIDIA-GeForce-RTX-4090"}}}`)).To(
			Succeed(), "the node says which card the placed pod has")
	})

	// The garbage collector does this when a tenant deletes the owner. Then the tenant creates
	// the same name in the other queue.
	g.Expect(suite.admin.Delete(t.Context(), group.DeepCopy())).To(Succeed())
	recreated := group.DeepCopy()
	recreated.ResourceVersion = ""
	recreated.UID = ""
	recreated.OwnerReferences = nil
	recreated.Spec.Queue = "handed-to"
	g.Eventually(func() error { return tessClient(t).Create(t.Context(), recreated) }).Should(Succeed())

	createAsTenant(t, second)
	g.Eventually(unschedulableMessages(t)).Should(ContainSubstring("Queue <handed-out> has insufficient <NVIDIA-H200> quota"))

	suite.deployment.Scheduler.Kill()
	g.Expect(suite.deployment.StartScheduler(context.WithoutCancel(t.Context()))).To(Succeed())
	next := newPod("holder-3", "handed-to", nil) // no pod is charged to this queue
	createAsTenant(t, next)
	g.Eventually(nodeOf(t, next)).ShouldNot(BeEmpty(), "the new scheduler works")

	checkStaysWaiting(t, "the record stands", second)
	g.Eventually(func() ([]string, error) {
		var uses []string
		for _, name := range []string{"handed-out", "handed-to"} {
			q := &v1alpha1.CardQuota{}
			if err := suite.admin.Get(t.Context(), client.ObjectKey{Name: name}, q); err != nil {
				return nil, err
			}
			uses = append(uses, q.Status.Summary)
		}
		return uses, nil
	}).Should(Equal([]string{"1/1 NVIDIA-H200", "1/1 NVIDIA-H200"}))
}
