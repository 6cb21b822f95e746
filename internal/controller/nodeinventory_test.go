package controller

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestNodeInventory(t *testing.T) {
	const gpu, npu = corev1.ResourceName("nvidia.com/gpu"), corev1.ResourceName("example.com/npu")
	n := NewNodeInventory(nil)
	told := 0
	n.OnChange(func() { told++ })
	expect := func(when string, wantTold int, want ...corev1.ResourceName) {
		t.Helper()
		inventory, known := n.Inventory()
		check.That(t, !known, "%s: all nodes are known before they were read", when)
		check.That(t, slices.Equal(inventory.Resources(), want), "%s: resources %v, want %v", when, inventory.Resources(), want)
		check.Equal(t, when+": told", wantTold, told)
		told = 0
	}
	n.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	expect("a node comes", 1, gpu)
	n.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj())
	expect("a label that changes no card", 0, gpu)
	n.deleteNode(toolscache.DeletedFinalStateUnknown{Obj: builder.Node("a").Obj()})
	expect("the node goes", 1, gpu)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardResources: string(npu)}}}
	n.rememberResources(policy)
	expect("what was a card before the start", 1, npu, gpu)
	n.rememberResources(policy)
	expect("what is known", 0, npu, gpu)
}
