package validation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// policyWarnings are the warnings of a change of the policy from one spec to another, with a base
// that is not known.
func policyWarnings(before, after *v1alpha1.ServiceTypePolicySpec, quotas ...*v1alpha1.CardQuota) []string {
	object := &v1alpha1.ServiceTypePolicy{Spec: *after}
	old := (*v1alpha1.ServiceTypePolicy)(nil)
	if before != nil {
		old = &v1alpha1.ServiceTypePolicy{Spec: *before}
	}
	return ValidateServiceTypePolicy(object, old, PolicyInput{Quotas: quotas, BaseUnknown: true}).Warnings
}

// inTree is a CardQuota with a parent, "" for none, and one card.
func inTree(name, parent, serviceType string, card v1alpha1.Card) *v1alpha1.CardQuota {
	return quotaOf(name, func(q *v1alpha1.CardQuota) {
		card.Name = "NVIDIA-H200"
		q.Spec.Parent = parent
		q.Spec.ServiceType = serviceType
		q.Spec.Cards = []v1alpha1.Card{card}
	})
}

func TestWarningsOfAnotherHierarchy(t *testing.T) {
	flat := &v1alpha1.ServiceTypePolicySpec{}
	tree := &v1alpha1.ServiceTypePolicySpec{QueueHierarchy: "Tree"}
	eight := ptr.To[int64](8)
	whole := v1alpha1.Card{Quota: eight, Deserved: eight}
	top := inTree("top", "", "", whole)
	leaf := inTree("leaf", "top", "training", whole)
	inherits := inTree("inherits", "top", "training", v1alpha1.Card{Deserved: eight})
	several := inTree("several", "top", "training", v1alpha1.Card{Quota: eight})
	several.Spec.Cards = append(several.Spec.Cards, v1alpha1.Card{Name: "NVIDIA-H800", Quota: eight}, v1alpha1.Card{Name: "Ascend-910B", Quota: eight, Deserved: eight})

	leaving := inTree("leaving", "nowhere", "training", v1alpha1.Card{})
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	const under = "with Flat their queues go under root, quotas of parents no longer limit them, and deserved and guarantee have no effect"
	const cut = "with Flat they may use what they deserve of these cards, and no more: write the quota"
	const scaled = "with Tree these cards deserve their quota, so the queue borrows none, and sums above the parent's are scaled: write deserved"

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicySpec
		quotas        []*v1alpha1.CardQuota
		want          []string
	}{
		"to a tree that is complete":      {flat, tree, []*v1alpha1.CardQuota{top, leaf, inherits}, nil},
		"to a tree without any":           {flat, tree, []*v1alpha1.CardQuota{quotaOf("alone", nil)}, nil},
		"back to flat":                    {tree, flat, []*v1alpha1.CardQuota{top, leaf}, []string{"1 CardQuotas name a parent: leaf (parent top); " + under}},
		"back to flat without quotas":     {tree, flat, []*v1alpha1.CardQuota{top, leaf, inherits}, []string{"2 CardQuotas name a parent: inherits (parent top), leaf (parent top); " + under, "1 CardQuotas have cards without quota: inherits (NVIDIA-H200); " + cut}},
		"a first policy that is flat":     {nil, flat, []*v1alpha1.CardQuota{top, leaf}, []string{"1 CardQuotas name a parent: leaf"}},
		"a first policy of a tree":        {nil, tree, []*v1alpha1.CardQuota{leaf}, []string{"1 CardQuotas name a parent that does not exist: leaf (parent top); with Tree nothing new starts in their queues until it does: create it, or correct spec.parent"}},
		"flat as before":                  {flat, &v1alpha1.ServiceTypePolicySpec{Reclaim: "Off", QueueHierarchy: "Flat"}, []*v1alpha1.CardQuota{leaf}, nil},
		"a tree as before":                {tree, &v1alpha1.ServiceTypePolicySpec{Reclaim: "Off", QueueHierarchy: "Tree"}, []*v1alpha1.CardQuota{leaf, several}, nil},
		"to a tree without deserved":      {flat, tree, []*v1alpha1.CardQuota{inTree("top", "", "", v1alpha1.Card{Quota: eight}), leaf, several}, []string{"2 CardQuotas have cards without deserved: several (NVIDIA-H200 and 1 more), top (NVIDIA-H200); " + scaled}},
		"to a tree with work in a parent": {flat, tree, []*v1alpha1.CardQuota{inTree("top", "", "training", whole), leaf}, []string{"1 CardQuotas have a service type and are parents: top (training); with Tree nothing new starts in their queues: give the work to a child, and remove spec.serviceType"}},
		"one that is being deleted":       {flat, tree, []*v1alpha1.CardQuota{leaving}, nil},
		"seven of them": {tree, flat, []*v1alpha1.CardQuota{inTree("g", "top", "training", whole), inTree("f", "top", "training", whole), inTree("e", "top", "training", whole),
			inTree("d", "top", "training", whole), inTree("c", "top", "training", whole), inTree("b", "top", "training", whole), inTree("a", "top", "training", whole)},
			[]string{"7 CardQuotas name a parent: a (parent top), b (parent top), c (parent top), d (parent top), e (parent top) and 2 more; " + under}},
	}) {
		got := policyWarnings(tc.before, tc.after, tc.quotas...)
		check.Must(t, len(got) == len(tc.want), "%d warnings, want %d: %q", len(got), len(tc.want), got)
		for i, want := range tc.want {
			check.That(t, strings.HasPrefix(got[i], "spec.queueHierarchy: "+want), "warns\n%s, want\n%s", got[i], want)
		}
	}
}

// TestAPolicyThatIsCreatedAgainIsJudgedByWhatIsInForce: an unset queueHierarchy keeps the tree, and cards
// that only the deleted policy named would be free for all.
func TestAPolicyThatIsCreatedAgainIsJudgedByWhatIsInForce(t *testing.T) {
	last := &v1alpha1.ServiceTypePolicy{}
	last.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	last.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	last.Status.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	input := PolicyInput{BaseUnknown: true, InForce: last}
	create := func(spec v1alpha1.ServiceTypePolicySpec) Result {
		return ValidateServiceTypePolicy(&v1alpha1.ServiceTypePolicy{Spec: spec}, nil, input)
	}

	answers(t, create(v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimPods, Cards: last.Status.Cards}), "cannot be used with queueHierarchy: Tree", "")
	answers(t, create(v1alpha1.ServiceTypePolicySpec{Cards: last.Status.Cards}), "", "")
	answers(t, create(v1alpha1.ServiceTypePolicySpec{}), "",
		"spec.cards: no entry names huawei.com/Ascend910, which is in force as a card: no quota limits it any more, unless the labels of nodes name it")

	input.Quotas = []*v1alpha1.CardQuota{inTree("leaf", "top", "training", v1alpha1.Card{Quota: ptr.To[int64](8), Deserved: ptr.To[int64](8)})}
	answers(t, create(v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyFlat, Cards: last.Status.Cards}), "", "1 CardQuotas name a parent: leaf (parent top); with Flat")
}

func TestWarningsOfPrioritiesThatAreCut(t *testing.T) {
	training := func(priority int32) *v1alpha1.ServiceTypePolicySpec {
		return &v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "training", Priority: priority, ReclaimPolicy: "WhenNeeded"}}}
	}
	prior := func(name, serviceType string, priority int32) *v1alpha1.CardQuota {
		return quotaOf(name, func(q *v1alpha1.CardQuota) {
			q.Spec.ServiceType = serviceType
			q.Spec.Priority = &priority
		})
	}

	none := quotaOf("none", nil)
	for t, tc := range check.Cases(t, map[string]struct {
		after  *v1alpha1.ServiceTypePolicySpec
		quotas []*v1alpha1.CardQuota
		want   string // "" for no warning
	}{
		"types far apart":       {training(20000), []*v1alpha1.CardQuota{prior("a", "training", 9999), none}, ""},
		"inside a narrow band":  {training(79990), []*v1alpha1.CardQuota{prior("a", "training", 9), none}, ""},
		"at the next type":      {training(79990), []*v1alpha1.CardQuota{prior("a", "training", 10), prior("b", "training", 9), none}, "spec.serviceTypes: 1 CardQuotas have a priority that reaches the next service type: a (training: 79990 + 10, inference: 80000); the operator cuts it below that type: set the priorities of the types further apart, or lower spec.priority of these CardQuotas"},
		"of the highest type":   {training(79990), []*v1alpha1.CardQuota{prior("a", "inference", 9999)}, ""},
		"of a type that is not": {training(79990), []*v1alpha1.CardQuota{prior("a", "batch", 9999)}, "1 CardQuotas have a service type that this policy does not define: a (batch)"},
	}) {
		says(t, "warnings", policyWarnings(&v1alpha1.ServiceTypePolicySpec{}, tc.after, tc.quotas...), tc.want)
	}
}
