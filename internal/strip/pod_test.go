package strip

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// TestStrippedPodsCountAlike fills every part of a pod that may matter and
// compares what is made of the whole pod and of what the cache keeps.
func TestStrippedPodsCountAlike(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	list := func(cpu, gpus string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "nvidia.com/gpu": resource.MustParse(gpus)}
	}

	controller := true
	base := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab", Name: "a", UID: "u", Labels: map[string]string{"pod-template-hash": "x"},
			Annotations:     map[string]string{"scheduling.volcano.sh/queue-name": "q", "volcano.sh/card.name": "NVIDIA-H200"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", Controller: &controller}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: list("1", "2")}}},
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: list("3", "1")}}},
			Overhead:       corev1.ResourceList{"cpu": resource.MustParse("100m")},
			Volumes:        []corev1.Volume{{Name: "data"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: "Unschedulable", Message: "full"}},
		},
	}

	inventory := h200()
	for t, change := range check.Cases(t, map[string]func(*corev1.Pod){
		"waiting": func(*corev1.Pod) {},
		"gated":   func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
		"running": func(p *corev1.Pod) {
			p.Spec.NodeName = "node"
			p.Status.Phase = corev1.PodRunning
		},
		"deleting": func(p *corev1.Pod) { p.Spec.NodeName = "node"; p.DeletionTimestamp = &metav1.Time{} },
		"bound": func(p *corev1.Pod) {
			p.ManagedFields = entries(`{"f:spec":{"f:containers":{}}}`, `{"f:status":{"f:phase":{}}}`)
		},
		"created with a node name": func(p *corev1.Pod) {
			p.ManagedFields = entries(`{"f:status":{"f:phase":{}}}`, `{"f:spec":{"f:containers":{},"f:nodeName":{}}}`)
		},
		"resized": func(p *corev1.Pod) {
			p.Spec.NodeName = "node"
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ImageID: "id", AllocatedResources: list("9", "2"),
				Resources: &corev1.ResourceRequirements{Requests: list("9", "2")}}}
		},
		"with resources of its own": func(p *corev1.Pod) {
			p.Spec.NodeName = "node"
			p.Status.Phase = corev1.PodRunning
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("12")}}
		},
	}) {
		whole := base.DeepCopy()
		change(whole)
		stripped := Pod(whole.DeepCopy())
		check.That(t, len(stripped.ManagedFields) <= 1 && stripped.Spec.Volumes == nil && stripped.Spec.Containers[0].Image == "",
			"pod is not stripped: %+v", stripped)

		count := func(pod *corev1.Pod) any {
			return cardquota.CountUsage(cardquota.CountInput{Pods: []*corev1.Pod{pod}, Inventory: inventory})
		}
		check.Equal(t, "the stripped pod counts differently", count(whole), count(stripped))
		check.Equal(t, "the stripped pod came to its node differently", enforcement.ProvenanceOf(whole), enforcement.ProvenanceOf(stripped))

		resolver := workload.Resolver{Inventory: inventory}
		check.Equal(t, "the stripped pod asks differently", resolver.Request(whole), resolver.Request(stripped), cmp.AllowUnexported(card.Request{}))
	}
}

// entries are managedFields, one for each text.
func entries(texts ...string) (fields []metav1.ManagedFieldsEntry) {
	for _, text := range texts {
		fields = append(fields, metav1.ManagedFieldsEntry{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(text)}})
	}
	return fields
}
