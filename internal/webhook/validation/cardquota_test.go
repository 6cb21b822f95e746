package validation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func quotaOf(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	b := builder.CardQuota(name).Tenant(name).Card("NVIDIA-H200", 8)
	b.With(func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = &metav1.LabelSelector{} })
	if change != nil {
		b.With(change)
	}
	return b.Obj()
}

func TestCardQuota(t *testing.T) {
	gone := metav1.NewTime(time.Unix(1, 0))
	leaving := func(q *v1alpha1.CardQuota) { q.DeletionTimestamp = &gone }
	forQueue := func(queue string) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = queue }
	}

	typed := func(name string) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) { q.Spec.ServiceType = name }
	}
	count := func(n int64, mode v1alpha1.OverAllocation) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) {
			q.Spec.OverAllocation = mode
			q.Spec.Cards[0].Quota = &n
		}
	}

	selecting := func(selector *metav1.LabelSelector) func(*v1alpha1.CardQuota) {
		return func(q *v1alpha1.CardQuota) { q.Spec.NamespaceSelector = selector }
	}
	bad := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "no label value!"}}
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ServiceTypePolicySpec{
		ServiceTypes: []v1alpha1.ServiceType{{Name: "serving"}, {Name: "training"}},
	}, Status: v1alpha1.ServiceTypePolicyStatus{ServiceTypes: []v1alpha1.ServiceTypeStatus{{Name: "training"}}}}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, before    *v1alpha1.CardQuota
		all              []*v1alpha1.CardQuota
		policy           *v1alpha1.ServiceTypePolicy
		refusal, warning string
	}{
		"a new one":                             {quota: quotaOf("a", nil), all: []*v1alpha1.CardQuota{quotaOf("a", nil)}},
		"a second one for the queue":            {quota: quotaOf("a", forQueue("b")), all: []*v1alpha1.CardQuota{quotaOf("b", nil)}, refusal: "queue b belongs to CardQuota b of tenant b: change that one, or give this one another spec.queueName"},
		"its queue is about to be free":         {quota: quotaOf("a", forQueue("b")), all: []*v1alpha1.CardQuota{quotaOf("b", leaving)}, warning: "queue b belongs to CardQuota b until that is deleted"},
		"a change of one that waits":            {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { forQueue("b")(q); count(4, "")(q) }), before: quotaOf("a", forQueue("b")), all: []*v1alpha1.CardQuota{quotaOf("b", nil)}},
		"any type without a policy":             {quota: quotaOf("a", typed("batch"))},
		"a type of the policy":                  {quota: quotaOf("a", nil), policy: policy},
		"a type of the policy's new spec":       {quota: quotaOf("a", typed("serving")), policy: policy},
		"an undefined type":                     {quota: quotaOf("a", typed("batch")), policy: policy, refusal: "ServiceTypePolicy default does not define batch: write one of inference, serving, training, or define it there first"},
		"a type that was defined once":          {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { typed("batch")(q); count(4, "")(q) }), before: quotaOf("a", typed("batch")), policy: policy},
		"another undefined type":                {quota: quotaOf("a", typed("batch")), before: quotaOf("a", nil), policy: policy, refusal: "does not define batch"},
		"no selector, which is every namespace": {quota: quotaOf("a", selecting(nil)), warning: "spec.namespaceSelector: is not set: pods of every namespace may use queue a and its quota; select the namespaces of tenant a, or write {}"},
		"still no selector":                     {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { selecting(nil)(q); q.Spec.Project = "p" }), before: quotaOf("a", selecting(nil)), warning: "spec.namespaceSelector: is not set"},
		"a selector":                            {quota: quotaOf("a", selecting(&metav1.LabelSelector{}))},
		"a bad selector":                        {quota: quotaOf("a", selecting(bad)), refusal: "spec.namespaceSelector: …no label value!"},
		"a bad selector, as before":             {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { selecting(bad)(q); count(4, "")(q) }), before: quotaOf("a", selecting(bad))},
		"more than there are, silently":         {quota: quotaOf("a", count(17, v1alpha1.OverAllocationAllow))},
		"more than there are, warned of":        {quota: quotaOf("a", count(17, v1alpha1.OverAllocationWarn)), warning: "spec.cards: grants more cards than there are: NVIDIA-H200: 17 granted, 16 healthy, 1 too many (17 here)"},
		"more than there are, denied":           {quota: quotaOf("a", count(17, v1alpha1.OverAllocationDeny)), refusal: "spec.overAllocation is Deny: NVIDIA-H200: 17 granted, 16 healthy, 1 too many (17 here): lower the quota"},
		"more than others leave, denied":        {quota: quotaOf("a", count(9, v1alpha1.OverAllocationDeny)), all: []*v1alpha1.CardQuota{quotaOf("b", nil)}, refusal: "17 granted, 16 healthy, 1 too many (9 here, 8 by b)"},
		"what others leave":                     {quota: quotaOf("a", count(8, v1alpha1.OverAllocationDeny)), all: []*v1alpha1.CardQuota{quotaOf("b", nil)}},
		"lowered, and still too many":           {quota: quotaOf("a", count(18, v1alpha1.OverAllocationDeny)), before: quotaOf("a", count(19, v1alpha1.OverAllocationDeny))},
		"denied from now on, as many as ever":   {quota: quotaOf("a", count(18, v1alpha1.OverAllocationDeny)), before: quotaOf("a", count(18, v1alpha1.OverAllocationWarn))},
		"something else changes":                {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { count(18, v1alpha1.OverAllocationWarn)(q); q.Spec.Project = "p" }), before: quotaOf("a", count(18, v1alpha1.OverAllocationWarn))},
		"a finalizer of one that is all wrong":  {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { typed("batch")(q); selecting(bad)(q); q.Finalizers = nil }), before: quotaOf("a", func(q *v1alpha1.CardQuota) { typed("batch")(q); selecting(bad)(q); q.Finalizers = []string{"x"} }), policy: policy},
		"one that is being deleted":             {quota: quotaOf("a", func(q *v1alpha1.CardQuota) { typed("batch")(q); leaving(q) }), before: quotaOf("a", leaving), policy: policy},
	}) {
		answers(t, ValidateCardQuota(tc.quota, tc.before, CardQuotaInput{All: tc.all, Policy: tc.policy, Healthy: map[card.Name]card.Count{"NVIDIA-H200": 16}}), tc.refusal, tc.warning)
	}
}

// TestAQuotaForACardThatNoNodeOffers: its name may be wrong, or the card is not named yet.
func TestAQuotaForACardThatNoNodeOffers(t *testing.T) {
	named := card.Recognise(builder.Node("old").GPUs("NVIDIA-H200", 8).Obj(), nil)
	unlabelled := card.Recognise(builder.Node("new").Resource("nvidia.com/gpu", "8").Obj(), nil)
	for name, tc := range map[string]struct {
		node  card.Node
		card  string
		quota int64
		want  []string
	}{
		"offered":       {named, "NVIDIA-H200", 8, nil},
		"misspelt":      {named, "H200", 8, []string{"spec.cards[0].name: no node offers card H200 now: did you mean NVIDIA-H200?"}},
		"without one":   {named, "H200", 0, nil},
		"not yet named": {unlabelled, "NVIDIA-H200", 8, []string{"spec.cards[0].name: no node offers card NVIDIA-H200 now: it is not named yet (1 node: offers nvidia.com/gpu but no label"}},
	} {
		quota := quotaOf("a", func(q *v1alpha1.CardQuota) { q.Spec.Cards = []v1alpha1.Card{{Name: tc.card, Quota: &tc.quota}} })
		recognised := card.NewInventory(map[string]card.Node{"gpu-0": tc.node})

		result := ValidateCardQuota(quota, nil, CardQuotaInput{Healthy: map[card.Name]card.Count{"NVIDIA-H200": 8}, Inventory: recognised})

		check.Equal(t, name+": errors", 0, len(result.Errors))
		check.Equal(t, name+": warnings", len(tc.want), len(result.Warnings))
		for i, want := range tc.want {
			check.Contains(t, name, result.Warnings[i], want)
		}
	}
}

func TestDeletion(t *testing.T) {
	used := func(q *v1alpha1.CardQuota) {
		q.Status.Cards = []v1alpha1.CardStatus{{Name: "NVIDIA-H200", Used: 6}, {Name: "NVIDIA-H800"}}
	}

	gone := metav1.NewTime(time.Unix(1, 0))
	for t, tc := range check.Cases(t, map[string]struct {
		quota   *v1alpha1.CardQuota
		warning string
	}{
		"nothing in use": {quotaOf("a", nil), ""},
		"cards in use":   {quotaOf("a", used), "spec.cards: pods in queue a hold 6 NVIDIA-H200 and continue to run, but no new pod starts: to keep the queue and its quota, set spec.deletionPolicy to Retain"},
		"work that waits": {quotaOf("a", func(q *v1alpha1.CardQuota) {
			q.Status.BlockedTotal = 2
			q.Status.PendingSummary = "4 NVIDIA-H200"
		}),
			"spec.cards: status.blockedTotal is 2: these workloads wait in queue a and will not start"},
		"the queue stays":          {quotaOf("a", func(q *v1alpha1.CardQuota) { used(q); q.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain }), ""},
		"it is being deleted once": {quotaOf("a", func(q *v1alpha1.CardQuota) { used(q); q.DeletionTimestamp = &gone }), ""},
	}) {
		answers(t, WarnCardQuotaDeletion(tc.quota, nil, nil), "", tc.warning)
	}
}

func TestQueueAnnotations(t *testing.T) {
	queue := func(annotations notes) *v1beta1.Queue {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q", Annotations: annotations}}
	}

	const (
		quota    = v1alpha1.AnnotationCardQuota
		selector = v1alpha1.AnnotationNamespaceSelector
	)

	for t, tc := range check.Cases(t, map[string]struct {
		queue, before    *v1beta1.Queue
		refusal, warning string
	}{
		"nothing":                  {queue: queue(nil)},
		"all of them":              {queue: queue(notes{quota: `{"NVIDIA-H200":8}`, selector: `{}`, ofType: "training"})},
		"no JSON":                  {queue: queue(notes{quota: `8`}), refusal: `metadata.annotations[volcano.sh/card.quota]: Invalid value: "8": "8" is not a JSON object: write it like {"NVIDIA-H200":8}`},
		"no selector":              {queue: queue(notes{selector: `{"matchLabel":{}}`}), refusal: `metadata.annotations[volcano.sh/namespace-selector]: …write it like {"matchLabels":{"team":"chat"}}`},
		"no service type":          {queue: queue(notes{ofType: "Batch"}), refusal: `metadata.annotations[volcano.sh/service.type]: Invalid value: "Batch": service type "Batch" is no name`},
		"as wrong as it was":       {queue: queue(notes{quota: `8`, "a": "b"}), before: queue(notes{quota: `8`}), warning: "as before: "},
		"wrong in another way":     {queue: queue(notes{quota: `9`}), before: queue(notes{quota: `8`}), refusal: `"9" is not a JSON object`},
		"a workload's":             {queue: queue(notes{name: "NVIDIA-H200"}), warning: "is read on workloads only: write the quota of a queue in volcano.sh/card.quota"},
		"a misspelt one":           {queue: queue(notes{"volcano.sh/card.qouta": `{}`}), warning: "metadata.annotations[volcano.sh/card.qouta]: this annotation is unknown"},
		"another project's prefix": {queue: queue(notes{"volcano.sh/closed-by-parent": "false"})},
	}) {
		answers(t, ValidateQueue(tc.queue, tc.before), tc.refusal, tc.warning)
	}
}
