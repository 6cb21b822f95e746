package security

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// csvPermissions are the rights that a ClusterServiceVersion requests from OLM.
type csvPermissions struct {
	Spec struct {
		Install struct {
			Spec struct {
				Permissions, ClusterPermissions []struct {
					ServiceAccountName string
					Rules              []rbacv1.PolicyRule
				}
			}
		}
	}
}

// TestTheProgramsAsOLMInstallsThem: OLM turns the rights of the bundle into ClusterRoles for all namespaces. So both
// programs may read the scheduler's ConfigMap and create Leases in any namespace, as docs/security.md states. They may
// not get the Secret of the webhooks, patch a configuration of theirs, or use a right of the lists of denied ones. A
// right is written as verbs, resources and namespace/name.
func TestTheProgramsAsOLMInstallsThem(t *testing.T) {
	text := check.Value(os.ReadFile("../../bundle/manifests/cardquota.clusterserviceversion.yaml"))(t)

	var bundle csvPermissions
	check.NoError(t, yaml.Unmarshal(text, &bundle))
	const installed = "by-olm"
	createForTest(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: installed}})

	for _, account := range []string{manager, scheduler} {
		createForTest(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: account}})
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: installed + "-" + account}}
		for _, permission := range append(bundle.Spec.Install.Spec.Permissions, bundle.Spec.Install.Spec.ClusterPermissions...) {
			if permission.ServiceAccountName == account {
				role.Rules = append(role.Rules, permission.Rules...)
			}
		}

		createForTest(t, role)
		createForTest(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installed, Name: account}},
		})
		caller := newCaller(t, installed, account)

		// Wider rights, as docs/security.md states.
		caller.expectAllowed(t, parsePermissions("get configmaps tenant/cardquota-scheduler-configmap\ncreate leases.coordination.k8s.io tenant/"))
		caller.expectDenied(t, slices.Concat(deniedToAll, deniedToOther[account], parsePermissions(`
			get secrets volcano-system/cardquota-webhook-cert
			patch mutatingwebhookconfigurations.admissionregistration.k8s.io /cardquota`)))
		if account == manager {
			caller.expectDenied(t, onlyToEnforce)
		}
	}
}
