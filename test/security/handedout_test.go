package security

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

// TestWhatWasHandedOutStaysCharged: a PodGroup can go and come again elsewhere
// without its owner's doing: the garbage collector and Volcano's controllers do
// it at a tenant's word. The queue that handed out cards is written into the pod
// that holds them, so that no scheduler, however late it starts, and no status
// asks a PodGroup for it.
func TestWhatWasHandedOutStaysCharged(t *testing.T) {
	charged(t)
	grant(t, quota("handed-out", nil))
	grant(t, quota("handed-to", nil))
	first, second := pod("holder", "handed-out", func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationChargedQueue] = "handed-to" // its maker's word
	}), pod("holder-2", "handed-out", nil)
	submit(t, first)
	g := expect(t)
	g.Eventually(node(t, first)).ShouldNot(BeEmpty())
	live := &corev1.Pod{}
	g.Expect(suite.admin.Get(t.Context(), client.ObjectKeyFromObject(first), live)).To(Succeed())
	g.Expect(live.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationChargedQueue, "handed-out"))
	g.Expect(asTess(t, first, `{"metadata":{"annotations":{"cardquota.dev/charged-queue":"handed-to"}}}`)).To(
		MatchError(ContainSubstring(v1alpha1.ChargePolicyName)))

	launcher := pod("launcher", "handed-out", func(p *corev1.Pod) { // without cards
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		delete(p.Annotations, v1alpha1.AnnotationCardName)
	})
	submit(t, launcher)
	g.Eventually(node(t, launcher)).ShouldNot(BeEmpty())
	g.Expect(asTess(t, launcher, `{"metadata":{"annotations":{"cardquota.dev/charged-queue":"handed-to"}}}`)).To(
		MatchError(ContainSubstring("has been placed with its CPU and memory")))

	// What the garbage collector does when a tenant deletes the owner, and then
	// the tenant: the same name in the other queue.
	group := groupOf(t, first)
	g.Expect(suite.admin.Delete(t.Context(), group.DeepCopy())).To(Succeed())
	anew := group.DeepCopy()
	anew.ResourceVersion, anew.UID, anew.OwnerReferences, anew.Spec.Queue = "", "", nil, "handed-to"
	g.Eventually(func() error { return tessClient(t).Create(t.Context(), anew) }).Should(Succeed())
	submit(t, second)
	g.Eventually(why(t)).Should(ContainSubstring("Queue <handed-out> has insufficient <NVIDIA-H200> quota"))

	suite.deployment.Scheduler.Kill()
	g.Expect(suite.deployment.StartScheduler(context.WithoutCancel(t.Context()))).To(Succeed())
	next := pod("holder-3", "handed-to", nil) // the other queue has its quota whole
	submit(t, next)
	g.Eventually(node(t, next)).ShouldNot(BeEmpty(), "the new scheduler works")
	g.Consistently(node(t, second)).Should(BeEmpty())
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
