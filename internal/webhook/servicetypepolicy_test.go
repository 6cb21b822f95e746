package webhook

import (
	"context"
	"errors"
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

// TestThePolicyIsCheckedAgainstBothConfigMaps: without a base, the ConfigMap of the scheduler decides
// whether the operator renders another policy.
func TestThePolicyIsCheckedAgainstBothConfigMaps(t *testing.T) {
	configMap := func(namespace, from string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy.ConfigMapName, Annotations: map[string]string{v1alpha1.AnnotationRenderedFrom: from}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		objects []client.Object
		fails   string // the ConfigMap that cannot be read, "" for none
		want    string // "" for no warning
	}{
		"there never was a base":         {[]client.Object{configMap("cards", "Volcano's built-in default")}, "", "merged with this policy; the base has never existed"},
		"there was a base":               {[]client.Object{configMap("cards", "ConfigMap a/b, key c")}, "", "the policy waits: there is no ConfigMap volcano/volcano-scheduler-configmap"},
		"ours of another namespace":      {[]client.Object{configMap("volcano", "Volcano's built-in default")}, "", "the policy waits: there is no ConfigMap"},
		"the base cannot be read":        {nil, "volcano-scheduler-configmap", ""},
		"the scheduler's cannot be read": {nil, policy.ConfigMapName, ""},
	}) {
		scene := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).
			WithObjects(tc.objects...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if key.Name == tc.fails {
					return errors.New("not allowed")
				}
				return from.Get(ctx, key, into, options...)
			},
		}).Build()

		h := &handlers{cached: scene, live: scene, inventory: noCards{}, namespaces: Namespaces{Scheduler: "cards", Volcano: "volcano"}}
		object := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Reclaim: v1alpha1.ReclaimOff}, Status: v1alpha1.ServiceTypePolicyStatus{ConfigHash: "that of another policy"}}
		result, err := h.validateServiceTypePolicy(t.Context(), object, nil)
		check.Must(t, err == nil && len(result.Errors) == 0, "refused: %v %v", err, result.Errors)
		if tc.want == "" {
			check.That(t, len(result.Warnings) == 0, "warns %q", result.Warnings)
			continue
		}

		check.Must(t, len(result.Warnings) == 1, "warns %q", result.Warnings)
		check.Contains(t, "warning", result.Warnings[0], tc.want)
	}
}

// namedCards is an inventory of one node with a card.
type namedCards struct{ noCards }

func (namedCards) TrackedNodes() ([]card.TrackedNode, bool) {
	var tracker card.Tracker
	tracker.Update(builder.Node("own").GPUs("NVIDIA-H200", 8).Obj())
	return tracker.TrackedNodes(), true
}

// TestThePolicyIsComparedWithTheNodes: only the nodes say which of them an entry of spec.cards renames.
func TestThePolicyIsComparedWithTheNodes(t *testing.T) {
	scene := fake.NewClientBuilder().WithScheme(builder.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme)).Build()
	h := &handlers{cached: scene, live: scene, inventory: namedCards{}, namespaces: Namespaces{Scheduler: "cards", Volcano: "volcano"}}

	object := &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Cards: []v1alpha1.CardMapping{{Resource: "nvidia.com/gpu", ModelLabel: "cloud"}}}}
	result, err := h.validateServiceTypePolicy(t.Context(), object, nil)
	check.Must(t, err == nil && len(result.Warnings) > 0, "no warning: %v", err)
	check.Contains(t, "warning", result.Warnings[0], "spec.cards[nvidia.com/gpu]: an entry without nodeSelector is for all nodes: 1 node loses the name of this card (own; it was NVIDIA-H200)")
}
