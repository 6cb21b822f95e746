package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestAQueueAllowsTheNamespacesOfItsSelector: pods of a namespace that the selector of a CardQuota does not
// select cannot use its queue. Without a CardQuota, or with a selector that is missing, empty or invalid, a
// queue allows all namespaces. So their pods count, and the operator deletes no queue in use. Namespaces chat
// and lab have the labels team=chat and team=lab. A namespace that does not exist has no label, so no selector
// selects it. Queue without-cardquota has no CardQuota.
func TestAQueueAllowsTheNamespacesOfItsSelector(t *testing.T) {
	quotaWith := func(selector *metav1.LabelSelector) *v1alpha1.CardQuota {
		return &v1alpha1.CardQuota{Spec: v1alpha1.CardQuotaSpec{NamespaceSelector: selector}}
	}
	allows := namespaceCheck(map[string]*v1alpha1.CardQuota{
		"without-selector": quotaWith(nil),
		"empty-selector":   quotaWith(&metav1.LabelSelector{}),
		"team-chat":        quotaWith(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "chat"}}),
		"invalid-selector": quotaWith(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "no label value"}}),
	}, []*corev1.Namespace{builder.Namespace("chat", "team", "chat"), builder.Namespace("lab", "team", "lab")})

	for _, tc := range []struct {
		queue, namespace string
		want             bool
	}{
		{"without-selector", "lab", true},
		{"empty-selector", "lab", true},
		{"without-cardquota", "lab", true},
		{"invalid-selector", "lab", true},
		{"team-chat", "chat", true},
		{"team-chat", "lab", false},
		{"team-chat", "missing", false},
		{"team-chat", "lab", false}, // a second time, when the answer is remembered
	} {
		check.Equal(t, fmt.Sprintf("queue %s allows namespace %s", tc.queue, tc.namespace), tc.want, allows(tc.queue, tc.namespace))
	}
}

// TestSchedulerNamesComeFromThePolicy: spec.scheduler.names says under which names our scheduler places pods: "volcano" by
// default. Without a policy no name is known.
func TestSchedulerNamesComeFromThePolicy(t *testing.T) {
	policyWith := func(names ...string) *v1alpha1.ServiceTypePolicy {
		return &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Scheduler: v1alpha1.Scheduler{Names: names}}}
	}
	check.Equal(t, "names without a policy", nil, ourSchedulers(nil))
	check.Equal(t, "names by default", []string{"volcano"}, ourSchedulers(policyWith()))
	check.Equal(t, "names in the policy", []string{"a", "b"}, ourSchedulers(policyWith("a", "b")))
}
