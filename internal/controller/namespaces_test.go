package controller

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
		selector, err := metav1.LabelSelectorAsSelector(quota.Spec.NamespaceSelector)
		check.NoError(t, err)
		var want []string
		for _, namespace := range namespaces {
			if !selector.Empty() && selector.Matches(labels.Set(namespace.Labels)) {
				want = append(want, namespace.Name)
			}
		}
		got, err := SelectedNamespaces(t.Context(), cluster.Build(), quota)
		check.NoError(t, err)
		check.Must(t, slices.Equal(want, got), "selected %v, want %v", got, want)
	})
}
