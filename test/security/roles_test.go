package security

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/check"
)

// TestNoRuleIsOpen: a rule with a star grants what nobody thought of, now or in the next version
// of an API.
func TestNoRuleIsOpen(t *testing.T) {
	for _, account := range []string{manager, scheduler} {
		cluster, namespaced := &rbacv1.ClusterRole{}, &rbacv1.Role{}
		check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Name: account}, cluster))
		check.NoError(t, suite.admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: account}, namespaced))
		for _, rule := range append(cluster.Rules, namespaced.Rules...) {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				if slices.Contains(list, rbacv1.ResourceAll) {
					t.Errorf("%s has a rule with a star: %v", account, rule)
				}
			}
			if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
				t.Errorf("%s has a rule for every Secret: %v", account, rule)
			}
			if slices.Contains(rule.Verbs, "deletecollection") {
				t.Errorf("%s may delete collections: %v", account, rule)
			}
		}
	}
}
