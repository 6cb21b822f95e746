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
func (s *scene) kept() *v1alpha1.ServiceTypePolicy {
	stored := &corev1.ConfigMap{}
	check.NoError(s, s.client.Get(s.Context(), client.ObjectKey{Namespace: home, Name: policy.KeptConfigMapName}, stored))
	check.Equal(s.T, "owners, with which it would be deleted", 0, len(stored.OwnerReferences))
	return check.Value(policy.DecodeKept(stored.Data[policy.KeptConfigMapKey]))(s.T)
}

// TestThePolicyInForceIsKeptInAConfigMap: an operator that restarts while the ServiceTypePolicy is deleted
// reads from a ConfigMap that a tree of queues and a mapped card are in force. The ConfigMap has no owner, so
// that it outlives the policy. The tree is stored once, when it takes effect. It stays with a new policy that
// does not mention the hierarchy, and ends only with one that says Flat.
func TestThePolicyInForceIsKeptInAConfigMap(t *testing.T) {
	s := newScene(t, newConfigMap(place.Name, plain), newPolicy())
	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) {
		spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
		spec.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B", NodeSelector: map[string]string{"npu": "910b"}}}
	})

	s.settle()
	check.That(t, policy.IsTree(s.kept()), "the tree is not kept")
	check.Equal(t, "mapped cards", 1, len(policy.CardMappings(s.kept())))

	writes := s.writes
	s.settle()
	check.Equal(t, "writes without a change", writes, s.writes)

	check.NoError(t, s.client.Delete(s.Context(), s.policy()))
	s.settle()
	check.That(t, policy.IsTree(s.kept()), "the tree is gone with the policy")

	// A new policy that does not mention the hierarchy. The operator knows the last one, as after a restart.
	last := s.kept()
	s.r.inForce = func(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy { return policy.InForce(read, last) }
	check.NoError(t, s.client.Create(s.Context(), newPolicy()))
	s.settle()
	check.That(t, policy.IsTree(s.kept()), "the tree ends with a policy that does not say so")
	check.That(t, policy.IsTree(s.policy()), "the status does not name the tree that is in force")
	check.Contains(t, "configuration", s.text(), "queueHierarchy: Tree")

	s.change(func(spec *v1alpha1.ServiceTypePolicySpec) { spec.QueueHierarchy = v1alpha1.QueueHierarchyFlat })
	s.settle()
	check.That(t, !policy.IsTree(s.kept()), "the tree outlives an explicit Flat")
}
