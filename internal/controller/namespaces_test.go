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

// TestSelectedNamespacesAreThoseThatMatch compares the answer of the index with a look at every
// namespace.
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

// TestSelectorsFollowTheirCardQuota: a changed CardQuota has another generation, one that was created again
// another UID, and one that lost its queue a condition.
func TestSelectorsFollowTheirCardQuota(t *testing.T) {
	selectors := NewQuotaSelectors()
	for _, tc := range []struct {
		quota v1alpha1.CardQuota
		team  string
	}{{teamQuota("q", "1", "chat", 1), "chat"}, {teamQuota("q", "1", "search", 2), "search"}, {teamQuota("q", "2", "lab", 2), "lab"}} {
		for range 2 {
			selector := selectors.selectorFor(&tc.quota)
			check.That(t, selector.Matches(labels.Set{"team": tc.team}) && !selector.Matches(labels.Set{"team": "other"}), "%s selects %v", tc.team, selector)
		}
	}

	conflicting := teamQuota("q", "2", "lab", 2)
	conflicting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonQueueConflict}}
	check.That(t, selectors.selectorFor(&conflicting) == nil, "it selects for a queue that belongs to another CardQuota")

	for i := range 1_000 {
		gone := teamQuota(fmt.Sprint("gone", i), "1", "chat", 1)
		selectors.selectorFor(&gone)
	}

	selectors.forgetGone([]v1alpha1.CardQuota{conflicting})
	check.Equal(t, "known", 1, len(selectors.known))
}

// BenchmarkRequestsForNamespace asks 10,000 CardQuotas about a changed namespace. Measured on a shared 2-core
// machine: 2 ms.
func BenchmarkRequestsForNamespace(b *testing.B) {
	const (
		quotas = 10_000
		most   = 20 * time.Millisecond
	)

	list := make([]v1alpha1.CardQuota, quotas)
	for i := range list {
		list[i] = teamQuota(fmt.Sprint("q", i), "1", fmt.Sprint("team", i), 1)
	}

	selectors := NewQuotaSelectors()
	check.Fastest(b, most, func() {
		for i := range list {
			selectors.selectorFor(&list[i]).Matches(labels.Set{"team": "team7"})
		}
	})
}
