package cardquota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

func TestAdmits(t *testing.T) {
	of := func(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
		return &v1alpha1.CardQuota{Spec: v1alpha1.CardQuotaSpec{NamespaceSelector: selector}}
	}
	owners := map[string]*v1alpha1.CardQuota{
		"everybody's": of(nil), "all of them": of(&metav1.LabelSelector{}),
		"chat's":   of(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}),
		"nonsense": of(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "no label value"}}),
	}
	admits := admits(owners, []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "chat", Labels: map[string]string{"team": "chat"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "lab", Labels: map[string]string{"team": "lab"}}},
	})
	for _, tc := range []struct {
		queue, namespace string
		want             bool
	}{
		{"everybody's", "lab", true}, {"all of them", "lab", true}, {"nobody's", "lab", true}, {"nonsense", "lab", true},
		{"chat's", "chat", true}, {"chat's", "lab", false}, {"chat's", "unheard of", false}, {"chat's", "lab", false},
	} {
		if got := admits(tc.queue, tc.namespace); got != tc.want {
			t.Errorf("queue %s admits namespace %s: %v, want %v", tc.queue, tc.namespace, got, tc.want)
		}
	}
}

func TestSchedulersOf(t *testing.T) {
	named := func(name string, schedulers ...string) *v1alpha1.ServiceTypePolicy {
		p := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Scheduler.Names = schedulers
		return p
	}
	if got := schedulersOf([]*v1alpha1.ServiceTypePolicy{named("other", "mine")}); got != nil {
		t.Errorf("without the policy %v are ours", got)
	}
	if got := schedulersOf([]*v1alpha1.ServiceTypePolicy{named("other", "mine"), named(v1alpha1.PolicyName)}); len(got) != 1 || got[0] != "volcano" {
		t.Errorf("by default %v are ours", got)
	}
	if got := schedulersOf([]*v1alpha1.ServiceTypePolicy{named(v1alpha1.PolicyName, "a", "b")}); len(got) != 2 {
		t.Errorf("%v are ours, want a and b", got)
	}
}
