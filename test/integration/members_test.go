package integration

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/framework"
)

// TestOnlyOwnWorkloadsDelayDeletion: any pod and PodGroup may name any queue, so not each of them may delay the
// deletion of a CardQuota. A pod of another scheduler without cards does not, nor one that waits for another
// scheduler. Neither do a pod and a PodGroup of a namespace that the queue does not allow. A pod of our scheduler
// that waits for 2 cards delays it.
func TestOnlyOwnWorkloadsDelayDeletion(t *testing.T) {
	g := requireControlPlane(t)
	name := uniqueName(t, "")
	newNode(t, name, "NVIDIA-H200")
	startEnforcing(t, name+"-policy") // the policy that says which scheduler is ours

	// Without a controller manager a namespace is never removed.
	g.Expect(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "stranger"}}})).To(gomega.Succeed())
	quota := newQuota(name, func(q *v1alpha1.CardQuota) {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"stranger"}}}}
	})

	createReady(t, quota)
	other := newPod(name+"-other", name, name, 0)
	other.Spec.SchedulerName = corev1.DefaultSchedulerName
	other.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	delete(other.Annotations, v1alpha1.AnnotationCardName)
	admin.CreateWithCleanup(t, other)

	setPod(t, other, setRunning)
	waits := newPod(name+"-waits", name, "", 1)
	waits.Spec.SchedulerName = corev1.DefaultSchedulerName
	admin.CreateWithCleanup(t, waits)

	stranger := newPod(name+"-stranger", name, "", 1)
	stranger.Namespace = name
	admin.CreateWithCleanup(t, stranger)
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	group.Spec.Queue = name
	admin.CreateWithCleanup(t, group)

	// A pod of ours that waits in the queue still delays it, which shows that all pods were
	// counted.
	ours := newPod(name+"-ours", name, "", 2)
	admin.CreateWithCleanup(t, ours)
	g.Eventually(statusOf(t, name)).Should(gomega.HaveField("PendingSummary", "2 NVIDIA-H200"), "ours, not the stranger's or another scheduler's")
	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.ContainSubstring("these are gone: 1 unfinished pod"))
	g.Consistently(readError(queueOf(t, name))).Should(gomega.Succeed())

	admin.DeleteAndWait(t, ours)
	g.Eventually(readError(queueOf(t, name))).Should(framework.NotFound())
	g.Eventually(readError(statusOf(t, name))).Should(framework.NotFound())
}
