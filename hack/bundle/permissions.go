package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// accountPermissions returns the rules per ServiceAccount as a ClusterServiceVersion has
// them: OLM creates accounts, roles and bindings from them. cluster rules apply everywhere,
// namespaced rules in the namespace of the installation; both are sorted by account.
//
// It is an error when a ClusterServiceVersion cannot express a binding: a ClusterRole in one
// namespace, a subject other than a ServiceAccount of the installation, or a role of another
// namespace.
func (r *rbac) accountPermissions(namespace string) (cluster, namespaced []v1alpha1.StrategyDeploymentPermissions, err error) {
	clusterRules := map[string][]rbacv1.PolicyRule{}
	namespacedRules := map[string][]rbacv1.PolicyRule{}
	if names := r.unboundClusterRoles(); len(names) > 0 {
		return nil, nil, fmt.Errorf("no account has ClusterRole %s, and OLM would never remove it: delete it in %s",
			strings.Join(names, ", "), installationDir)
	}

	for _, binding := range r.clusterRoleBindings {
		err := addRoleRules(clusterRules, r.clusterRoles, "ClusterRole", binding.RoleRef, binding.Subjects, r.accounts, namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}

	for _, binding := range r.roleBindings {
		if binding.Namespace != namespace {
			return nil, nil, fmt.Errorf("RoleBinding %s is in namespace %s: a bundle grants only in its own, %s",
				binding.Name, binding.Namespace, namespace)
		}
		err := addRoleRules(namespacedRules, r.roles, "Role", binding.RoleRef, binding.Subjects, r.accounts, namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("RoleBinding %s: %w", binding.Name, err)
		}
	}

	return sortedPermissions(clusterRules), sortedPermissions(namespacedRules), nil
}

// unboundClusterRoles returns the ClusterRoles that no account of the installation has. A
// bundle could contain them, but OLM never removes a ClusterRole that it installed from a bundle.
func (r *rbac) unboundClusterRoles() []string {
	var list []string
	for name := range r.clusterRoles {
		if !slices.ContainsFunc(r.clusterRoleBindings, func(b rbacv1.ClusterRoleBinding) bool { return b.RoleRef.Name == name }) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// addRoleRules adds the rules of a binding's role to each of its subjects.
func addRoleRules(to, roles map[string][]rbacv1.PolicyRule, kind string, ref rbacv1.RoleRef, subjects []rbacv1.Subject,
	accounts map[string]bool, namespace string,
) error {
	rules, ok := roles[ref.Name]
	if ref.Kind != kind || !ok {
		return fmt.Errorf("%s %s is no %s of the installation", ref.Kind, ref.Name, kind)
	}

	rules = slices.DeleteFunc(slices.Clone(rules), isForOwnCertificate)
	for _, subject := range subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != namespace || !accounts[subject.Name] {
			return fmt.Errorf("%s %s/%s is no ServiceAccount of the installation", subject.Kind, subject.Namespace, subject.Name)
		}
		to[subject.Name] = append(to[subject.Name], rules...)
	}

	return nil
}

// ownCertificateSecret is the Secret of a webhook certificate that the operator creates itself.
const ownCertificateSecret = "cardquota-webhook-cert"

// isForOwnCertificate reports whether a rule is only for a certificate that the operator
// creates and registers itself. OLM does both, so the bundle does not need the rule.
func isForOwnCertificate(rule rbacv1.PolicyRule) bool {
	switch strings.Join(rule.APIGroups, ",") {
	case "admissionregistration.k8s.io":
		return !slices.ContainsFunc(rule.Resources, func(resource string) bool {
			return resource != "mutatingwebhookconfigurations" && resource != "validatingwebhookconfigurations"
		})
	case "":
		return slices.Equal(rule.Resources, []string{"secrets"}) && slices.Equal(rule.ResourceNames, []string{ownCertificateSecret})
	default:
		return false
	}
}

func sortedPermissions(rules map[string][]rbacv1.PolicyRule) []v1alpha1.StrategyDeploymentPermissions {
	var list []v1alpha1.StrategyDeploymentPermissions
	for account, granted := range rules {
		list = append(list, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: granted})
	}
	slices.SortFunc(list, func(a, b v1alpha1.StrategyDeploymentPermissions) int {
		return strings.Compare(a.ServiceAccountName, b.ServiceAccountName)
	})
	return list
}
