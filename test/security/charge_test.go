package security

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// charged waits until the API server keeps cards that are held charged.
func charged(t *testing.T) {
	t.Helper()
	expect(t).Eventually(func() error {
		return tessClient(t).Create(t.Context(), command("Queue", "default"), client.DryRunAll)
	}).Should(MatchError(ContainSubstring(v1alpha1.ChargePolicyName)))
}

// groupOf is the PodGroup of a pod, as soon as it has one.
func groupOf(t *testing.T, p *corev1.Pod) *v1beta1.PodGroup {
	t.Helper()
	group := &v1beta1.PodGroup{}
	expect(t).Eventually(func() error {
		live := &corev1.Pod{}
		if err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(p), live); err != nil {
			return err
		}
		return suite.admin.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: live.Annotations[v1alpha1.AnnotationPodGroup]}, group)
	}).Should(Succeed())
	return group
}

// asTess is a merge patch by the tenant.
func asTess(t *testing.T, object client.Object, patch string) error {
	t.Helper()
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", object)
	}
	return tessClient(t).Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// TestMovingAPodGroupMovesNoCards: tenants may change PodGroups of their
// namespace; the queue that a group is in pays for its pods.
func TestMovingAPodGroupMovesNoCards(t *testing.T) {
	charged(t)
	grant(t, quota("moved-to", nil))
	grant(t, quota("moved-from", nil))
	first, second := pod("mover", "moved-from", nil), pod("mover-2", "moved-from", nil)
	submit(t, first)
	g := expect(t)
	g.Eventually(node(t, first)).ShouldNot(BeEmpty())
	submit(t, second)
	g.Eventually(why(t)).Should(ContainSubstring("Queue <moved-from> has insufficient"), "its one card is held")

	running := groupOf(t, first)
	g.Eventually(func() (int32, error) {
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(running), running)
		return running.Status.Running, err
	}).Should(BeEquivalentTo(1))
	move := `{"spec":{"queue":"moved-to"}}`
	withoutWebhooks(t, func() {
		refused := MatchError(And(ContainSubstring(v1alpha1.ChargePolicyName), ContainSubstring("may not move it to queue moved-to")))
		g.Expect(asTess(t, running, move)).To(refused, "what runs")
		g.Expect(asTess(t, groupOf(t, second), move)).To(refused, "what waits")
		g.Expect(tessClient(t).Delete(t.Context(), running.DeepCopy())).To(MatchError(ContainSubstring("has placed pods")), "to make it anew in the other queue")
		g.Expect(asTess(t, running, `{"status":{"phase":"Pending","running":0}}`)).To(MatchError(ContainSubstring("may not change its status.phase")), "to delete it then")
		g.Expect(asTess(t, running, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"gone"}]}}`)).To(
			MatchError(ContainSubstring("or its owners")), "to have it collected as garbage")
	})
	g.Consistently(node(t, second)).Should(BeEmpty())
}

// TestVolcanoMovesNoCardsForATenant: Volcano's controller takes the queue of a
// group from any pod of it that has none yet. It may move what waits alone.
func TestVolcanoMovesNoCardsForATenant(t *testing.T) {
	charged(t)
	grant(t, quota("deputy", nil))
	first := pod("deputy", "deputy", nil)
	submit(t, first)
	g := expect(t)
	g.Eventually(node(t, first)).ShouldNot(BeEmpty())
	group := groupOf(t, first)
	g.Eventually(func() (int32, error) {
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(group), group)
		return group.Status.Running, err
	}).Should(BeEquivalentTo(1))
	err := account(t, system, "volcano-controllers").Patch(t.Context(), group.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"queue":"default"}}`)), client.DryRunAll)
	g.Expect(err).To(MatchError(ContainSubstring("may not move it to queue default")))
}

// TestRewritingAPodGivesNothingBack: the annotations of a running pod are its
// owner's, but for those that say who pays for it.
func TestRewritingAPodGivesNothingBack(t *testing.T) {
	charged(t)
	grant(t, quota("rewritten", nil))
	grant(t, quota("elsewhere", nil))
	other := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "elsewhere"}, Spec: v1beta1.PodGroupSpec{MinMember: 1, Queue: "elsewhere"}}
	g := expect(t)
	g.Eventually(func() error { return tessClient(t).Create(t.Context(), other) }).Should(Succeed(), "when Volcano's webhook has seen the queue open")
	t.Cleanup(func() { remove(t, other) })
	first, second := pod("rewriter", "rewritten", nil), pod("second", "rewritten", nil)
	submit(t, first)
	g.Eventually(node(t, first)).ShouldNot(BeEmpty())
	withoutWebhooks(t, func() {
		for _, annotations := range []string{
			`{"scheduling.k8s.io/group-name":"elsewhere"}`,
			`{"scheduling.k8s.io/group-name":null}`,
			`{"scheduling.volcano.sh/queue-name":"elsewhere"}`,
			`null`,
		} {
			g.Expect(asTess(t, first, `{"metadata":{"annotations":`+annotations+`}}`)).To(
				MatchError(And(ContainSubstring(v1alpha1.ChargePolicyName), ContainSubstring("submit it again with the other queue"))), annotations)
		}
		g.Expect(asTess(t, first, `{"metadata":{"annotations":{"volcano.sh/card.name":"NVIDIA-GeForce-RTX-4090"}}}`)).To(Succeed(), "the node says which card it is")
		submit(t, second)
	})
	g.Eventually(why(t)).Should(ContainSubstring("Queue <rewritten> has insufficient <NVIDIA-H200> quota"))
	g.Consistently(node(t, second)).Should(BeEmpty())
}

// TestALongGoodbyeHoldsNoCards: a pod that ends is not counted, however long it
// takes.
func TestALongGoodbyeHoldsNoCards(t *testing.T) {
	charged(t)
	grant(t, quota("goodbye", nil))
	year := int64(365 * 24 * 3600)
	patient := pod("patient", "goodbye", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &year })
	g := expect(t)
	g.Expect(tessClient(t).Create(t.Context(), patient)).To(MatchError(ContainSubstring("write 3600 or less")), "as the pod says")

	first, second := pod("goodbye-1", "goodbye", nil), pod("goodbye-2", "goodbye", nil)
	submit(t, first)
	g.Eventually(node(t, first)).ShouldNot(BeEmpty())
	late := MatchError(And(ContainSubstring(v1alpha1.ChargePolicyName), ContainSubstring("give it at most 3600 seconds")))
	g.Expect(tessClient(t).Delete(t.Context(), first.DeepCopy(), client.GracePeriodSeconds(year))).To(late, "as its deletion says")
	g.Expect(tessClient(t).DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(tenant), client.GracePeriodSeconds(year))).To(late, "as that of all says")
	g.Expect(tessClient(t).SubResource("eviction").Create(t.Context(), first.DeepCopy(), eviction(first, year))).To(late, "as its eviction says")
	submit(t, second)
	g.Eventually(why(t)).Should(ContainSubstring("Queue <goodbye> has insufficient"))
	g.Consistently(node(t, second)).Should(BeEmpty())
}

// eviction of a pod with a grace period, in seconds.
func eviction(p *corev1.Pod, seconds int64) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &seconds},
	}
}

// command closes an object of Volcano.
func command(kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
		"metadata": map[string]any{"namespace": tenant, "name": "close-" + name},
		"action":   "CloseQueue",
		"target":   map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "name": name, "uid": "any"},
	}}
}

// TestACommandClosesNoQueueOfOthers: Volcano obeys a Command from any namespace.
func TestACommandClosesNoQueueOfOthers(t *testing.T) {
	charged(t)
	grant(t, quota("commanded", theirs))
	g := expect(t)
	g.Expect(tessClient(t).Create(t.Context(), command("Queue", "commanded"))).To(
		MatchError(And(ContainSubstring("is to Queue commanded"), ContainSubstring("tess may not update Queues"))))
	harmless := command("Job", "commanded")
	g.Expect(tessClient(t).Create(t.Context(), harmless)).To(Succeed(), "a job is the tenant's own")
	t.Cleanup(func() { remove(t, harmless) })
	g.Expect(asTess(t, harmless, `{"target":{"kind":"Queue"}}`)).To(MatchError(ContainSubstring(v1alpha1.ChargePolicyName)), "nor as another one rewritten")
	g.Consistently(func() (v1beta1.QueueState, error) {
		queue := &v1beta1.Queue{}
		err := suite.admin.Get(t.Context(), client.ObjectKey{Name: "commanded"}, queue)
		return queue.Status.State, err
	}).ShouldNot(Or(Equal(v1beta1.QueueStateClosed), Equal(v1beta1.QueueStateClosing)))
}
