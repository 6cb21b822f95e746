package security

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

const h200 = "NVIDIA-H200"

// newGomega returns a gomega with timeouts for a scheduler with a session every half second.
func newGomega(t *testing.T) *WithT {
	g := NewWithT(check.Trail(t))
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	return g
}

// createForTest creates an object as administrator and removes it after the test.
func createForTest(t *testing.T, object client.Object) {
	newGomega(t).Expect(suite.admin.Create(t.Context(), object)).To(Succeed())
	t.Cleanup(func() { deleteObject(t, object) })
}

// deleteObject deletes an object of a test.
func deleteObject(t *testing.T, object client.Object) {
	newGomega(t).Expect(client.IgnoreNotFound(suite.admin.Delete(context.WithoutCancel(t.Context()), object))).To(Succeed())
}

// newCardQuota returns a CardQuota of one H200 for training, whose queue has its name.
func newCardQuota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	return framework.NewCardQuota(name, 1, change)
}

// createReadyQuota creates a CardQuota and waits until its queue has the quota.
func createReadyQuota(t *testing.T, q *v1alpha1.CardQuota) {
	createForTest(t, q)
	newGomega(t).Eventually(suite.admin.Condition(t, q.DeepCopy(), v1alpha1.ConditionQueueSynced)).Should(HavePrefix("True/"))
}

// newPod returns a pod with one card as a tenant writes it.
func newPod(name, queue string, change func(*corev1.Pod)) *corev1.Pod {
	p := builder.Pod(tenant, name).Queue(queue).Card(h200).GPUs(1).Obj()
	if change != nil {
		change(p)
	}
	return p
}

// createAsTenant creates a pod as tess.
func createAsTenant(t *testing.T, p *corev1.Pod) {
	newGomega(t).Expect(tessClient(t).Create(t.Context(), p)).To(Succeed())
	t.Cleanup(func() { deleteObject(t, p) })
}

// nodeOf returns the node of a pod, or "".
func nodeOf(t *testing.T, p *corev1.Pod) func() (string, error) {
	return framework.Read(t.Context(), suite.admin, client.ObjectKeyFromObject(p), func(live *corev1.Pod) string {
		return live.Spec.NodeName
	})
}

// checkStaysWaiting expects that pods wait although the scheduler has placed two later pods. The
// session that placed the second one started after the one that placed the first, and that one
// saw all of the pods.
func checkStaysWaiting(t *testing.T, why string, pods ...*corev1.Pod) {
	waitForLaterPlacements(t)
	for _, p := range pods {
		newGomega(t).Expect(nodeOf(t, p)()).To(BeEmpty(), "%s %s", p.Name, why)
	}
}

// waitForLaterPlacements waits until the scheduler has placed two pods without cards, the
// second one created when the first was placed.
func waitForLaterPlacements(t *testing.T) {
	for range 2 {
		later := newPod("", "default", withoutCards)
		later.GenerateName = "later-"
		createAsTenant(t, later)
		newGomega(t).Eventually(nodeOf(t, later)).ShouldNot(BeEmpty(), "the scheduler works")
	}
}

// withoutCards removes a pod's request for cards.
func withoutCards(p *corev1.Pod) {
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	delete(p.Annotations, v1alpha1.AnnotationCardName)
}

// unschedulableMessages returns the messages in which our scheduler states why a pod or its
// group waits.
func unschedulableMessages(t *testing.T) func() (string, error) {
	return func() (string, error) {
		events := &corev1.EventList{}
		err := suite.admin.List(t.Context(), events, client.InNamespace(tenant))
		text := ""
		for _, event := range events.Items {
			text += event.InvolvedObject.Name + " " + event.Reason + ": " + event.Message + "\n"
		}
		return text, err
	}
}

func tessClient(t *testing.T) client.Client { return suite.admin.ClientAs(t, tess) }

// patchAsTenant sends a merge patch as the tenant.
func patchAsTenant(t *testing.T, object client.Object, patch string) error {
	return framework.MergePatch(t, tessClient(t), object, patch)
}
