package fleet

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func node(name, kind, model string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kind + ".product": model, kind + ".memory": "1024"}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceName(kind): resource.MustParse("8")}},
	}
}

// told takes the word that something changed.
func (f *Fleet) told() bool {
	select {
	case <-f.changed:
		return true
	default:
		return false
	}
}

func resources(f *Fleet) []corev1.ResourceName {
	inventory, _ := f.Inventory()
	return inventory.Resources()
}

func TestACardStaysOne(t *testing.T) {
	const gpu, npu = corev1.ResourceName("nvidia.com/gpu"), corev1.ResourceName("example.com/npu")
	f := New(nil)
	f.see(node("a", "nvidia.com/gpu", "NVIDIA-H200"))
	if !f.told() || !slices.Equal(resources(f), []corev1.ResourceName{gpu}) {
		t.Fatalf("resources %v, want %s, and the word of it", resources(f), gpu)
	}
	f.see(node("a", "nvidia.com/gpu", "NVIDIA-H200"))
	check.That(t, !f.told(), "told of a node that is what it was")
	// It comes and goes before anybody looks.
	f.see(node("b", "example.com/npu", "Novel-1"))
	f.forget(toolscache.DeletedFinalStateUnknown{Obj: node("b", "example.com/npu", "Novel-1")})
	if want := []corev1.ResourceName{npu, gpu}; !f.told() || !slices.Equal(resources(f), want) {
		t.Errorf("resources %v, want %v", resources(f), want)
	}
	inventory, _ := f.Inventory()
	check.That(t, len(inventory.Names()) == 1, "cards %v, want those of the node that is there", inventory.Names())
}

func TestWhatWasACardBeforeTheStart(t *testing.T) {
	f := New(nil)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardResources: "example.com/npu"}}}
	f.remember(policy)
	if !f.told() || !slices.Equal(resources(f), []corev1.ResourceName{"example.com/npu"}) {
		t.Errorf("resources %v", resources(f))
	}
	f.remember(policy)
	check.That(t, !f.told(), "told of what was known")
	_, known := f.Inventory()
	check.That(t, !known, "all nodes are known before they were read")
}
