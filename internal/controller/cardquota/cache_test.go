package cardquota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestStrippedNodesAreRecognisedAlike(t *testing.T) {
	node := builder.Node("node").GPUs("NVIDIA-H200", 8).Obj()
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	stripped := stripNode(node.DeepCopy())
	check.That(t, stripped.Status.Images == nil, "the node is not stripped")

	for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady"}}
		got := card.IsNodeReady(stripNode(node.DeepCopy()))
		check.That(t, got == (ready == corev1.ConditionTrue), "a node whose readiness is %s is stripped to one that is ready: %v", ready, got)
	}

	for _, isCordoned := range []bool{true, false} {
		node.Spec.Unschedulable = isCordoned
		check.Equal(t, "cordoned", isCordoned, stripNode(node.DeepCopy()).Spec.Unschedulable)
	}

	check.Equal(t, "the stripped node is recognised differently", card.Recognise(node, nil), card.Recognise(stripped, nil))
	check.Equal(t, "capacity", node.Status.Capacity, stripped.Status.Capacity)
}

func TestStripLetsOtherObjectsPass(t *testing.T) {
	in := "a tombstone"
	out, err := transformOnly(strip.PodGroup)(in)
	check.That(t, err == nil && out == in, "transform(%v) = %v, %v", in, out, err)
}

// TestManagedFieldsOfAStatusAreDropped: those of the spec of a CardQuota say which fields are unknown,
// and those of a Queue who holds its fields.
func TestManagedFieldsOfAStatusAreDropped(t *testing.T) {
	transform := CacheOptions().DefaultTransform
	for _, tc := range []struct {
		object client.Object
		want   []string
	}{{&v1alpha1.CardQuota{}, []string{"spec"}}, {&v1alpha1.LocalCardQuota{}, nil}, {&v1beta1.Queue{}, []string{"spec", "status"}}} {
		tc.object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "spec"}, {Manager: "status", Subresource: "status"}})
		kept := check.Value(transform(tc.object))(t)

		var managers []string
		for _, entry := range kept.(client.Object).GetManagedFields() {
			managers = append(managers, entry.Manager)
		}
		check.Equal(t, fmt.Sprintf("managers of %T", tc.object), tc.want, managers)
	}
}
