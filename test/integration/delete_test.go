package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

func readError[T any](read func() (T, error)) func() error {
	return func() error {
		_, err := read()
		return err
	}
}

// TestQueueThatWasThereBeforeStays: a Queue exists before its CardQuota. A user wrote into it the annotation
// created-by, with which the operator marks Queues that it created: from a user that proves nothing. The operator
// adopts the Queue and writes its fields, and the waiting pod in it counts. When the CardQuota is deleted, the
// operator leaves the Queue, since it did not create it. It empties the quota and removes CPU, memory and priority,
// so that nothing new starts, and gives up all its fields. The weight of 3, the user's annotations and
// closed-by-parent, which Volcano needs, stay. The deletion does not wait for the pod.
func TestQueueThatWasThereBeforeStays(t *testing.T) {
	g, name := startParallelTest(t)
	newNode(t, name, "NVIDIA-H200")

	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"example.com/cost-centre": "1", "cardquota.dev/created-by": name,
	}}}

	queue.Spec.Weight = 3
	g.Expect(admin.Create(t.Context(), queue, client.FieldOwner("kubectl-create"))).To(gomega.Succeed())
	t.Cleanup(func() { admin.DeleteAndWait(t, queue) })

	quota := newQuota(name, nil)
	createReady(t, quota)
	g.Eventually(admin.EventMessages(t, quota, "Adopted")).Should(gomega.HaveLen(1))

	admin.CreateWithCleanup(t, newPod(name, name, "", 1))
	g.Eventually(statusOf(t, name)).Should(gomega.HaveField("PendingSummary", "1 NVIDIA-H200"))

	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(readError(statusOf(t, name))).Should(framework.NotFound(), "the deletion does not wait for a Queue that stays")
	g.Consistently(func(g gomega.Gomega) {
		after, err := queueOf(t, name)()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(after.UID).To(gomega.Equal(queue.UID))
		g.Expect(after.Annotations).To(gomega.Equal(map[string]string{
			"example.com/cost-centre": "1", "cardquota.dev/created-by": name,
			"volcano.sh/card.quota": "{}", "volcano.sh/closed-by-parent": "false",
		}))

		g.Expect(after.Spec.Capability).To(gomega.BeEmpty())
		g.Expect(after.Spec.Priority).To(gomega.BeZero())
		g.Expect(after.Spec.Weight).To(gomega.Equal(int32(3)))
		for _, fields := range after.ManagedFields {
			g.Expect(fields.Manager).NotTo(gomega.Equal("cardquota"))
		}
	}).Should(gomega.Succeed())
}

// TestQueueIsNotDeletedUnderAPodGroupThatWasNotCountedYet: a PodGroup comes right after a count of the pods, and
// the CardQuota is deleted before the next count. The operator asks the API server before it deletes the Queue, so
// it finds the PodGroup and waits until the PodGroup is gone.
func TestQueueIsNotDeletedUnderAPodGroupThatWasNotCountedYet(t *testing.T) {
	g, name, quota := startQuotaTest(t)
	newNode(t, name, "NVIDIA-H200")

	// The pod in the status shows that a count has just been made; later changes are counted a
	// second later.
	probe := newPod(name, name, "", 1)
	admin.CreateWithCleanup(t, probe)
	g.Eventually(statusOf(t, name)).Should(gomega.HaveField("PendingSummary", "1 NVIDIA-H200"))
	admin.DeleteAndWait(t, probe)
	g.Eventually(statusOf(t, name)).Should(gomega.HaveField("PendingSummary", "0"))

	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: name}}
	group.Spec.Queue = name
	admin.CreateWithCleanup(t, group)
	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Consistently(readError(queueOf(t, name))).WithTimeout(3 * time.Second).Should(gomega.Succeed()) // longer than between two counts
	g.Expect(cardQuotaCondition(t, name, "QueueSynced")()).To(gomega.ContainSubstring("these are gone: 1 unfinished PodGroup"))

	admin.DeleteAndWait(t, group)
	g.Eventually(readError(queueOf(t, name))).Should(framework.NotFound())
}

// TestQueueInUseIsDrainedFirst: a CardQuota is deleted while a pod runs on 4 of its 8 cards. Its Queue gets a quota
// of 0, so that no more pods start. The Queue stays until its last pod has finished and its last PodGroup is gone. The
// status shows 4 used of 0 meanwhile, but there is no event OverQuota, because the user wanted that.
func TestQueueInUseIsDrainedFirst(t *testing.T) {
	g, name, quota := startQuotaTest(t)
	newNode(t, name, "NVIDIA-H200")
	pod := newPod(name, name, name, 4)
	admin.CreateWithCleanup(t, pod)
	setPod(t, pod, setRunning)

	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: name}}
	group.Spec.Queue = name
	admin.CreateWithCleanup(t, group)
	g.Eventually(statusSummary(t, name)).Should(gomega.Equal("4/8 NVIDIA-H200"))

	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(queueOf(t, name)).Should(gomega.SatisfyAll(
		gomega.HaveField("Annotations", gomega.HaveKeyWithValue("volcano.sh/card.quota", "{}")),
		gomega.HaveField("Spec.Capability", gomega.BeEmpty())))
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.And(gomega.HavePrefix("False/Draining"),
		gomega.ContainSubstring("these are gone: 1 unfinished pod and 1 unfinished PodGroup")))
	g.Expect(statusSummary(t, name)()).To(gomega.Equal("4/0 NVIDIA-H200"))
	g.Expect(admin.EventMessages(t, quota, "OverQuota")()).To(gomega.BeEmpty(), "deleting a CardQuota is no news of over-use")

	setPod(t, pod, setSucceeded)
	g.Consistently(readError(queueOf(t, name))).Should(gomega.Succeed(), "the PodGroup still names the queue")
	g.Expect(admin.Delete(t.Context(), group)).To(gomega.Succeed())
	g.Eventually(readError(queueOf(t, name))).Should(framework.NotFound())
	g.Eventually(readError(statusOf(t, name))).Should(framework.NotFound())
}

// TestQueueThatIsDrainedCanBeInherited: the Queue of a deleted CardQuota waits for its pod, when a second CardQuota
// names it. The second one takes the Queue over with its own quota of 8, and the deletion of the first one need not
// wait any longer.
func TestQueueThatIsDrainedCanBeInherited(t *testing.T) {
	g, name := startParallelTest(t)
	first := newQuota(name+"-1", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name })
	createReady(t, first)

	pod := newPod(name, name, "", 1)
	admin.CreateWithCleanup(t, pod)
	g.Eventually(statusOf(t, first.Name)).Should(gomega.HaveField("PendingSummary", "1 NVIDIA-H200"))
	g.Expect(admin.Delete(t.Context(), first)).To(gomega.Succeed())
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal("{}"))

	second := newQuota(name+"-2", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name })
	admin.CreateWithCleanup(t, second)
	g.Eventually(readError(statusOf(t, first.Name))).Should(framework.NotFound(), "the deletion does not wait for a queue that stays in use")
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":8}`))
	g.Eventually(cardQuotaCondition(t, second.Name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	admin.DeleteAndWait(t, pod)
}

// TestRetainedQueueIsUnchangedAndUnowned: with deletionPolicy Retain the Queue outlives its CardQuota. It keeps its
// spec and annotations. The operator removes its label and gives up all its fields, so that another field manager
// may change them without a conflict. User tuning-tool keeps the type that it has set. The metric of unowned quotas
// counts its 8 cards. A later CardQuota of the same name adopts the Queue. When this CardQuota is deleted, the
// Queue stays, because it was retained once.
func TestRetainedQueueIsUnchangedAndUnowned(t *testing.T) {
	g, name, quota := startQuotaTest(t, func(q *v1alpha1.CardQuota) { q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain })
	// The Queue is patched by its name, so the UID that the builder gives is removed.
	patchAs(t, builder.Queue(name).UID("").Obj(), "tuning-tool", func(q *v1beta1.Queue) { q.Spec.Type = "batch" })
	before := check.Value(queueOf(t, name)())(t)

	t.Cleanup(func() { admin.DeleteAndWait(t, before) })
	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(readError(statusOf(t, name))).Should(framework.NotFound())

	after := check.Value(queueOf(t, name)())(t)
	g.Expect(after.Annotations).To(gomega.Equal(before.Annotations))
	g.Expect(before.Labels).To(gomega.HaveKeyWithValue("app.kubernetes.io/managed-by", "cardquota"))
	g.Expect(after.Labels).NotTo(gomega.HaveKey("app.kubernetes.io/managed-by"))
	g.Expect(after.Spec).To(gomega.BeComparableTo(before.Spec))

	for _, fields := range after.ManagedFields {
		if fields.Subresource == "" {
			g.Expect(fields.Manager).To(gomega.Equal("tuning-tool"))
		}
		g.Expect(fields.Manager).NotTo(gomega.Equal("cardquota"))
	}

	g.Expect(after.ManagedFields).To(gomega.ContainElement(gomega.HaveField("Manager", "tuning-tool")))
	unowned := metricSeries("cardquota_unowned_quota_cards", "card", name)
	g.Eventually(unowned).Should(gomega.Equal(map[string]float64{"NVIDIA-H200": 8}), "it has no CardQuota, and counts")

	// Another CardQuota of that name adopts the queue without a conflict.
	again := newQuota(name, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(1)) })
	admin.CreateWithCleanup(t, again)
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":1}`))
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
	g.Eventually(admin.EventMessages(t, again, "Adopted")).Should(gomega.HaveLen(1))
	g.Eventually(unowned).Should(gomega.BeEmpty())

	admin.DeleteAndWait(t, again)
	g.Expect(readError(queueOf(t, name))()).To(gomega.Succeed(), "what was retained once is never deleted")
}

// TestDefaultQueueIsReleased: Volcano's scheduler creates the Queue "default" and needs it. A CardQuota may set its
// quota. When the CardQuota is deleted, annotations, labels, limits, priority and parent of the Queue are as before. The
// pod in it does not delay the deletion.
func TestDefaultQueueIsReleased(t *testing.T) {
	g, _ := startParallelTest(t)
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{"example.com/cost-centre": "1"}}}
	queue.Spec.Weight = 1
	queue.Spec.Parent = "root"
	g.Expect(admin.Create(t.Context(), queue, client.FieldOwner("vc-scheduler"))).To(gomega.Succeed())

	t.Cleanup(func() { admin.DeleteAndWait(t, queue) })
	quota := newQuota(uniqueName(t, ""), func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "default" })
	createReady(t, quota)

	admin.CreateWithCleanup(t, newPod(quota.Name, "default", "", 1))
	g.Expect(admin.Delete(t.Context(), quota)).To(gomega.Succeed())
	g.Eventually(readError(statusOf(t, quota.Name))).Should(framework.NotFound())

	after := check.Value(queueOf(t, "default")())(t)
	g.Expect(after.UID).To(gomega.Equal(queue.UID))
	g.Expect(after.Annotations).To(gomega.Equal(map[string]string{"example.com/cost-centre": "1"}))
	g.Expect(after.Labels).To(gomega.BeEmpty())
	g.Expect(after.Spec.Capability).To(gomega.BeEmpty())
	g.Expect(after.Spec.Priority).To(gomega.BeZero())
	g.Expect(after.Spec.Parent).To(gomega.Equal("root"))
}

// TestUnrelatedQueuesAreNeverTouched: a Queue without a CardQuota is never written, even if its quota annotation is
// damaged and a pod waits in it.
func TestUnrelatedQueuesAreNeverTouched(t *testing.T) {
	g, _ := startParallelTest(t)
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: uniqueName(t, ""), Annotations: map[string]string{"volcano.sh/card.quota": "{broken"}}}
	admin.CreateWithCleanup(t, queue)
	before := check.Value(queueOf(t, queue.Name)())(t)
	admin.CreateWithCleanup(t, newPod(queue.Name, queue.Name, "", 1))
	g.Consistently(queueOf(t, queue.Name)).Should(gomega.HaveField("ResourceVersion", before.ResourceVersion))
}
