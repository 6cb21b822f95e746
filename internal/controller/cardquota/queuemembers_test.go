package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestNamespaceCheck(t *testing.T) {
	of := func(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
		return &v1alpha1.CardQuota{Spec: v1alpha1.CardQuotaSpec{NamespaceSelector: selector}}
	}
	owners := map[string]*v1alpha1.CardQuota{
		"for all namespaces": of(nil), "all of them": of(&metav1.LabelSelector{}),
		"chat's":   of(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}),
		"nonsense": of(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "no label value"}}),
	}

	admits := namespaceCheck(owners, []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "chat", Labels: map[string]string{"team": "chat"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{"team": "lab"}}},
	})
	for _, tc := range []struct {
		queue, namespace string
		want             bool
	}{
		{"for all namespaces", "lab", true}, {"all of them", "lab", true}, {"for no namespace", "lab", true}, {"nonsense", "lab", true},
		{"chat's", "chat", true}, {"chat's", "lab", false}, {"chat's", "unheard of", false}, {"chat's", "lab", false},
	} {
		check.Equal(t, fmt.Sprintf("queue %s admits namespace %s", tc.queue, tc.namespace), tc.want, admits(tc.queue, tc.namespace))
	}
}

func TestOurSchedulers(t *testing.T) {
	of := func(schedulers ...string) *v1alpha1.ServiceTypePolicy {
		return &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Scheduler: v1alpha1.Scheduler{Names: schedulers}}}
	}
	check.Equal(t, "without the policy", nil, ourSchedulers(nil))
	check.Equal(t, "by default", []string{"volcano"}, ourSchedulers(of()))
	check.Equal(t, "as written", []string{"a", "b"}, ourSchedulers(of("a", "b")))
}
