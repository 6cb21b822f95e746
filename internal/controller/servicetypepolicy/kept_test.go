package servicetypepolicy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/check"
)

// kept reads the policy that outlives the ServiceTypePolicy.
func (w *scene) kept() *v1alpha1.ServiceTypePolicy {
	stored := &corev1.ConfigMap{}
	w.must(w.client.Get(w.Context(), client.ObjectKey{Namespace: home, Name: policy.KeptConfigMapName}, stored))
	check.Equal(w.T, "owners, with which it would be deleted", 0, len(stored.OwnerReferences))
	return check.Value(policy.DecodeKept(stored.Data[policy.KeptConfigMapKey]))(w.T)
}

// TestThePolicyInForceIsKeptInAConfigMap: an operator that restarts while the ServiceTypePolicy is deleted reads from a
// ConfigMap that a tree of queues and a mapped card are in force. The ConfigMap has no owner, so that it outlives the
// policy. The tree is stored when it takes effect. It stays with a new policy that does not mention the hierarchy, and
// ends only with one that says Flat.
func TestThePolicyInForceIsKeptInAConfigMap(t *testing.T) {
	w := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	w.change(func(s *v1alpha1.ServiceTypePolicySpec) {
		s.QueueHierarchy = v1alpha1.QueueHierarchyTree
		s.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B", NodeSelector: map[string]string{"npu": "910b"}}}
	})

	w.settle()
	check.That(t, policy.IsTree(w.kept()), "the tree is not kept")
	check.Equal(t, "mapped cards", 1, len(policy.CardMappings(w.kept())))

	writes := w.writes
	w.settle()
	check.Equal(t, "writes without a change", writes, w.writes)

	w.must(w.client.Delete(w.Context(), w.policy()))
	w.settle()
	check.That(t, policy.IsTree(w.kept()), "the tree is gone with the policy")

	// A new policy that does not mention the hierarchy.
	last := w.kept()
	w.r.inForce = func(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy { return policy.InForce(read, last) }
	w.must(w.client.Create(w.Context(), newPolicy()))
	w.settle()
	check.That(t, policy.IsTree(w.kept()), "the tree ends with a policy that does not say so")
	check.That(t, policy.IsTree(w.policy()), "the status does not name the tree that is in force")
	check.Contains(t, "configuration", w.text(), "queueHierarchy: Tree")

	w.change(func(s *v1alpha1.ServiceTypePolicySpec) { s.QueueHierarchy = v1alpha1.QueueHierarchyFlat })
	w.settle()
	check.That(t, !policy.IsTree(w.kept()), "the tree outlives an explicit Flat")
}
