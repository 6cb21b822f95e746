package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// inTree is a policy that has taken effect, with a tree and a mapped card.
func inTree() *v1alpha1.ServiceTypePolicy {
	p := &v1alpha1.ServiceTypePolicy{}
	p.Name = v1alpha1.PolicyName
	p.Spec.QueueHierarchy = v1alpha1.QueueHierarchyTree
	p.Spec.Scheduler.Names = []string{"volcano"}
	p.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training", CardQuotas: 3}}
	p.Status.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	return p
}

// TestWhatIsInForceSurvivesItsText: tree, mapped cards and names of schedulers, and the text changes with
// these only.
func TestWhatIsInForceSurvivesItsText(t *testing.T) {
	p := inTree()
	text := check.Value(EncodeKept(p))(t)

	kept := check.Value(DecodeKept(text))(t)
	check.That(t, IsTree(InForce(nil, kept)), "the tree is lost")
	check.Equal(t, "mappings", CardMappings(p), CardMappings(InForce(nil, kept)))
	check.Equal(t, "schedulers", p.Spec.Scheduler.Names, kept.Spec.Scheduler.Names)

	p.Status.ServiceTypes[0].CardQuotas = 4
	p.Status.ConfigHash = "another"
	p.ResourceVersion = "2"
	check.Equal(t, "text after changes that decide nothing", text, check.Value(EncodeKept(p))(t))

	p.Status.QueueHierarchy = v1alpha1.QueueHierarchyFlat
	flat := check.Value(EncodeKept(p))(t)
	check.That(t, flat != text, "the text does not say that queues are flat")
}

// TestOnlyAWrittenFlatEndsTheTree: a policy is deleted, and created again without queueHierarchy.
func TestOnlyAWrittenFlatEndsTheTree(t *testing.T) {
	fresh := &v1alpha1.ServiceTypePolicy{}
	flat := &v1alpha1.ServiceTypePolicy{}
	flat.Spec.QueueHierarchy = v1alpha1.QueueHierarchyFlat
	written := inTree()
	written.Spec.QueueHierarchy = ""

	for t, tc := range check.Cases(t, map[string]struct {
		read, last *v1alpha1.ServiceTypePolicy
		want       v1alpha1.QueueHierarchy
	}{
		"a new cluster":            {fresh, nil, v1alpha1.QueueHierarchyFlat},
		"a new cluster with trees": {&v1alpha1.ServiceTypePolicy{Spec: inTree().Spec}, nil, v1alpha1.QueueHierarchyTree},
		"created again, unset":     {fresh, inTree(), v1alpha1.QueueHierarchyTree},
		"created again, Flat":      {flat, inTree(), v1alpha1.QueueHierarchyFlat},
		"the field was removed":    {written, nil, v1alpha1.QueueHierarchyTree},
	}) {
		check.Equal(t, "hierarchy", tc.want, EffectivePolicy(InForce(tc.read, tc.last)).QueueHierarchy)
	}
}

// TestATextThatIsNoPolicyIsRefused: a user may have written anything.
func TestATextThatIsNoPolicyIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "{}", `{"metadata":{"name":"default"}}`} {
		_, err := DecodeKept(text)
		check.That(t, err != nil, "%q is read", text)
	}
}
