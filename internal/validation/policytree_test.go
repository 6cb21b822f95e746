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

// policyWarnings returns the warnings of a change of the policy from one spec to another, and checks that nothing is
// refused. The base is not known.
func policyWarnings(t *testing.T, before, after *v1alpha1.ServiceTypePolicySpec, quotas ...*v1alpha1.CardQuota) []string {
	object := &v1alpha1.ServiceTypePolicy{Spec: *after}
	old := (*v1alpha1.ServiceTypePolicy)(nil)
	if before != nil {
		old = &v1alpha1.ServiceTypePolicy{Spec: *before}
	}
	result := ValidateServiceTypePolicy(object, old, PolicyInput{Quotas: quotas, BaseUnknown: true})
	check.Must(t, len(result.Errors) == 0, "refused: %v", result.Errors)
	return result.Warnings
}

// newQuotaInTree returns a CardQuota with a parent, "" for none, and one card.
func newQuotaInTree(name, parent, serviceType string, card v1alpha1.Card) *v1alpha1.CardQuota {
	return newQuotaOf8H200(name, func(q *v1alpha1.CardQuota) {
		card.Name = "NVIDIA-H200"
		q.Spec.Parent = parent
		q.Spec.ServiceType = serviceType
		q.Spec.Cards = []v1alpha1.Card{card}
	})
}

// TestChangeOfTheHierarchyWarnsOfCardQuotas: queueHierarchy of the policy makes queues flat, or a tree. A change has
// effects on CardQuotas that were written for the other hierarchy, so the webhook warns and names them. They are
// children whose parents no longer count or do not exist, cards without a quota or without deserved, and parents that
// have work. Nothing is refused.
func TestChangeOfTheHierarchyWarnsOfCardQuotas(t *testing.T) {
	flat := &v1alpha1.ServiceTypePolicySpec{}
	tree := &v1alpha1.ServiceTypePolicySpec{QueueHierarchy: "Tree"}
	eight := ptr.To[int64](8)
	whole := v1alpha1.Card{Quota: eight, Deserved: eight}
	top := newQuotaInTree("top", "", "", whole)
	leaf := newQuotaInTree("leaf", "top", "training", whole)
	inherits := newQuotaInTree("inherits", "top", "training", v1alpha1.Card{Deserved: eight})
	several := newQuotaInTree("several", "top", "training", v1alpha1.Card{Quota: eight})
	several.Spec.Cards = append(several.Spec.Cards, v1alpha1.Card{Name: "NVIDIA-H800", Quota: eight}, v1alpha1.Card{Name: "Ascend-910B", Quota: eight, Deserved: eight})

	leaving := newQuotaInTree("leaving", "nowhere", "training", v1alpha1.Card{})
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	const under = "with Flat their queues go under root, quotas of parents no longer limit them, and deserved and guarantee have no effect"
	const cut = "with Flat they may use what they deserve of these cards, and no more: write the quota"
	const scaled = "with Tree these cards deserve their quota, so the queue borrows none, and sums above the parent's are scaled: write deserved"

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.ServiceTypePolicySpec
		quotas        []*v1alpha1.CardQuota
		want          []string
	}{
		"Flat becomes Tree, all cards have deserved": {before: flat, after: tree, quotas: []*v1alpha1.CardQuota{top, leaf, inherits}},
		"Flat becomes Tree, no CardQuota names a parent": {
			before: flat,
			after:  tree,
			quotas: []*v1alpha1.CardQuota{newQuotaOf8H200("alone")},
		},
		"Tree becomes Flat": {
			before: tree,
			after:  flat,
			quotas: []*v1alpha1.CardQuota{top, leaf},
			want:   []string{"1 CardQuotas name a parent: leaf (parent top); " + under},
		},
		"Tree becomes Flat, a child inherits its quota": {
			before: tree,
			after:  flat,
			quotas: []*v1alpha1.CardQuota{top, leaf, inherits},
			want:   []string{"2 CardQuotas name a parent: inherits (parent top), leaf (parent top); " + under, "1 CardQuotas have cards without quota: inherits (NVIDIA-H200); " + cut},
		},
		"the first policy, Flat": {
			after:  flat,
			quotas: []*v1alpha1.CardQuota{top, leaf},
			want:   []string{"1 CardQuotas name a parent: leaf"},
		},
		"the first policy, Tree, and a parent that does not exist": {
			after:  tree,
			quotas: []*v1alpha1.CardQuota{leaf},
			want:   []string{"1 CardQuotas name a parent that does not exist: leaf (parent top); with Tree nothing new starts in their queues until it does: create it, or correct spec.parent"},
		},
		"another change, Flat as before": {
			before: flat,
			after:  &v1alpha1.ServiceTypePolicySpec{Reclaim: "Off", QueueHierarchy: "Flat"},
			quotas: []*v1alpha1.CardQuota{leaf},
		},
		"another change, Tree as before": {
			before: tree,
			after:  &v1alpha1.ServiceTypePolicySpec{Reclaim: "Off", QueueHierarchy: "Tree"},
			quotas: []*v1alpha1.CardQuota{leaf, several},
		},
		"Flat becomes Tree, cards have no deserved": {
			before: flat,
			after:  tree,
			quotas: []*v1alpha1.CardQuota{newQuotaInTree("top", "", "", v1alpha1.Card{Quota: eight}), leaf, several},
			want:   []string{"2 CardQuotas have cards without deserved: several (NVIDIA-H200 and 1 more), top (NVIDIA-H200); " + scaled},
		},
		"Flat becomes Tree, a parent has a service type": {
			before: flat,
			after:  tree,
			quotas: []*v1alpha1.CardQuota{newQuotaInTree("top", "", "training", whole), leaf},
			want:   []string{"1 CardQuotas have a service type and are parents: top (training); with Tree nothing new starts in their queues: give the work to a child, and remove spec.serviceType"},
		},
		"Flat becomes Tree, a CardQuota that is being deleted": {before: flat, after: tree, quotas: []*v1alpha1.CardQuota{leaving}},
		"Tree becomes Flat, seven children: five are named": {
			before: tree,
			after:  flat,
			quotas: []*v1alpha1.CardQuota{newQuotaInTree("g", "top", "training", whole), newQuotaInTree("f", "top", "training", whole), newQuotaInTree("e", "top", "training", whole),
				newQuotaInTree("d", "top", "training", whole), newQuotaInTree("c", "top", "training", whole), newQuotaInTree("b", "top", "training", whole), newQuotaInTree("a", "top", "training", whole)},
			want: []string{"7 CardQuotas name a parent: a (parent top), b (parent top), c (parent top), d (parent top), e (parent top) and 2 more; " + under},
		},
	}) {
		got := policyWarnings(t, tc.before, tc.after, tc.quotas...)
		check.Must(t, len(got) == len(tc.want), "%d warnings, want %d: %q", len(got), len(tc.want), got)
		for i, want := range tc.want {
			check.That(t, strings.HasPrefix(got[i], "spec.queueHierarchy: "+want), "warns\n%s, want\n%s", got[i], want)
		}
	}
}

// TestPolicyThatIsCreatedAgainIsComparedWithTheOneInForce: after a policy is deleted, the operator keeps what was in force:
// here a tree and the entry for cards Ascend-910B. A new policy is compared with that. An unset queueHierarchy keeps the
// tree, with which Volcano's reclaim of pods cannot be used. Without the entry no quota limits these cards any more.
func TestPolicyThatIsCreatedAgainIsComparedWithTheOneInForce(t *testing.T) {
	last := &v1alpha1.ServiceTypePolicy{}
	last.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}} // it has taken effect
	last.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree
	last.Status.Cards = []v1alpha1.CardMapping{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	input := PolicyInput{BaseUnknown: true, InForce: last}
	create := func(spec v1alpha1.ServiceTypePolicySpec) Result {
		return ValidateServiceTypePolicy(&v1alpha1.ServiceTypePolicy{Spec: spec}, nil, input)
	}

	// the tree in force forbids Volcano's own reclaim
	checkAnswer(t, create(v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimPods, Cards: last.Status.Cards}), "cannot be used with queueHierarchy: Tree", "")

	// a policy like the last one, and one without its entry of cards
	checkAnswer(t, create(v1alpha1.ServiceTypePolicySpec{Cards: last.Status.Cards}), "", "")
	checkAnswer(t, create(v1alpha1.ServiceTypePolicySpec{}), "",
		"spec.cards: no entry names huawei.com/Ascend910, which is in force as a card: no quota limits it any more, unless the labels of nodes name it")

	// a written Flat ends the tree, in which a CardQuota has a parent
	input.Quotas = []*v1alpha1.CardQuota{newQuotaInTree("leaf", "top", "training", v1alpha1.Card{Quota: ptr.To[int64](8), Deserved: ptr.To[int64](8)})}
	checkAnswer(t, create(v1alpha1.ServiceTypePolicySpec{QueueHierarchy: v1alpha1.QueueHierarchyFlat, Cards: last.Status.Cards}), "", "1 CardQuotas name a parent: leaf (parent top); with Flat")
}

// TestPolicyWarnsOfPrioritiesThatReachTheNextType: the priority of a queue is that of its service type plus that of its
// CardQuota. It stays below the next service type, here the built-in inference with 80,000. A policy that moves
// training closer cuts the priorities of CardQuotas, so the webhook warns and names them. Where the policy does not
// define a CardQuota's type, the webhook warns of that instead. CardQuota none has no priority.
func TestPolicyWarnsOfPrioritiesThatReachTheNextType(t *testing.T) {
	training := func(priority int32) *v1alpha1.ServiceTypePolicySpec {
		return &v1alpha1.ServiceTypePolicySpec{ServiceTypes: []v1alpha1.ServiceType{{Name: "training", Priority: priority, ReclaimPolicy: "WhenNeeded"}}}
	}
	quotaOf := func(name, serviceType string, priority int32) *v1alpha1.CardQuota {
		return newQuotaOf8H200(name, func(q *v1alpha1.CardQuota) {
			q.Spec.ServiceType = serviceType
			q.Spec.Priority = &priority
		})
	}

	none := newQuotaOf8H200("none")
	for t, tc := range check.Cases(t, map[string]struct {
		after  *v1alpha1.ServiceTypePolicySpec
		quotas []*v1alpha1.CardQuota
		want   string // "" for no warning
	}{
		"the next type is 60,000 above": {
			after:  training(20000),
			quotas: []*v1alpha1.CardQuota{quotaOf("a", "training", 9999), none},
		},
		"priority 9, the next type is 10 above": {after: training(79990), quotas: []*v1alpha1.CardQuota{quotaOf("a", "training", 9), none}},
		"priority 10, the next type is 10 above": {
			after:  training(79990),
			quotas: []*v1alpha1.CardQuota{quotaOf("a", "training", 10), quotaOf("b", "training", 9), none},
			want:   "spec.serviceTypes: 1 CardQuotas have a priority that reaches the next service type: a (training: 79990 + 10, inference: 80000); the operator cuts it below that type: set the priorities of the types further apart, or lower spec.priority of these CardQuotas",
		},
		"a priority of inference, the highest type": {after: training(79990), quotas: []*v1alpha1.CardQuota{quotaOf("a", "inference", 9999)}},
		"a CardQuota of a service type that is not defined": {
			after:  training(79990),
			quotas: []*v1alpha1.CardQuota{quotaOf("a", "batch", 9999)},
			want:   "1 CardQuotas have a service type that this policy does not define: a (batch)",
		},
	}) {
		checkOnlyText(t, "warnings", policyWarnings(t, &v1alpha1.ServiceTypePolicySpec{}, tc.after, tc.quotas...), tc.want)
	}
}
