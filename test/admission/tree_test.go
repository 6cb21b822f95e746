package admission

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// newTreeQuota returns a CardQuota of a tree: a parent without a service type, or a child.
func newTreeQuota(name, parent string, quota, deserved int64) *v1alpha1.CardQuota {
	return newQuota(name, func(q *v1alpha1.CardQuota) {
		q.Spec.Parent = parent
		if parent == "" {
			q.Spec.ServiceType = ""
		}
		q.Spec.Cards[0].Quota = &quota
		q.Spec.Cards[0].Deserved = &deserved
	})
}

// treeTests: a CardQuota that forms no tree is refused: a quota above its parent's, children with more deserved
// cards than their parent, a cycle, a parent with a service type, or slices of a card of which the parent has whole
// ones. Jobs start in leaves only. With a warning, children may be created first, parents deleted first, and a parent
// may deserve less than its child.
func treeTests(t *testing.T, w *env) {
	g := framework.NewGomega(t)
	policy := builder.ServiceTypePolicy().With(func(p *v1alpha1.ServiceTypePolicy) { p.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree }).Obj()
	w.CreateWithCleanup(t, policy)
	t.Cleanup(func() { w.endTree(t, policy) })

	tenant := newTreeQuota("tenant", "", 8, 6)
	project := newTreeQuota("project", "tenant", 8, 4)
	g.Eventually(w.warnings.record(func() error { // when the operator has seen the policy
		return w.dryRunCreate(t, project.DeepCopy())
	})).Should(gomega.ContainSubstring("there is no CardQuota tenant yet"), "children may come first")

	w.CreateWithCleanup(t, tenant)
	w.waitUntilDenied(t, newTreeQuota("wide", "tenant", 9, 2), "cardquotas.cardquota.dev", "is 9, but parent tenant has 8")
	w.CreateWithCleanup(t, project)
	w.waitUntilDenied(t, newTreeQuota("greedy", "tenant", 8, 3), "the children of tenant have 7 together (3 here, 4 by project), but tenant has 6, 1 too many")
	w.waitUntilPatchDenied(t, tenant, `{"spec":{"parent":"project"}}`, "the parents form a cycle: tenant names project names tenant again")
	w.waitUntilPatchDenied(t, tenant, `{"spec":{"serviceType":"training"}}`, "it is the parent of project, and only leaves take jobs")
	slice := newTreeQuota("slices", "tenant", 1, 1)
	slice.Spec.Cards[0].Name = "NVIDIA-H200/mig-1g.18gb-mixed"
	w.waitUntilDenied(t, slice, "it grants 8 NVIDIA-H200, but whole cards never cover their slices and shares")

	g.Expect(w.warnings.record(func() error {
		return framework.MergePatch(t, w, tenant, `{"spec":{"cards":[{"name":"NVIDIA-H200","quota":8,"deserved":3}]}}`, client.DryRunAll)
	})()).
		To(gomega.ContainSubstring("changes what counts in CardQuota project: NVIDIA-H200: deserved is 4, but parent tenant has 3"))
	g.Expect(w.warnings.record(func() error { return w.Delete(t.Context(), tenant.DeepCopy(), client.DryRunAll) })()).
		To(gomega.ContainSubstring("it is the parent of project"), "deleting a directory works in any order")

	g.Eventually(framework.Read(t.Context(), w, client.ObjectKey{Name: "project"}, func(queue *v1beta1.Queue) string { // when the operator has written the tree
		return queue.Spec.Parent
	})).Should(gomega.Equal("tenant"))
	w.waitUntilDenied(t, deploymentOf("x", podSpecWith("volcano", gpu, 1), map[string]string{v1beta1.QueueNameAnnotationKey: "tenant"}), "Queue <tenant> is the parent of other queues and takes no jobs")
}

// endTree ends the tree, which would outlive its policy.
func (w *env) endTree(t *testing.T, policy *v1alpha1.ServiceTypePolicy) {
	g := framework.NewGomega(t)
	ctx := context.WithoutCancel(t.Context())
	g.Expect(w.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"queueHierarchy":"Flat"}}`)))).To(gomega.Succeed())
	g.Eventually(framework.Read(ctx, w, client.ObjectKeyFromObject(policy), func(policy *v1alpha1.ServiceTypePolicy) v1alpha1.QueueHierarchy {
		return policy.Status.QueueHierarchy
	})).Should(gomega.Equal(v1alpha1.QueueHierarchyFlat))
}
