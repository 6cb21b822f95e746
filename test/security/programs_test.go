package security

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

// withoutWebhooks simulates a request that passed the webhooks: the rest must suffice.
func withoutWebhooks(t *testing.T, do func()) {
	// Only a webhook denies it, and it is none of those that allow requests that they cannot
	// check in time.
	tooMany := func() error {
		return suite.admin.Create(t.Context(), newCardQuota("too-many", func(q *v1alpha1.CardQuota) {
			q.Spec.OverAllocation = v1alpha1.OverAllocationDeny
			q.Spec.Cards[0].Quota = ptr.To[int64](1000)
		}), client.DryRunAll)
	}

	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Name: "cardquota"}, configuration))

	away := configuration.DeepCopy()
	away.Webhooks = nil
	check.NoError(t, suite.admin.Patch(t.Context(), away, client.MergeFrom(configuration)))
	defer func() { // whatever becomes of do
		back := away.DeepCopy()
		back.Webhooks = configuration.Webhooks
		check.NoError(t, suite.admin.Patch(t.Context(), back, client.MergeFrom(away)))
		newGomega(t).Eventually(tooMany).ShouldNot(Succeed(), "the API server has seen that they are back")
	}()

	newGomega(t).Eventually(tooMany).Should(Succeed(), "the API server has closed them")
	do()
}

// TestALabelDoesNotStopTheScheduler: our scheduler stops while a pod with the label of Volcano's own scheduler
// runs in its namespace. A tenant's pod with that label, in the tenant's namespace, must not stop our scheduler. It
// places later pods and sends its heartbeat.
func TestALabelDoesNotStopTheScheduler(t *testing.T) {
	stranger := newPod("stranger", "default", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "volcano-scheduler"}
		withoutCards(p)
		p.Spec.NodeName = "h200-0"
	})

	createAsTenant(t, stranger)
	g := newGomega(t)
	g.Eventually(framework.Read(t.Context(), suite.admin, client.ObjectKeyFromObject(stranger), func(pod *corev1.Pod) corev1.PodPhase {
		return pod.Status.Phase
	})).Should(Equal(corev1.PodRunning), "the pod with the label runs, as Volcano's scheduler would")

	beat := framework.Read(t.Context(), suite.admin, client.ObjectKey{Namespace: system, Name: enforcement.LeaseName}, func(lease *coordinationv1.Lease) time.Time {
		return lease.Spec.RenewTime.Time
	})

	since := time.Now()
	waitForLaterPlacements(t)
	g.Eventually(beat).Should(BeTemporally(">", since), "it works on")
	g.Expect(suite.deployment.Scheduler.Running()).To(BeTrue())
}

// TestWorkloadsRunWithoutTheOperator: with the operator stopped, pods are created and placed within their quota of
// one card. The admission policy still refuses a pod with its own node. A new CardQuota is refused, because no
// webhook can check it.
func TestWorkloadsRunWithoutTheOperator(t *testing.T) {
	createReadyQuota(t, newCardQuota("orphaned", nil))
	g := newGomega(t)

	past := func() error {
		return tessClient(t).Create(t.Context(), newPod("past", "orphaned", func(p *corev1.Pod) { p.Spec.NodeName = "h200-0" }), client.DryRunAll)
	}

	g.Eventually(past).ShouldNot(Succeed(), "when the API server has seen the guard")
	g.Expect(suite.deployment.Manager.Stop()).To(Succeed())
	defer func() { g.Expect(suite.deployment.StartManager(t.Context())).To(Succeed()) }()

	first := newPod("orphan-1", "orphaned", nil)
	second := newPod("orphan-2", "orphaned", nil)
	createAsTenant(t, first)
	g.Eventually(nodeOf(t, first)).ShouldNot(BeEmpty(), "pods are created and placed")

	createAsTenant(t, second)
	g.Eventually(unschedulableMessages(t)).Should(ContainSubstring("Queue <orphaned> has insufficient"), "within the quota")
	g.Expect(past()).To(MatchError(ContainSubstring("leave nodeName out")), "and not past the scheduler")
	g.Expect(suite.admin.Create(t.Context(), newCardQuota("unjudged", nil))).To(
		MatchError(ContainSubstring("cardquotas.cardquota.dev")), "a quota that no webhook can validate is refused")
}

// TestPodsAreRestricted: the pods of both Deployments are allowed in a namespace with the Pod Security Standard
// restricted, and their root file systems are read-only.
func TestPodsAreRestricted(t *testing.T) {
	createForTest(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})
	newGomega(t).Eventually(func() error {
		return suite.admin.Get(t.Context(), client.ObjectKey{Namespace: "restricted", Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed())

	for _, program := range []string{"manager", "scheduler"} {
		text := check.Value(os.ReadFile("../../config/" + program + "/deployment.yaml"))(t)
		deployment := &appsv1.Deployment{}
		check.NoError(t, yaml.UnmarshalStrict(text, deployment))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "restricted", Name: program}, Spec: deployment.Spec.Template.Spec}

		pod.Spec.ServiceAccountName = "default" // that of the installation is in another namespace
		err := suite.admin.Create(t.Context(), pod, client.DryRunAll)
		check.That(t, err == nil, "%s: %v", program, err)
		container := pod.Spec.Containers[0]
		check.That(t, container.SecurityContext.ReadOnlyRootFilesystem != nil && *container.SecurityContext.ReadOnlyRootFilesystem, "%s may write its root file system", program)
	}
}
