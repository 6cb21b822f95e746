package integration

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// createReady creates a CardQuota and waits until its queue has the quota and is open.
func createReady(t *testing.T, quota *v1alpha1.CardQuota) {
	g := requireControlPlane(t)
	admin.CreateWithCleanup(t, quota)
	setState(t, quota.QueueName(), v1beta1.QueueStateOpen)
	g.Eventually(cardQuotaCondition(t, quota.Name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
}

// startQuotaTest starts a parallel test with a CardQuota of its own, changed or not, which is
// ready.
func startQuotaTest(t *testing.T, changes ...func(*v1alpha1.CardQuota)) (g *gomega.WithT, name string, quota *v1alpha1.CardQuota) {
	g, name = startParallelTest(t)
	quota = newQuota(name, nil)
	for _, change := range changes {
		change(quota)
	}
	createReady(t, quota)
	return g, name, quota
}

// TestQueueIsCreatedFromCardQuota: a CardQuota of 8 H200, 64 CPU and 256Gi with weight 7 has a Queue with these numbers,
// and with the priority of its service type. The operator is the only field manager. It creates the Queue again after a
// user deleted it, and follows changes of the spec. A limit that is no longer in the spec is removed.
func TestQueueIsCreatedFromCardQuota(t *testing.T) {
	g, name, quota := startQuotaTest(t, func(q *v1alpha1.CardQuota) { q.Spec.Weight = ptr.To(int32(7)) })
	queue := check.Value(queueOf(t, name)())(t)
	g.Expect(queue.Annotations).To(gomega.Equal(map[string]string{
		"volcano.sh/card.quota":       `{"NVIDIA-H200":8}`,
		"volcano.sh/card.allocated":   `{}`,
		"volcano.sh/service.type":     "training",
		"volcano.sh/closed-by-parent": "false",
		"cardquota.dev/created-by":    name,
	}))

	g.Expect(queue.Spec.Priority).To(gomega.Equal(int32(20000)))
	g.Expect(*queue.Spec.Reclaimable).To(gomega.BeTrue())
	g.Expect(queue.Spec.Weight).To(gomega.Equal(int32(7)))
	g.Expect(queue.Spec.Parent).To(gomega.Equal("root"))
	g.Expect(queue.Spec.Capability.Cpu().String()).To(gomega.Equal("64"))
	g.Expect(queue.Spec.Capability.Memory().String()).To(gomega.Equal("256Gi"))

	for _, fields := range queue.ManagedFields {
		if fields.Subresource == "" {
			g.Expect(fields.Manager).To(gomega.Equal("cardquota"))
			g.Expect(fields.Operation).To(gomega.Equal(metav1.ManagedFieldsOperationApply))
		}
	}

	g.Expect(admin.Delete(t.Context(), queue)).To(gomega.Succeed())
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":8}`))
	g.Eventually(admin.EventMessages(t, quota, "QueueRecreated")).Should(gomega.HaveLen(1))

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) {
		q.Spec.Cards = []v1alpha1.Card{{Name: "Ascend-910B", Quota: ptr.To(int64(2))}}
		q.Spec.Resources = &v1alpha1.Resources{CPU: parseQuantity("8")}
		q.Spec.ServiceType = "notebook"
	})

	g.Eventually(func(g gomega.Gomega) {
		queue, err := queueOf(t, name)()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue("volcano.sh/card.quota", `{"Ascend-910B":2}`))
		g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue("volcano.sh/service.type", "notebook"))
		g.Expect(queue.Spec.Capability.Cpu().String()).To(gomega.Equal("8"))
		g.Expect(queue.Spec.Capability).NotTo(gomega.HaveKey(gomega.BeEquivalentTo("memory")), "a limit that is not wanted any more is given up")
		g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue("volcano.sh/unlimited.resources", "memory"))
		g.Expect(queue.Spec.Priority).To(gomega.BeZero(), "a type without a meaning of its own has no priority")
	}).Should(gomega.Succeed())

	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Resources.Memory = parseQuantity("0") })
	g.Eventually(func(g gomega.Gomega) {
		queue, err := queueOf(t, name)()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(queue.Spec.Capability).To(gomega.HaveKeyWithValue(gomega.BeEquivalentTo("memory"), gomega.Satisfy(equalQuantity("0"))))
		g.Expect(queue.Annotations).NotTo(gomega.HaveKey("volcano.sh/unlimited.resources"), "both are limited")
	}).Should(gomega.Succeed())
}

// TestForeignFieldsAreLeftAlone: the operator owns only the fields that it writes. Annotations, another resource
// and the type that other managers write into the Queue stay when the quota changes. The CardQuota has no selector,
// so it does not own the annotation of one.
func TestForeignFieldsAreLeftAlone(t *testing.T) {
	g, name, quota := startQuotaTest(t)
	patchAs(t, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}, "tuning-tool", func(q *v1beta1.Queue) {
		q.Annotations["example.com/cost-centre"] = "42"
		q.Spec.Capability["example.com/fpga"] = *parseQuantity("3")
		q.Annotations[selectorKey] = `{}` // a CardQuota without a selector only removes it
		q.Spec.Type = "batch"
	})

	patchAs(t, builder.Queue(name).UID("").Obj(), "vc-controller-manager", func(q *v1beta1.Queue) {
		q.Annotations["volcano.sh/closed-by-parent"] = "true"
	})
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(9)) })
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":9}`))
	g.Consistently(queueAnnotation(t, name, "volcano.sh/closed-by-parent")).Should(gomega.Equal("true"))

	queue := check.Value(queueOf(t, name)())(t)
	g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue("cardquota.dev/created-by", name), "the record of who created the Queue stays")
	g.Expect(admin.EventMessages(t, quota, "Adopted")()).To(gomega.BeEmpty(), "its own Queue is not taken over")
	g.Expect(admin.EventMessages(t, quota, "ForeignChangeReplaced")()).To(gomega.BeEmpty())
	g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue("example.com/cost-centre", "42"))
	g.Expect(queue.Annotations).To(gomega.HaveKeyWithValue(selectorKey, `{}`))
	g.Expect(queue.Spec.Capability).To(gomega.HaveKey(gomega.BeEquivalentTo("example.com/fpga")))
	g.Expect(queue.Spec.Type).To(gomega.Equal("batch"))
}

// TestQueueDriftIsRevertedAndTheWriterNamed: a user edits the quota (800 instead of 8) and the priority in the
// Queue. The operator writes its values again, and condition and event name the user's tool. The condition stays
// until the spec changes, so that an administrator sees it later.
func TestQueueDriftIsRevertedAndTheWriterNamed(t *testing.T) {
	g, name, quota := startQuotaTest(t)
	edited := time.Now()

	patchAs(t, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}, "kubectl-edit", func(q *v1beta1.Queue) {
		q.Annotations["volcano.sh/card.quota"] = `{"NVIDIA-H200":800}`
		q.Spec.Priority = 1
	})
	g.Eventually(queueOf(t, name)).Should(gomega.SatisfyAll(
		gomega.HaveField("Annotations", gomega.HaveKeyWithValue("volcano.sh/card.quota", `{"NVIDIA-H200":8}`)), gomega.HaveField("Spec.Priority", int32(20000))))

	t.Logf("put back after %s", time.Since(edited).Round(time.Millisecond))
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.SatisfyAll(
		gomega.HavePrefix("True/ForeignChangeReplaced: kubectl-edit wrote spec.priority, volcano.sh/card.quota on queue "+name),
		gomega.ContainSubstring("replaced at 20")))
	g.Expect(cardQuotaCondition(t, name, "Ready")()).To(gomega.HavePrefix("True/Ready"))
	g.Eventually(admin.EventMessages(t, quota, "ForeignChangeReplaced")).Should(gomega.HaveLen(1))

	// The condition stays until the spec changes, with one event.
	g.Consistently(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/ForeignChangeReplaced"))
	g.Expect(admin.EventMessages(t, quota, "ForeignChangeReplaced")()).To(gomega.HaveLen(1))
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(9)) })
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
}

// TestRepeatedDriftIsRevertedOnceASecond: another writer changes the quota in the Queue four times. The operator
// writes its own value again at most once a second, with one event. It writes the status once a second and twice more at
// most (mostWrites). A change of the spec is written at once all the same.
func TestRepeatedDriftIsRevertedOnceASecond(t *testing.T) {
	const model = "NVIDIA-WAR" // of this test alone: other tests change what there is of a model
	g, name, quota := startQuotaTest(t, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = model })
	statuses := countWrites(t, &v1alpha1.CardQuotaList{}, name)

	const (
		ours   = `{"` + model + `":8}`
		theirs = `{"` + model + `":800}`
	)

	began := time.Now()
	for range 4 {
		patchAs(t, builder.Queue(name).UID("").Obj(), "rival", func(q *v1beta1.Queue) { q.Annotations[quotaKey] = theirs })
		g.Eventually(queueAnnotation(t, name, quotaKey)).Should(gomega.Equal(ours))
	}

	g.Expect(time.Since(began)).To(gomega.BeNumerically(">=", 2900*time.Millisecond)) // three seconds between four writes
	g.Eventually(admin.EventMessages(t, quota, "ForeignChangeReplaced")).Should(gomega.HaveLen(1), "equal events are one that is counted")
	g.Expect(statuses()).To(gomega.BeNumerically("<=", mostWrites(began)))

	// A change of the spec does not wait for the backoff.
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(9)) })
	g.Eventually(queueAnnotation(t, name, quotaKey)).Should(gomega.Equal(`{"` + model + `":9}`))
}

// TestUnmanagedQueueIsAdopted: a user created the Queue before the CardQuota. The operator writes its own fields, keeps
// the others, and names in condition QueueSynced who wrote the quota before. It does not mark the Queue as created by
// itself, so it will not delete it.
func TestUnmanagedQueueIsAdopted(t *testing.T) {
	g, name := startParallelTest(t)
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volcano.sh/card.quota": `{"NVIDIA-H800":1}`}}}
	queue.Spec.Deserved = corev1.ResourceList{"cpu": *parseQuantity("4")}
	g.Expect(admin.Create(t.Context(), queue, client.FieldOwner("kubectl-create"))).To(gomega.Succeed())

	quota := newQuota(name, nil)
	createReady(t, quota)
	g.Expect(queueAnnotation(t, name, "volcano.sh/card.quota")()).To(gomega.Equal(`{"NVIDIA-H200":8}`))
	g.Expect(cardQuotaCondition(t, name, "QueueSynced")()).To(gomega.ContainSubstring("kubectl-create wrote"))
	g.Eventually(admin.EventMessages(t, quota, "Adopted")).Should(gomega.ConsistOf(
		"queue " + name + " already existed and now carries this quota; it will not be deleted with this CardQuota"))

	live := check.Value(queueOf(t, name)())(t)
	g.Expect(live.Spec.Deserved).To(gomega.HaveLen(1))
	g.Expect(live.Annotations).NotTo(gomega.HaveKey("cardquota.dev/created-by"))
	t.Cleanup(func() { admin.DeleteAndWait(t, queue) })
}

// TestWeightOfAnotherManagerIsNotFought: the weight of a queue is no limit, and tools may tune it. When another
// manager sets 3 and the CardQuota wants 5, the operator leaves 3 and reports the conflict. It still writes the other
// fields. When the CardQuota has no weight, the conflict ends.
func TestWeightOfAnotherManagerIsNotFought(t *testing.T) {
	g, name, quota := startQuotaTest(t, func(q *v1alpha1.CardQuota) { q.Spec.Weight = ptr.To(int32(5)) })
	patchAs(t, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}, "kubectl-edit", func(q *v1beta1.Queue) { q.Spec.Weight = 3 })
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix(
		"True/WeightConflict: queue " + name + " carries this quota, but spec.weight is managed by kubectl-edit and was left alone instead of becoming 5"))
	g.Consistently(queueOf(t, name)).Should(gomega.HaveField("Spec.Weight", int32(3)))
	g.Eventually(admin.EventMessages(t, quota, "WeightConflict")).Should(gomega.HaveLen(1))

	// The other fields are still maintained.
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = ptr.To(int64(2)) })
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":2}`))

	// Without a wanted value there is no conflict.
	patchAs(t, quota, "user", func(q *v1alpha1.CardQuota) { q.Spec.Weight = nil })
	g.Eventually(cardQuotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/Synced"))
}

// TestTheOlderOfTwoCardQuotasHasTheQueue: two CardQuotas name one queue, with quotas of 8 and 99. The older one has
// it, and the other one reports the conflict. When the older one is deleted, the same Queue, which is not created
// again, gets the quota of 99.
func TestTheOlderOfTwoCardQuotasHasTheQueue(t *testing.T) {
	g, name := startParallelTest(t)
	first := newQuota(name+"-1", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name })
	createReady(t, first)

	second := newQuota(name+"-2", func(q *v1alpha1.CardQuota) {
		q.Spec.QueueName = name
		q.Spec.Cards[0].Quota = ptr.To(int64(99))
	})

	admin.CreateWithCleanup(t, second)
	g.Eventually(cardQuotaCondition(t, second.Name, "QueueSynced")).Should(gomega.HavePrefix(
		"False/QueueConflict: queue " + name + " belongs to the older CardQuota " + first.Name))

	g.Expect(cardQuotaCondition(t, second.Name, "Ready")()).To(gomega.HavePrefix("False/QueueConflict"))
	g.Eventually(admin.EventMessages(t, second, "QueueConflict")).Should(gomega.HaveLen(1))
	g.Consistently(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":8}`))

	before := check.Value(queueOf(t, name)())(t)

	admin.DeleteAndWait(t, first)
	g.Eventually(queueAnnotation(t, name, "volcano.sh/card.quota")).Should(gomega.Equal(`{"NVIDIA-H200":99}`))
	g.Eventually(cardQuotaCondition(t, second.Name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	g.Expect(queueOf(t, name)()).To(gomega.HaveField("UID", before.UID), "the queue was handed over, not made again")
}

// TestQueueStateIsShown: Volcano opens and closes Queues. A queue that is not open starts no pod, so the CardQuota
// is not ready then and says why.
func TestQueueStateIsShown(t *testing.T) {
	g, name := startParallelTest(t)
	admin.CreateWithCleanup(t, newQuota(name, nil))
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("False/QueueNotOpen: queue " + name + " is not open yet"))
	setState(t, name, v1beta1.QueueStateOpen)
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("True/Ready"))
	setState(t, name, v1beta1.QueueStateClosed)
	g.Eventually(cardQuotaCondition(t, name, "Ready")).Should(gomega.HavePrefix("False/QueueNotOpen: queue " + name + " is Closed"))
	g.Expect(statusOf(t, name)()).To(gomega.HaveField("Queue", &v1alpha1.QueueStatus{Name: name, State: "Closed"}))
}
