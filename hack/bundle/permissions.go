package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// permissions are the rules per ServiceAccount as a ClusterServiceVersion carries them: OLM
// makes the accounts, roles and bindings of them. cluster holds everywhere, namespaced in the
// namespace of the installation; both are sorted by account. A binding that a
// ClusterServiceVersion cannot express is an error: a ClusterRole in one namespace, a subject
// that is no ServiceAccount of the installation, a role of another namespace.
func (r *rbac) permissions(namespace string) (cluster, namespaced []v1alpha1.StrategyDeploymentPermissions, err error) {
	clusterRules, namespacedRules := map[string][]rbacv1.PolicyRule{}, map[string][]rbacv1.PolicyRule{}
	for _, binding := range r.clusterRoleBindings {
		err := bind(clusterRules, r.clusterRoles, "ClusterRole", binding.RoleRef, binding.Subjects, r.accounts, namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}
	for _, binding := range r.roleBindings {
		if binding.Namespace != namespace {
			return nil, nil, fmt.Errorf("RoleBinding %s is in namespace %s: a bundle grants only in its own, %s",
				binding.Name, binding.Namespace, namespace)
		}
		err := bind(namespacedRules, r.roles, "Role", binding.RoleRef, binding.Subjects, r.accounts, namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("RoleBinding %s: %w", binding.Name, err)
		}
	}
	return perAccount(clusterRules), perAccount(namespacedRules), nil
}

// bind adds the rules of the role that a binding refers to to each of its subjects.
func bind(to, roles map[string][]rbacv1.PolicyRule, kind string, ref rbacv1.RoleRef, subjects []rbacv1.Subject,
	accounts map[string]bool, namespace string,
) error {
	rules, ok := roles[ref.Name]
	if ref.Kind != kind || !ok {
		return fmt.Errorf("%s %s is no %s of the installation", ref.Kind, ref.Name, kind)
	}
	for _, subject := range subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != namespace || !accounts[subject.Name] {
			return fmt.Errorf("%s %s/%s is no ServiceAccount of the installation", subject.Kind, subject.Namespace, subject.Name)
		}
		to[subject.Name] = append(to[subject.Name], rules...)
	}
	return nil
}

func perAccount(rules map[string][]rbacv1.PolicyRule) []v1alpha1.StrategyDeploymentPermissions {
	var list []v1alpha1.StrategyDeploymentPermissions
	for account, granted := range rules {
		list = append(list, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: granted})
	}
	slices.SortFunc(list, func(a, b v1alpha1.StrategyDeploymentPermissions) int {
		return strings.Compare(a.ServiceAccountName, b.ServiceAccountName)
	})
	return list
}
