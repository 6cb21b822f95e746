package security

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNoRuleIsOpen: a rule with a star grants what nobody thought of, now or in the next version
// of an API.
func TestNoRuleIsOpen(t *testing.T) {
	for _, account := range []string{manager, scheduler} {
		cluster, namespaced := &rbacv1.ClusterRole{}, &rbacv1.Role{}
		if err := suite.admin.Get(t.Context(), client.ObjectKey{Name: account}, cluster); err != nil {
			t.Fatal(err)
		}
		if err := suite.admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: account}, namespaced); err != nil {
			t.Fatal(err)
		}
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

// TestTheProgramsCannotRaiseThemselves tries it for real: the API server refuses rights that the
// asker does not have.
func TestTheProgramsCannotRaiseThemselves(t *testing.T) {
	for _, name := range []string{manager, scheduler} {
		c := account(t, system, name)
		role := &rbacv1.ClusterRole{}
		if err := suite.admin.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			t.Fatal(err)
		}
		more := role.DeepCopy()
		more.Rules = append(more.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
		if err := c.Patch(t.Context(), more, client.MergeFrom(role)); !apierrors.IsForbidden(err) {
			t.Errorf("%s changes its own role: %v", name, err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "more-for-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: name}},
		}
		if err := c.Create(t.Context(), binding); !apierrors.IsForbidden(err) {
			t.Errorf("%s makes itself cluster-admin: %v", name, err)
		}
	}
}
