package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWarningOfAMissingBaseDependsOnWhatWasRendered: the operator renders the scheduler's configuration from the
// policy and a base, a ConfigMap of Volcano in namespace volcano. Here the base is missing. Our own ConfigMap, in
// namespace cards, says from what it was rendered. From Volcano's default: there never was a base, and the operator
// uses the default again. From a base, or without our ConfigMap: the operator waits for the base. The webhook warns
// of both. If it cannot read one of the ConfigMaps, it does not warn.
func TestWarningOfAMissingBaseDependsOnWhatWasRendered(t *testing.T) {
	configMap := func(namespace, from string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy.ConfigMapName, Annotations: map[string]string{v1alpha1.AnnotationRenderedFrom: from}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		objects     []client.Object
		unreadable  string // the ConfigMap that cannot be read, "" for none
		wantWarning string // "" for no warning
	}{
		"our ConfigMap was rendered from the default": {
			objects:     []client.Object{configMap("cards", "Volcano's built-in default")},
			wantWarning: "merged with this policy; the base has never existed",
		},
		"our ConfigMap was rendered from a base": {
			objects:     []client.Object{configMap("cards", "ConfigMap a/b, key c")},
			wantWarning: "the policy waits: there is no ConfigMap volcano/volcano-scheduler-configmap",
		},
		"a ConfigMap like ours in another namespace": {
			objects:     []client.Object{configMap("volcano", "Volcano's built-in default")},
			wantWarning: "the policy waits: there is no ConfigMap",
		},
		"the base cannot be read":      {unreadable: "volcano-scheduler-configmap"},
		"our ConfigMap cannot be read": {unreadable: policy.ConfigMapName},
	}) {
		scene := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).
			WithObjects(tc.objects...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if key.Name == tc.unreadable {
					return errors.New("not allowed")
				}
				return from.Get(ctx, key, into, options...)
			},
		}).Build()

		webhooks := &handlers{cached: scene, live: scene, inventory: noCards{}, namespaces: Namespaces{Scheduler: "cards", Volcano: "volcano"}}
		object := &v1alpha1.ServiceTypePolicy{
			Spec:   v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimOff},
			Status: v1alpha1.ServiceTypePolicyStatus{ConfigHash: "that of another policy"}, // a policy was rendered before
		}
		result := check.Value(webhooks.validateServiceTypePolicy(t.Context(), object, nil))(t)
		check.Equal(t, "errors", nil, result.Errors)
		check.Equal(t, "number of warnings", min(1, len(tc.wantWarning)), len(result.Warnings))
		check.Contains(t, "warnings", fmt.Sprint(result.Warnings), tc.wantWarning)
	}
}

// namedCards is an inventory of node "own" with 8 NVIDIA-H200.
type namedCards struct{ noCards }

func (namedCards) TrackedNodes() ([]card.TrackedNode, bool) {
	var tracker card.Tracker
	tracker.Update(builder.Node("own").GPUs("NVIDIA-H200", 8).Obj())
	return tracker.TrackedNodes(), true
}

// TestWarningOfAnEntryOfCardsNamesTheNodes: an entry of spec.cards without nodeSelector is for all nodes. Here the
// entry names a label of a cloud, which node "own" does not have. So its 8 NVIDIA-H200 would lose their name. The webhook
// compares the policy with the nodes and warns.
func TestWarningOfAnEntryOfCardsNamesTheNodes(t *testing.T) {
	scene := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).Build()
	webhooks := &handlers{cached: scene, live: scene, inventory: namedCards{}, namespaces: Namespaces{Scheduler: "cards", Volcano: "volcano"}}

	object := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: []v1alpha1.CardMapping{{Resource: "nvidia.com/gpu", ModelLabel: "cloud"}}}}
	result := check.Value(webhooks.validateServiceTypePolicy(t.Context(), object, nil))(t)
	check.Contains(t, "warnings", fmt.Sprint(result.Warnings), "spec.cards[nvidia.com/gpu]: an entry without nodeSelector is for all nodes: 1 node loses the name of this card (own; it was NVIDIA-H200)")
}
