package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// setMode changes the mode of the policy.
func (e *treeEnv) setMode(t *testing.T, mode v1alpha1.Mode) {
	policy := framework.Fetch[v1alpha1.ServiceTypePolicy](t, e, client.ObjectKey{Name: v1alpha1.PolicyName})
	base := policy.DeepCopy()
	policy.Spec.Mode = mode
	e.g.Expect(e.Patch(t.Context(), policy, client.MergeFrom(base))).To(gomega.Succeed())
}

// expectCondition expects "status/reason" of a condition.
func (e *treeEnv) expectCondition(t *testing.T, object client.Object, kind, want string) {
	e.g.Eventually(e.Condition(t, object, kind)).Should(gomega.HavePrefix(want+":"), "%s of %T %s", kind, object, object.GetName())
}

// expectSynced expects that the Queue of a CardQuota is written. The reason may name the user whose fields the operator
// replaced.
func (e *treeEnv) expectSynced(t *testing.T, quotas ...*v1alpha1.CardQuota) {
	for _, quota := range quotas {
		e.g.Eventually(e.Condition(t, quota, "QueueSynced")).Should(gomega.HavePrefix("True/"), quota.Name)
	}
}

// describeFields returns what users and the operator write into a Queue, and whether the operator owns any of it, for use
// in Eventually. Volcano's own annotation is left out.
func (e *treeEnv) describeFields(t *testing.T, name string) func() (string, error) {
	return framework.Read(t.Context(), e, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
		delete(queue.Annotations, "volcano.sh/closed-by-parent")
		isOurs := slices.ContainsFunc(queue.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == v1alpha1.FieldManager })
		spec := queue.Spec
		return fmt.Sprintf("annotations %v, labels %v, priority %d, reclaimable %t, weight %d, parent %s, CPU %s, memory %s, owned by the operator: %t", queue.Annotations,
			queue.Labels, spec.Priority, ptr.Deref(spec.Reclaimable, false), spec.Weight, spec.Parent, spec.Capability.Cpu(), spec.Capability.Memory(), isOurs)
	})
}

// newObserveEnv is a cluster with Volcano's controllers and webhooks, and a policy that observes. It has the objects of
// createAdoption.
func newObserveEnv(t *testing.T) (e *treeEnv, policy *v1alpha1.ServiceTypePolicy, old, fresh *v1alpha1.CardQuota) {
	e = newVolcanoEnv(t)
	policy, old, fresh = e.createAdoption(t, v1alpha1.ModeObserve)
	return e, policy, old, fresh
}

// createAdoption creates a policy of a mode, and what a cluster in use has. A user wrote Queue old, with 4 CPU, priority
// 7, weight 3 and a quota of 2 H200. CardQuotas old and fresh grant 8 H200 and 64 CPU each. Queue fresh does not exist.
func (e *treeEnv) createAdoption(t *testing.T, mode v1alpha1.Mode) (policy *v1alpha1.ServiceTypePolicy, old, fresh *v1alpha1.CardQuota) {
	queue := builder.Queue("old").UID("").Obj()
	queue.Annotations = map[string]string{v1alpha1.AnnotationCardQuota: `{"NVIDIA-H200":2}`}
	queue.Spec = v1beta1.QueueSpec{Weight: 3, Priority: 7, Reclaimable: ptr.To(true), Capability: corev1.ResourceList{"cpu": *parseQuantity("4")}}

	policy = builder.ServiceTypePolicy().Obj()
	policy.Spec.Mode = mode
	old = newQuota("old", nil)
	fresh = newQuota("fresh", nil)
	for _, object := range []client.Object{queue, policy, old, fresh} {
		e.g.Expect(e.Create(t.Context(), object, client.FieldOwner("user"))).To(gomega.Succeed())
	}
	return policy, old, fresh
}

// expectNothingWritten expects that the operator has written only its own objects: no Queue fresh, no finalizer, no
// configuration and no PriorityClass.
func (e *treeEnv) expectNothingWritten(t *testing.T, quotas ...*v1alpha1.CardQuota) {
	ctx := t.Context()
	e.g.Expect(e.Get(ctx, client.ObjectKey{Name: "fresh"}, &v1beta1.Queue{})).To(framework.NotFound())
	e.g.Expect(e.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: schedulerConfigMap}, &corev1.ConfigMap{})).To(framework.NotFound())

	for _, quota := range quotas {
		stored := framework.Fetch[v1alpha1.CardQuota](t, e, client.ObjectKeyFromObject(quota))
		e.g.Expect(stored.Finalizers).To(gomega.BeEmpty(), quota.Name)
		e.g.Expect(stored.Status.Mode).To(gomega.Equal(v1alpha1.ModeObserve), quota.Name)
	}

	var classes schedulingv1.PriorityClassList
	e.g.Expect(e.List(ctx, &classes, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.FieldManager})).To(gomega.Succeed())
	e.g.Expect(classes.Items).To(gomega.BeEmpty())
}

// TestObserveEnforceAndBack: a policy observes from the beginning, so nothing of the cluster changes. With Enforce the
// operator writes 8 H200 into Queue old, and creates Queue fresh, in which a job runs then. Back in Observe, Queue old is
// as the user wrote it. Queue fresh stays for the job, without a quota, and the policy says what it waits for. When the
// job is gone, the operator deletes Queue fresh, and the policy is Ready: everything is restored.
func TestObserveEnforceAndBack(t *testing.T) {
	e, policy, old, fresh := newObserveEnv(t)
	before, err := e.describeFields(t, "old")()
	e.g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, quota := range []*v1alpha1.CardQuota{old, fresh} {
		e.expectCondition(t, quota, "Ready", "True/Observing")
		e.expectCondition(t, quota, "Enforced", "False/Observing")
	}

	e.expectCondition(t, policy, "Ready", "True/Observing")
	e.expectNothingWritten(t, old, fresh)
	e.g.Consistently(e.describeFields(t, "old")).Should(gomega.Equal(before))

	e.setMode(t, v1alpha1.ModeEnforce)
	e.expectSynced(t, old, fresh)
	e.g.Eventually(e.describeFields(t, "old")).Should(gomega.And(
		gomega.ContainSubstring(`volcano.sh/card.quota:{"NVIDIA-H200":8}`), gomega.ContainSubstring("priority 20000"), gomega.ContainSubstring("CPU 64")))
	e.expectCondition(t, policy, "ConfigSynced", "True/Synced")

	job := builder.PodGroup(labNamespace, "job").UID("").Queue("fresh").Obj()
	e.g.Eventually(func() error { return e.Create(t.Context(), job.DeepCopy()) }).Should(gomega.Succeed(), "Volcano opens Queue fresh first")
	e.setMode(t, v1alpha1.ModeObserve)
	e.g.Eventually(e.describeFields(t, "old")).Should(gomega.Equal(before))
	e.expectCondition(t, fresh, "QueueSynced", "False/Restoring")
	e.g.Eventually(e.Condition(t, policy, "Ready")).Should(gomega.And(gomega.HavePrefix("False/Restoring"), gomega.HaveSuffix("of CardQuota fresh")))
	e.g.Eventually(e.describeFields(t, "fresh")).ShouldNot(gomega.ContainSubstring("card.quota"))

	e.g.Expect(e.Delete(t.Context(), job)).To(gomega.Succeed())
	e.expectCondition(t, policy, "Ready", "True/Observing")
	e.g.Eventually(e.IsGone(t.Context(), builder.Queue("fresh").Obj())).Should(gomega.BeTrue())
}

// TestTheWayBackSurvivesTheOperatorsEnd: the operator ends at a random moment of the way back, five times. Each time the
// next one restores Queue old, and deletes Queue fresh, which has no members. A mode that is changed twice at once ends in the last
// one.
func TestTheWayBackSurvivesTheOperatorsEnd(t *testing.T) {
	e, policy, old, fresh := newObserveEnv(t)
	before, err := e.describeFields(t, "old")()
	e.g.Expect(err).NotTo(gomega.HaveOccurred())

	for round := range 5 {
		e.setMode(t, v1alpha1.ModeEnforce)
		e.expectSynced(t, old, fresh)

		e.setMode(t, v1alpha1.ModeObserve)
		if round == 0 {
			e.setMode(t, v1alpha1.ModeEnforce)
			e.setMode(t, v1alpha1.ModeObserve)
		}
		time.Sleep(rand.N(400 * time.Millisecond)) // where the operator ends
		e.g.Expect((*e.stopOperator)()).To(gomega.Succeed())
		e.startOperator(t)

		e.g.Eventually(e.describeFields(t, "old")).Should(gomega.Equal(before), "round %d", round)
		e.g.Eventually(e.IsGone(t.Context(), builder.Queue("fresh").Obj())).Should(gomega.BeTrue(), "round %d", round)
		e.expectCondition(t, policy, "Ready", "True/Observing")
	}
	e.expectCondition(t, old, "Ready", "True/Observing")
	e.expectCondition(t, fresh, "Ready", "True/Observing")
}

// TestObserveStaysAfterThePolicy: the policy is deleted while it observes, and the operator restarts. Nothing is
// enforced then either, also of a CardQuota that is created now. CardQuotas can be deleted without a trace.
func TestObserveStaysAfterThePolicy(t *testing.T) {
	e, policy, old, fresh := newObserveEnv(t)
	e.expectCondition(t, policy, "Ready", "True/Observing")
	e.expectCondition(t, old, "Ready", "True/Observing")
	kept := client.ObjectKey{Namespace: systemNamespace, Name: "cardquota-policy-in-force"}
	e.g.Eventually(func() error { return e.Get(t.Context(), kept, &corev1.ConfigMap{}) }).Should(gomega.Succeed())

	e.DeleteAndWait(t, policy)
	e.g.Expect((*e.stopOperator)()).To(gomega.Succeed())
	e.startOperator(t)

	late := newQuota("late", nil)
	e.g.Expect(e.Create(t.Context(), late)).To(gomega.Succeed())
	e.expectCondition(t, late, "Ready", "True/Observing")
	e.g.Expect(e.Get(t.Context(), client.ObjectKey{Name: "late"}, &v1beta1.Queue{})).To(framework.NotFound())
	e.expectNothingWritten(t, old, fresh, late)
	e.DeleteAndWait(t, late)
}

// TestTheWayBackOfATree: the operator made Queue tenant, web below it, and Queue default. A user put Queue own below tenant.
// In Observe, web is deleted first, and tenant waits for own, which its condition names. When the user has moved own away,
// tenant is deleted, too. Queue default stays, without a quota: Volcano needs it.
func TestTheWayBackOfATree(t *testing.T) {
	e := newTreeEnv(t)
	e.create(t, []branch{{"tenant", "", 16, 16, 8, false}, {"web", "tenant", 8, 8, 4, true}})
	system := newQuota("system", func(q *v1alpha1.CardQuota) { q.Spec.QueueName = "default" })
	e.g.Expect(e.Create(t.Context(), system)).To(gomega.Succeed())
	for _, name := range []string{"tenant", "web", "system"} {
		e.g.Eventually(e.quotaCondition(t, name, "QueueSynced")).Should(gomega.HavePrefix("True/"), name)
	}

	own := builder.Queue("own").UID("").Obj()
	own.Spec = v1beta1.QueueSpec{Weight: 1, Parent: "tenant"}
	e.g.Expect(e.Create(t.Context(), own)).To(gomega.Succeed())
	e.setMode(t, v1alpha1.ModeObserve)
	e.g.Eventually(e.IsGone(t.Context(), builder.Queue("web").Obj())).Should(gomega.BeTrue())
	e.g.Eventually(e.quotaCondition(t, "tenant", "QueueSynced")).Should(gomega.And(gomega.HavePrefix("False/Restoring"), gomega.ContainSubstring("any more: own;")))

	base := framework.Fetch[v1beta1.Queue](t, e, client.ObjectKey{Name: "own"})
	moved := base.DeepCopy()
	moved.Spec.Parent = "root"
	e.g.Expect(e.Patch(t.Context(), moved, client.MergeFrom(base))).To(gomega.Succeed())
	e.g.Eventually(e.IsGone(t.Context(), builder.Queue("tenant").Obj())).Should(gomega.BeTrue())
	e.expectCondition(t, builder.ServiceTypePolicy().Obj(), "Ready", "True/Observing")
	e.g.Expect(e.describeFields(t, "default")()).To(gomega.And(gomega.Not(gomega.ContainSubstring("card.quota")), gomega.HaveSuffix("operator: false")))
}
