package security

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// TestATenantReadsNothingOfOthers: what others were granted, what they use and what they run.
func TestATenantReadsNothingOfOthers(t *testing.T) {
	grant(t, quota("secretive", theirs))
	create(t, pod("secretive", "secretive", func(p *corev1.Pod) { p.Namespace = neighbour }))
	c := tessClient(t)
	in := func(namespace string) client.ListOption { return client.InNamespace(namespace) }
	for what, try := range map[string]func() error{
		"all CardQuotas": func() error { return c.List(t.Context(), &v1alpha1.CardQuotaList{}) },
		"one CardQuota": func() error {
			return c.Get(t.Context(), client.ObjectKey{Name: "secretive"}, &v1alpha1.CardQuota{})
		},
		"the policy": func() error {
			return c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PolicyName}, &v1alpha1.ServiceTypePolicy{})
		},
		"all Queues":                    func() error { return c.List(t.Context(), &v1beta1.QueueList{}) },
		"one Queue":                     func() error { return c.Get(t.Context(), client.ObjectKey{Name: "secretive"}, &v1beta1.Queue{}) },
		"the nodes":                     func() error { return c.List(t.Context(), &corev1.NodeList{}) },
		"the pods of others":            func() error { return c.List(t.Context(), &corev1.PodList{}, in(neighbour)) },
		"the PodGroups of others":       func() error { return c.List(t.Context(), &v1beta1.PodGroupList{}, in(neighbour)) },
		"the events of others":          func() error { return c.List(t.Context(), &corev1.EventList{}, in(neighbour)) },
		"the events of CardQuotas":      func() error { return c.List(t.Context(), &corev1.EventList{}, in(metav1.NamespaceDefault)) },
		"all events":                    func() error { return c.List(t.Context(), &corev1.EventList{}) },
		"the scheduler's configuration": func() error { return c.List(t.Context(), &corev1.ConfigMapList{}, in(system)) },
		"the proof of enforcement":      func() error { return c.List(t.Context(), &coordinationv1.LeaseList{}, in(system)) },
		"our logs": func() error {
			return c.SubResource("log").Get(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "any"}}, &corev1.Pod{})
		},
	} {
		t.Run(what, func(t *testing.T) {
			if err := try(); !apierrors.IsForbidden(err) {
				t.Errorf("not refused for want of rights: %v", err)
			}
		})
	}

	viewer, err := as("viewer")
	if err != nil {
		t.Fatal(err)
	}
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view-everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
	})
	expect(t).Eventually(func() error { return viewer.List(t.Context(), &v1alpha1.CardQuotaList{}) }).Should(Succeed(), "who may view the cluster")
	if err := viewer.Patch(t.Context(), quota("secretive", nil), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"tenant":"own"}}`))); !apierrors.IsForbidden(err) {
		t.Errorf("who may view the cluster grants cards: %v", err)
	}
}
