package validation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// newQuotaOf8H200 returns a CardQuota of 8 NVIDIA-H200 for all namespaces. Its tenant is called like it.
func newQuotaOf8H200(name string, changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(name).Card("NVIDIA-H200", 8)
	b.With(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = &metav1.LabelSelector{} })
	for _, change := range changes {
		b.With(change)
	}
	return b.Obj()
}

// TestCardQuotaIsValidated: the webhook refuses a CardQuota that would have no effect, or that takes what
// others have. It warns of one that probably does not do what its author means. A change is refused only for
// what it makes worse. Unless its row says otherwise, a CardQuota has the queue of its name, 8 NVIDIA-H200,
// service type training, and a namespaceSelector for all namespaces, {}. The nodes have 16. Where a row has
// the policy, this defines serving and training beside the built-in type inference. Serving is not in force
// yet. A wanted text has parts, with "…" between them.
func TestCardQuotaIsValidated(t *testing.T) {
	setFinalizer := func(q *v1alpha1.CardQuota) { q.Finalizers = []string{"x"} }
	forQueue := func(queue string) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = queue }
	}

	withQuota := func(n int64, mode v1alpha1.OverAllocation) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) {
			q.Spec.OverAllocation = mode
			q.Spec.Cards[0].Quota = &n
		}
	}

	selecting := func(selector *metav1.LabelSelector) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = selector }
	}
	invalidSelector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "no label value!"}}
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{{Name: "serving"}, {Name: "training"}},
	}, Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}}}}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before            *v1alpha1.CardQuota
		all                      []*v1alpha1.CardQuota
		policy                   *v1alpha1.ServiceTypePolicy
		wantRefusal, wantWarning string
	}{
		"a new CardQuota": {quota: newQuotaOf8H200("a"), all: []*v1alpha1.CardQuota{newQuotaOf8H200("a")}},
		"queue b has a CardQuota already: refused": {
			quota:       newQuotaOf8H200("a", forQueue("b")),
			all:         []*v1alpha1.CardQuota{newQuotaOf8H200("b")},
			wantRefusal: "queue b belongs to CardQuota b of tenant b: change that one, or give this one another spec.queueName",
		},
		"the CardQuota of queue b is being deleted": {
			quota:       newQuotaOf8H200("a", forQueue("b")),
			all:         []*v1alpha1.CardQuota{newQuotaOf8H200("b", setDeleting)},
			wantWarning: "queue b belongs to CardQuota b until that is deleted",
		},
		"a change of a CardQuota whose queue belongs to another one": {
			quota:  newQuotaOf8H200("a", forQueue("b"), withQuota(4, "")),
			before: newQuotaOf8H200("a", forQueue("b")),
			all:    []*v1alpha1.CardQuota{newQuotaOf8H200("b")},
		},
		"any service type, without a policy":          {quota: newQuotaOf8H200("a", withServiceType("batch"))},
		"a service type that the policy has in force": {quota: newQuotaOf8H200("a"), policy: policy},
		"a service type that the policy defines and that is not in force yet": {
			quota:  newQuotaOf8H200("a", withServiceType("serving")),
			policy: policy,
		},
		"a service type that the policy does not define: refused": {
			quota:       newQuotaOf8H200("a", withServiceType("batch")),
			policy:      policy,
			wantRefusal: "ServiceTypePolicy default does not define batch: write one of inference, serving, training, or define it there first",
		},
		"another change, the service type is no longer defined": {
			quota:  newQuotaOf8H200("a", withServiceType("batch"), withQuota(4, "")),
			before: newQuotaOf8H200("a", withServiceType("batch")),
			policy: policy,
		},
		"a change to a service type that is not defined: refused": {
			quota:       newQuotaOf8H200("a", withServiceType("batch")),
			before:      newQuotaOf8H200("a"),
			policy:      policy,
			wantRefusal: "does not define batch",
		},
		"no namespaceSelector, which means every namespace": {
			quota:       newQuotaOf8H200("a", selecting(nil)),
			wantWarning: "spec.namespaceSelector: is not set: pods of every namespace may use queue a and its quota; select the namespaces of tenant a, or write {}",
		},
		"another change, still no namespaceSelector: warned of each time": {
			quota:       newQuotaOf8H200("a", selecting(nil), setProject),
			before:      newQuotaOf8H200("a", selecting(nil)),
			wantWarning: "spec.namespaceSelector: is not set",
		},
		"a namespaceSelector for one team": {quota: newQuotaOf8H200("a", selectingTeam("chat"))},
		"a namespaceSelector that cannot be read: refused": {
			quota:       newQuotaOf8H200("a", selecting(invalidSelector)),
			wantRefusal: "spec.namespaceSelector: …no label value!",
		},
		"another change, the namespaceSelector was invalid before": {
			quota:  newQuotaOf8H200("a", selecting(invalidSelector), withQuota(4, "")),
			before: newQuotaOf8H200("a", selecting(invalidSelector)),
		},
		"17 of 16 cards, overAllocation Allow": {quota: newQuotaOf8H200("a", withQuota(17, v1alpha1.OverAllocationAllow))},
		"17 of 16 cards, overAllocation Warn": {
			quota:       newQuotaOf8H200("a", withQuota(17, v1alpha1.OverAllocationWarn)),
			wantWarning: "spec.cards: grants more cards than there are: NVIDIA-H200: 17 granted, 16 healthy, 1 too many (17 here)",
		},
		"17 of 16 cards, overAllocation Deny: refused": {
			quota:       newQuotaOf8H200("a", withQuota(17, v1alpha1.OverAllocationDeny)),
			wantRefusal: "spec.overAllocation is Deny: NVIDIA-H200: 17 granted, 16 healthy, 1 too many (17 here): lower the quota",
		},
		"9 beside 8 of another CardQuota, overAllocation Deny: refused": {
			quota:       newQuotaOf8H200("a", withQuota(9, v1alpha1.OverAllocationDeny)),
			all:         []*v1alpha1.CardQuota{newQuotaOf8H200("b")},
			wantRefusal: "17 granted, 16 healthy, 1 too many (9 here, 8 by b)",
		},
		"8 beside 8 of another CardQuota, overAllocation Deny": {
			quota: newQuotaOf8H200("a", withQuota(8, v1alpha1.OverAllocationDeny)),
			all:   []*v1alpha1.CardQuota{newQuotaOf8H200("b")},
		},
		"lowered from 19 to 18 of 16 cards, overAllocation Deny": {
			quota:  newQuotaOf8H200("a", withQuota(18, v1alpha1.OverAllocationDeny)),
			before: newQuotaOf8H200("a", withQuota(19, v1alpha1.OverAllocationDeny)),
		},
		"still 18 of 16 cards, overAllocation becomes Deny": {
			quota:  newQuotaOf8H200("a", withQuota(18, v1alpha1.OverAllocationDeny)),
			before: newQuotaOf8H200("a", withQuota(18, v1alpha1.OverAllocationWarn)),
		},
		"another change, 18 of 16 cards as before: warned of only when cards change": {
			quota:  newQuotaOf8H200("a", withQuota(18, v1alpha1.OverAllocationWarn), setProject),
			before: newQuotaOf8H200("a", withQuota(18, v1alpha1.OverAllocationWarn)),
		},
		"only a finalizer of an invalid CardQuota changes: not validated": {
			quota:  newQuotaOf8H200("a", withServiceType("batch"), selecting(invalidSelector)),
			before: newQuotaOf8H200("a", withServiceType("batch"), selecting(invalidSelector), setFinalizer),
			policy: policy,
		},
		"an invalid CardQuota that is being deleted: not validated": {
			quota:  newQuotaOf8H200("a", withServiceType("batch"), setDeleting),
			before: newQuotaOf8H200("a", setDeleting),
			policy: policy,
		},
	}) {
		checkAnswer(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: tc.policy, Healthy: map[card.Name]card.Count{"NVIDIA-H200": 16}}), tc.wantRefusal, tc.wantWarning)
	}
}

// TestQuotaForACardThatNoNodeOffersWarns: the name may be misspelt, or no label names the card of a new node yet. The
// webhook warns, suggests which of both it is, and refuses nothing. The only node offers 8 cards, named by a label or
// not.
func TestQuotaForACardThatNoNodeOffersWarns(t *testing.T) {
	named := card.Recognise(builder.Node("old").GPUs("NVIDIA-H200", 8).Obj(), nil)
	unlabelled := card.Recognise(builder.Node("new").Resource("nvidia.com/gpu", "8").Obj(), nil)
	for t, tc := range check.Cases(t, map[string]struct {
		node  card.Node
		card  string
		quota int64
		want  string // the only warning, "" for none
	}{
		"the node offers the card": {node: named, card: "NVIDIA-H200", quota: 8},
		"the name lacks the vendor": {
			node:  named,
			card:  "H200",
			quota: 8,
			want:  "spec.cards[0].name: no node offers card H200 now: did you mean NVIDIA-H200?",
		},
		"a quota of 0 for an unknown card, which grants nothing": {node: named, card: "H200"},
		"no label names the card of the node": {
			node:  unlabelled,
			card:  "NVIDIA-H200",
			quota: 8,
			want:  "spec.cards[0].name: no node offers card NVIDIA-H200 now: it is not named yet (1 node: offers nvidia.com/gpu but no label",
		},
	}) {
		quota := newQuotaOf8H200("a", func(q *v1alpha1.CardQuota) { q.Spec.Cards = []v1alpha1.Card{{Name: tc.card, Quota: &tc.quota}} })
		recognised := card.NewInventory(map[string]card.Node{"gpu-0": tc.node})

		result := ValidateCardQuota(quota, nil, CardQuotaInput{Inventory: recognised})
		checkAnswer(t, result, "", tc.want)
	}
}

// TestDeletionOfACardQuotaWarnsOfItsPods: without its CardQuota a queue has no quota, so no new pod starts in it. The user
// who deletes it reads how many cards its running pods use, and how many workloads wait. The deletion is not refused. In
// mode Observe pods start as before, and there is nothing to warn of.
func TestDeletionOfACardQuotaWarnsOfItsPods(t *testing.T) {
	setUsed := func(q *v1alpha1.CardQuota) {
		q.Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Used: 6}, {Name: "NVIDIA-H800"}}
	}

	observing := &v1alpha1.ServiceTypePolicy{Status: v1alpha1.ServiceTypePolicyStatus{Mode: v1alpha1.ModeObserve}}

	for t, tc := range check.Cases(t, map[string]struct {
		quota       *v1alpha1.CardQuota
		policy      *v1alpha1.ServiceTypePolicy
		wantWarning string
	}{
		"no pod uses cards":                {quota: newQuotaOf8H200("a")},
		"pods use 6 cards in mode Observe": {quota: newQuotaOf8H200("a", setUsed), policy: observing},
		"pods use 6 cards": {
			quota:       newQuotaOf8H200("a", setUsed),
			wantWarning: "spec.cards: pods in queue a hold 6 NVIDIA-H200 and continue to run, but no new pod starts: to keep the queue and its quota, set spec.deletionPolicy to Retain",
		},
		"2 workloads wait": {
			quota:       newQuotaOf8H200("a", func(q *v1alpha1.CardQuota) { q.Status.BlockedTotal = 2 }),
			wantWarning: "spec.cards: status.blockedTotal is 2: these workloads wait in queue a and will not start",
		},
		"deletionPolicy Retain keeps the queue": {
			quota: newQuotaOf8H200("a", setUsed, func(q *v1alpha1.CardQuota) { q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }),
		},
		"the CardQuota is being deleted already": {
			quota: newQuotaOf8H200("a", setUsed, setDeleting),
		},
	}) {
		checkAnswer(t, WarnCardQuotaDeletion(tc.quota, nil, tc.policy), "", tc.wantWarning) // no other CardQuotas
	}
}

// TestQueueAnnotationsAreValidated: users may write quotas into Queues themselves. The webhook refuses
// annotations for which the scheduler would withhold every card, and warns of those that have no effect. A
// change is not refused for what was wrong before, which becomes a warning. A wanted text has parts, with "…"
// between them.
func TestQueueAnnotationsAreValidated(t *testing.T) {
	queue := func(annotations annotationMap) *v1beta1.Queue {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: annotations}}
	}

	const (
		quota     = v1alpha1.AnnotationCardQuota
		unlimited = v1alpha1.AnnotationUnlimitedResources
		selector  = v1alpha1.AnnotationNamespaceSelector
	)

	for t, tc := range check.Cases(t, map[string]struct {
		queue, before            *v1beta1.Queue
		wantRefusal, wantWarning string
	}{
		"no annotations":  {queue: queue(nil)},
		"all annotations": {queue: queue(annotationMap{quota: `{"NVIDIA-H200":8}`, selector: `{}`, serviceType: "training"})},
		"a quota that is not JSON: refused": {
			queue:       queue(annotationMap{quota: `8`}),
			wantRefusal: `metadata.annotations[volcano.sh/card.quota]: Invalid value: "8": "8" is not a JSON object: write it like {"NVIDIA-H200":8}`,
		},
		"a selector that cannot be read: refused": {
			queue:       queue(annotationMap{selector: `{"matchLabel":{}}`}),
			wantRefusal: `metadata.annotations[volcano.sh/namespace-selector]: …write it like {"matchLabels":{"team":"chat"}}`,
		},
		"a list of what is unlimited": {queue: queue(annotationMap{quota: `{}`, unlimited: "cpu,memory"})},
		"a list of what is unlimited with another resource: refused": {
			queue:       queue(annotationMap{quota: `{}`, unlimited: "cpu,pods"}),
			wantRefusal: `metadata.annotations[volcano.sh/unlimited.resources]: Invalid value: "cpu,pods": "pods" is neither cpu nor memory: write it like cpu,memory`,
		},
		"a list of what is unlimited without a quota": {
			queue:       queue(annotationMap{unlimited: "memory"}),
			wantWarning: `metadata.annotations[volcano.sh/unlimited.resources]: has no effect without volcano.sh/card.quota`,
		},
		"a service type that is not a name: refused": {
			queue:       queue(annotationMap{serviceType: "Batch"}),
			wantRefusal: `metadata.annotations[volcano.sh/service.type]: Invalid value: "Batch": service type "Batch" is no name`,
		},
		"another annotation changes, the quota was invalid before": {
			queue:       queue(annotationMap{quota: `8`, "a": "b"}),
			before:      queue(annotationMap{quota: `8`}),
			wantWarning: "as before: ",
		},
		"an invalid quota becomes another invalid one: refused": {
			queue:       queue(annotationMap{quota: `9`}),
			before:      queue(annotationMap{quota: `8`}),
			wantRefusal: `"9" is not a JSON object`,
		},
		"an annotation for workloads": {
			queue:       queue(annotationMap{cardName: "NVIDIA-H200"}),
			wantWarning: "is read on workloads only: write the quota of a queue in volcano.sh/card.quota",
		},
		"a misspelt annotation": {
			queue:       queue(annotationMap{"volcano.sh/card.qouta": `{}`}),
			wantWarning: "metadata.annotations[volcano.sh/card.qouta]: this annotation is unknown",
		},
		"an annotation of Volcano": {queue: queue(annotationMap{"volcano.sh/closed-by-parent": "false"})},
	}) {
		checkAnswer(t, ValidateQueue(tc.queue, tc.before), tc.wantRefusal, tc.wantWarning)
	}
}
