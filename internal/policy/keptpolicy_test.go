package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// newTreePolicy returns a policy in force, with a tree and an entry for cards Ascend-910B.
func newTreePolicy() *v1alpha1.ServiceTypePolicy {
	policy := &v1alpha1.ServiceTypePolicy{}
	policy.Name = v1alpha1.PolicyName
	policy.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Spec.Scheduler.Names = []string{"volcano"}
	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	policy.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training", CardQuotas: 3}}
	policy.Status.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	return policy
}

// TestPolicyInForceIsKeptAsText: the operator keeps in a ConfigMap what is in force of a policy. So a tree and
// the entries of cards survive the deletion of the policy and a restart. The text has the tree, the entries and
// the names of schedulers. It changes with these only, so the operator does not write it at each change of the
// status.
func TestPolicyInForceIsKeptAsText(t *testing.T) {
	policy := newTreePolicy()
	text := check.Value(EncodeKept(policy))(t)

	kept := check.Value(DecodeKept(text))(t)
	check.That(t, IsTree(InForce(nil, kept)), "the text has no tree")
	check.Equal(t, "mappings", CardMappings(policy), CardMappings(InForce(nil, kept)))
	check.Equal(t, "schedulers", policy.Spec.Scheduler.Names, kept.Spec.Scheduler.Names)

	policy.Status.ServiceTypes[0].CardQuotas = 4
	policy.Status.ConfigHash = "another"
	policy.ResourceVersion = "2"
	check.Equal(t, "text after changes of other fields", text, check.Value(EncodeKept(policy))(t))

	policy.Status.QueueHierarchy = v1alpha1.QueueHierarchyFlat
	check.That(t, check.Value(EncodeKept(policy))(t) != text, "the text does not say that queues are flat")
}

// TestOnlyAWrittenFlatEndsTheTree: a policy with a tree may be deleted and created again, or lose its field
// queueHierarchy. That must not make all queues flat by mistake, which would lift the limits of parents. Only
// queueHierarchy Flat does.
func TestOnlyAWrittenFlatEndsTheTree(t *testing.T) {
	fresh := &v1alpha1.ServiceTypePolicy{}
	flat := &v1alpha1.ServiceTypePolicy{}
	flat.Spec.QueueHierarchy = v1alpha1.QueueHierarchyFlat
	written := newTreePolicy()
	written.Spec.QueueHierarchy = ""

	for t, tc := range check.Cases(t, map[string]struct {
		read, last *v1alpha1.ServiceTypePolicy
		want       v1alpha1.QueueHierarchy
	}{
		"the first policy, unset: Flat": {read: fresh, want: v1alpha1.QueueHierarchyFlat},
		"the first policy, Tree": {
			read: &v1alpha1.ServiceTypePolicy{Spec: newTreePolicy().Spec},
			want: v1alpha1.QueueHierarchyTree,
		},
		"created again, unset: the tree stays":  {fresh, newTreePolicy(), v1alpha1.QueueHierarchyTree},
		"created again, Flat":                   {flat, newTreePolicy(), v1alpha1.QueueHierarchyFlat},
		"the field was removed: the tree stays": {read: written, want: v1alpha1.QueueHierarchyTree},
	}) {
		check.Equal(t, "hierarchy", tc.want, EffectivePolicy(InForce(tc.read, tc.last)).QueueHierarchy)
	}
}

// TestATextThatIsNoPolicyIsRefused: a user who may write the ConfigMap that keeps the policy in force may have
// written anything. A text that is not a policy in force is an error, and not an empty policy. {} has not the name
// of the policy. The last text has it, but no service types in its status, which every policy in force has.
func TestATextThatIsNoPolicyIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", `{"metadata":{"name":"default"}}`} {
		_, err := DecodeKept(text)
		check.That(t, err != nil, "%q is read", text)
	}
}
