package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestSelectedNamespacesAreThoseThatMatch: the controllers find the namespaces of a CardQuota by an index of labels, so
// that they need not read all. With random labels and selectors the index finds what a comparison with each namespace
// finds. An empty selector selects no namespace.
func TestSelectedNamespacesAreThoseThatMatch(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		cluster := fake.NewClientBuilder().WithIndex(&corev1.Namespace{}, NamespaceLabelIndex, NamespaceLabels)
		var namespaces []*corev1.Namespace
		for i := range rapid.IntRange(0, 5).Draw(t, "namespaces") {
			namespace := builder.Namespace(fmt.Sprint("n", i))
			namespace.Labels = rapid.MapOfN(word, word, 0, 3).Draw(t, "labels")
			namespaces = append(namespaces, namespace)
			cluster.WithObjects(namespace)
		}

		quota := builder.CardQuota("q").Obj()
		quota.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: rapid.MapOfN(word, word, 0, 2).Draw(t, "matchLabels")}
		for range rapid.IntRange(0, 2).Draw(t, "expressions") {
			operator := rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}).Draw(t, "operator")
			expression := metav1.LabelSelectorRequirement{Key: word.Draw(t, "key"), Operator: operator}
			if operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn {
				expression.Values = rapid.SliceOfN(word, 1, 2).Draw(t, "values")
			}
			quota.Spec.NamespaceSelector.MatchExpressions = append(quota.Spec.NamespaceSelector.MatchExpressions, expression)
		}

		selector := check.Value(metav1.LabelSelectorAsSelector(quota.Spec.NamespaceSelector))(t)

		var want []string
		for _, namespace := range namespaces {
			if !selector.Empty() && selector.Matches(labels.Set(namespace.Labels)) {
				want = append(want, namespace.Name)
			}
		}

		got := check.Value(NewQuotaSelectors().SelectedNamespaces(t.Context(), cluster.Build(), quota))(t)
		check.Must(t, slices.Equal(want, got), "selected %v, want %v", got, want)
	})
}

// teamQuota selects the namespaces of a team.
func teamQuota(name, uid, team string, generation int64) v1alpha1.CardQuota {
	return *builder.CardQuota(name).With(func(q *v1alpha1.CardQuota) {
		q.UID = types.UID(uid)
		q.Generation = generation
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}).Obj()
}

// TestSelectorsFollowTheirCardQuota: a parsed selector is kept and used again while UID and generation of its CardQuota
// stay the same. A CardQuota that a user changes has another generation, and one that is deleted and created again has
// another UID. The last check shows the use of the kept selector: the labels change, and the generation does not.
func TestSelectorsFollowTheirCardQuota(t *testing.T) {
	selectors := NewQuotaSelectors()

	for _, step := range []struct {
		when  string
		quota v1alpha1.CardQuota
		team  string
	}{
		{"created", teamQuota("q", "uid-1", "chat", 1), "chat"},
		{"changed", teamQuota("q", "uid-1", "search", 2), "search"},
		{"created again", teamQuota("q", "uid-2", "lab", 2), "lab"},
	} {
		check.Equal(t, step.when, "team="+step.team, selectors.selectorFor(&step.quota).String())
	}

	sameGeneration := teamQuota("q", "uid-2", "chat", 2)
	check.Equal(t, "same UID and generation", "team=lab", selectors.selectorFor(&sameGeneration).String())
}

// TestACardQuotaWithoutItsQueueSelectsNothing: condition QueueSynced says that the queue belongs to another CardQuota.
// Then this CardQuota selects no namespace, so it has no views (LocalCardQuotas).
func TestACardQuotaWithoutItsQueueSelectsNothing(t *testing.T) {
	conflicting := teamQuota("q", "uid-2", "lab", 2)
	conflicting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonQueueConflict}}
	check.That(t, NewQuotaSelectors().selectorFor(&conflicting) == nil, "the CardQuota selects namespaces")
}

// TestSelectorsOfGoneCardQuotasAreForgotten: 1,000 CardQuotas were created and deleted beside the one that exists. Their
// selectors must not fill the memory.
func TestSelectorsOfGoneCardQuotasAreForgotten(t *testing.T) {
	selectors := NewQuotaSelectors()
	existing := teamQuota("q", "uid-2", "lab", 2)
	selectors.selectorFor(&existing)
	for i := range 1_000 {
		gone := teamQuota(fmt.Sprint("gone", i), "uid-1", "chat", 1)
		selectors.selectorFor(&gone)
	}

	selectors.forgetGone([]v1alpha1.CardQuota{existing})
	check.Equal(t, "known selectors", 1, len(selectors.known))
}

// BenchmarkRequestsForNamespace asks 10,000 CardQuotas whether they select a changed namespace. More than 20 ms fail it.
// Measured on a shared 2-core machine: 2 ms.
func BenchmarkRequestsForNamespace(b *testing.B) {
	const (
		quotas = 10_000
		most   = 20 * time.Millisecond
	)

	list := make([]v1alpha1.CardQuota, quotas)
	for i := range list {
		list[i] = teamQuota(fmt.Sprint("q", i), "uid-1", fmt.Sprint("team", i), 1)
	}

	selectors := NewQuotaSelectors()
	check.Fastest(b, most, func() {
		for i := range list {
			selectors.selectorFor(&list[i]).Matches(labels.Set{"team": "team7"})
		}
	})
}
