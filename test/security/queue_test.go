package security

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

func asNeighbour(q *v1alpha1.CardQuota) {
	q.Spec.Cards[0].Quota = ptr.To(int64(8))
	q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: neighbour}}
}

// TestAQueueOfOthersIsRefusedByTheScheduler: a pod of namespace tenant was created in a queue before the queue was
// restricted to another namespace, so no webhook refused it. At first the quota is 0, so the pod waits. Then asNeighbour
// gives the queue 8 cards and restricts it to namespace neighbour: the scheduler refuses the pod although cards are
// free. The scheduler places the pod when the restriction is removed.
func TestAQueueOfOthersIsRefusedByTheScheduler(t *testing.T) {
	quota := newCardQuota("got-past", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(0)) })
	createReadyQuota(t, quota)
	waiting := newPod("got-past", "got-past", nil)
	createAsTenant(t, waiting)
	g := newGomega(t)
	checkStaysWaiting(t, "no quota yet", waiting)
	updateCardQuota(t, quota, func() { asNeighbour(quota) })
	g.Eventually(unschedulableMessages(t)).Should(ContainSubstring("Namespace <tenant> may not use queue <got-past>"))
	checkStaysWaiting(t, "the quota has room, the queue is not for it", waiting)
	updateCardQuota(t, quota, func() { quota.Spec.NamespaceSelector = nil })
	g.Eventually(nodeOf(t, waiting)).ShouldNot(BeEmpty(), "the pod waits without the restriction")
}

// TestLeavingOutTheCardIsNoWayAround: a pod that names no card gets one that its queue has a quota for, and counts
// there. Queue unnamed has a quota of one H200, so the first pod gets it and the second one waits.
func TestLeavingOutTheCardIsNoWayAround(t *testing.T) {
	createReadyQuota(t, newCardQuota("unnamed", nil))
	unnamed := func(p *corev1.Pod) { delete(p.Annotations, v1alpha1.AnnotationCardName) }
	first := newPod("unnamed-1", "unnamed", unnamed)
	second := newPod("unnamed-2", "unnamed", unnamed)
	createAsTenant(t, first)
	g := newGomega(t)
	g.Eventually(nodeOf(t, first)).Should(HavePrefix("h200-"), "the only card that the queue may use")
	createAsTenant(t, second)
	g.Eventually(unschedulableMessages(t)).Should(ContainSubstring("Queue <unnamed> has insufficient"))
	checkStaysWaiting(t, "the first one uses the card", second)
}

// TestAServiceTypeCannotBeClaimed: only inference takes cards back from training. A pod in a training queue that
// claims to be inference by its annotation takes none. All 16 cards are used by 16 training pods of another tenant,
// and none of these is evicted. The webhooks, which would refuse the pod, are off while it is created.
func TestAServiceTypeCannotBeClaimed(t *testing.T) {
	createReadyQuota(t, newCardQuota("claimed", nil))
	claim := func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationServiceType] = "inference" }

	// The pods of the neighbour use all cards.
	createReadyQuota(t, newCardQuota("holders", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(16)) }))
	holders := builder.Deployment(neighbour, "holders", 16, builder.Pod("", "").Queue("holders").Card(h200).GPUs(1))
	createForTest(t, holders)
	g := newGomega(t)

	running := framework.Read(t.Context(), suite.admin, client.ObjectKeyFromObject(holders), func(live *appsv1.Deployment) int32 {
		return live.Status.ReadyReplicas
	})
	g.Eventually(running).Should(BeEquivalentTo(16))

	pods := neighbourPods(t)
	claims := newPod("claims", "claimed", claim)
	withoutWebhooks(t, func() { createAsTenant(t, claims) })
	checkStaysWaiting(t, "nothing is free", claims)
	g.Expect(neighbourPods(t)).To(Equal(pods), "no pod was evicted for it")
}

// neighbourPods returns the pods of the neighbour.
func neighbourPods(t *testing.T) map[string]bool {
	pods := &corev1.PodList{}
	check.NoError(t, suite.admin.List(t.Context(), pods, client.InNamespace(neighbour)))
	out := map[string]bool{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			out[string(p.UID)] = true
		}
	}
	return out
}

// updateCardQuota changes a CardQuota.
func updateCardQuota(t *testing.T, q *v1alpha1.CardQuota, edit func()) {
	check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKeyFromObject(q), q))
	before := q.DeepCopy()
	edit()
	check.NoError(t, suite.admin.Patch(t.Context(), q, client.MergeFrom(before)))
}

// TestInvalidObjectsAffectOnlyTheirTenant: pods with unreadable card names are refused. When they get past the
// webhooks, they get no card, and the scheduler still places pods of another queue (checkStaysWaiting). After their
// deletion it places a pod of their queue.
func TestInvalidObjectsAffectOnlyTheirTenant(t *testing.T) {
	createReadyQuota(t, newCardQuota("nonsense", nil))
	var all []*corev1.Pod
	for what, text := range map[string]string{
		"an empty card name":                             "",
		"4001 alternatives":                              strings.Repeat("A|", 4000) + "A",
		"a control character":                            "NVIDIA\x01H200",
		"whole cards or slices, which are two resources": "NVIDIA-H200|NVIDIA-H200/mig-1g.18gb-mixed",
		"a very long card":                               strings.Repeat("H", 60000),
	} {
		bad := newPod("", "nonsense", func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationCardName] = text })
		bad.GenerateName = "nonsense-"
		newGomega(t).Eventually(func() error { // it passes when the operator does not answer in time
			return tessClient(t).Create(t.Context(), bad.DeepCopy(), client.DryRunAll)
		}).Should(And(HaveOccurred(), Not(Satisfy(apierrors.IsInternalError))), "%s is refused", what)
		all = append(all, bad)
	}

	withoutWebhooks(t, func() {
		for _, bad := range all {
			createAsTenant(t, bad)
		}
	})

	checkStaysWaiting(t, "what cannot be read gets no card", all...)
	for _, bad := range all {
		deleteObject(t, bad)
	}

	sound := newPod("sound", "nonsense", nil)
	createAsTenant(t, sound)
	newGomega(t).Eventually(nodeOf(t, sound)).ShouldNot(BeEmpty())
}
