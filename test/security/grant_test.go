package security

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

func tessClient(t *testing.T) client.Client {
	t.Helper()
	c, err := as(tess)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestATenantCannotGrantItselfCards tries everything by which cards are granted.
func TestATenantCannotGrantItselfCards(t *testing.T) {
	theirs := quota("granting", func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Quota = 2 })
	create(t, theirs)
	c := tessClient(t)
	merge := func(object client.Object, body string) error {
		return c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(body)))
	}
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for what, try := range map[string]func(context.Context) error{
		"raise a CardQuota": func(context.Context) error {
			return merge(&v1alpha1.CardQuota{ObjectMeta: named("", "granting")}, `{"spec":{"tenant":"tess"}}`)
		},
		"make a CardQuota": func(ctx context.Context) error { return c.Create(ctx, quota("own", nil)) },
		"raise a Queue": func(context.Context) error {
			return merge(&v1beta1.Queue{ObjectMeta: named("", "granting")}, `{"metadata":{"annotations":{"volcano.sh/card.quota":"{\"NVIDIA-H200\":8}"}}}`)
		},
		"make a Queue": func(ctx context.Context) error {
			return c.Create(ctx, &v1beta1.Queue{ObjectMeta: named("", "own"), Spec: v1beta1.QueueSpec{Weight: 1}})
		},
		"change the policy": func(context.Context) error {
			return merge(&v1alpha1.ServiceTypePolicy{ObjectMeta: named("", "default")}, `{"spec":{"unmanagedQueues":"Ignore"}}`)
		},
		"change the scheduler's configuration": func(context.Context) error {
			return merge(&corev1.ConfigMap{ObjectMeta: named(system, "volcano-scheduler-configmap")}, `{"data":{"volcano-scheduler.conf":""}}`)
		},
		"prove what is not enforced": func(context.Context) error {
			return merge(&coordinationv1.Lease{ObjectMeta: named(system, "cardquota-scheduler")}, `{"spec":{"holderIdentity":"tess"}}`)
		},
		"rename the card of a node": func(context.Context) error {
			return merge(&corev1.Node{ObjectMeta: named("", "rtx4090")}, `{"metadata":{"labels":{"nvidia.com/gpu.product":"cheap"}}}`)
		},
		"label its namespace": func(context.Context) error {
			return merge(&corev1.Namespace{ObjectMeta: named("", tenant)}, `{"metadata":{"labels":{"team":"theirs"}}}`)
		},
		"bind a pod": func(ctx context.Context) error {
			pod := &corev1.Pod{ObjectMeta: named(tenant, "any")}
			return c.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "h200-0"}})
		},
		"end a pod for the eyes of the account": func(ctx context.Context) error {
			pod := &corev1.Pod{ObjectMeta: named(tenant, "any")}
			return c.SubResource("status").Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`)))
		},
		"exempt itself": func(context.Context) error {
			return merge(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named("", v1alpha1.BypassPolicyName)}, `{"metadata":{"labels":{"a":"b"}}}`)
		},
		"take the webhooks away": func(ctx context.Context) error {
			return c.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named("", "cardquota")})
		},
		"make a PriorityClass": func(ctx context.Context) error {
			return c.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: named("", "own"), Value: 1000000})
		},
		"be an administrator of cards": func(ctx context.Context) error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: named(tenant, "own"),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cardquota-admin"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: tess}}})
		},
		"read the webhooks' key": func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKey{Namespace: system, Name: "cardquota-webhook-cert"}, &corev1.Secret{})
		},
	} {
		t.Run(what, func(t *testing.T) {
			if err := try(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("not refused for want of rights: %v", err)
			}
		})
	}
}
