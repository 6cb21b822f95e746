package usage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// fleet is a cluster with one node per model, all under nvidia.com/gpu.
func fleet() *card.Inventory {
	nodes := map[string]card.Node{}
	for node, model := range map[string]card.Name{
		"h200": "NVIDIA-H200", "h800": "NVIDIA-H800",
		"4090": "NVIDIA-GeForce-RTX-4090", "4090d": "NVIDIA-GeForce-RTX-4090-D",
	} {
		nodes[node] = card.Node{Model: string(model), Holdings: []card.Holding{{Name: model, Resource: gpu, Count: 8}}}
	}
	return card.NewInventory(nodes)
}

// podBuilder builds pods that show only what a case is about.
type podBuilder struct{ corev1.Pod }

func makePod(name string) *podBuilder {
	b := &podBuilder{}
	b.Namespace, b.Name, b.UID = "lab", name, types.UID("uid-"+name)
	b.Annotations = map[string]string{}
	b.Labels = map[string]string{}
	b.Status.Phase = corev1.PodPending
	b.Spec.Containers = []corev1.Container{{Name: "main"}}
	return b
}

func (b *podBuilder) queue(name string) *podBuilder {
	b.Annotations[v1alpha1.AnnotationQueueName] = name
	return b
}

// bound writes the record of a binding.
func (b *podBuilder) bound(queue string) *podBuilder {
	b.Annotations[v1alpha1.AnnotationChargedQueue] = queue
	return b
}

func (b *podBuilder) group(name string) *podBuilder {
	b.Annotations[v1alpha1.AnnotationPodGroup] = name
	return b
}

func (b *podBuilder) asks(request string, count int64) *podBuilder {
	if request != "" {
		b.Annotations[v1alpha1.AnnotationCardName] = request
	}
	return b.requests(gpu, *resource.NewQuantity(count, resource.DecimalSI))
}

func (b *podBuilder) requests(name corev1.ResourceName, quantity resource.Quantity) *podBuilder {
	list := b.Spec.Containers[0].Resources.Requests
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = quantity
	b.Spec.Containers[0].Resources.Requests = list
	return b
}

func (b *podBuilder) on(node string) *podBuilder {
	b.Spec.NodeName = node
	b.Status.Phase = corev1.PodRunning
	return b
}

func (b *podBuilder) phase(phase corev1.PodPhase) *podBuilder {
	b.Status.Phase = phase
	return b
}

func (b *podBuilder) deleted() *podBuilder {
	now := metav1.Now()
	b.DeletionTimestamp = &now
	return b
}

func (b *podBuilder) gated() *podBuilder {
	b.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	return b
}

func (b *podBuilder) unschedulable(message string) *podBuilder {
	b.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: message}}
	return b
}

func (b *podBuilder) ownedBy(apiVersion, kind, name string) *podBuilder {
	controller := true
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &controller}}
	return b
}

func (b *podBuilder) obj() *corev1.Pod { return &b.Pod }

// groupBuilder builds PodGroups.
type groupBuilder struct{ v1beta1.PodGroup }

func makeGroup(name, queue string) *groupBuilder {
	b := &groupBuilder{}
	b.Namespace, b.Name = "lab", name
	b.Annotations = map[string]string{}
	b.Spec.Queue = queue
	b.Status.Phase = v1beta1.PodGroupPending
	return b
}

func (b *groupBuilder) request(text string) *groupBuilder {
	b.Annotations[v1alpha1.AnnotationCardRequest] = text
	return b
}

func (b *groupBuilder) minResources(name corev1.ResourceName, count int64) *groupBuilder {
	b.Spec.MinResources = &corev1.ResourceList{name: *resource.NewQuantity(count, resource.DecimalSI)}
	return b
}

func (b *groupBuilder) phase(phase v1beta1.PodGroupPhase) *groupBuilder {
	b.Status.Phase = phase
	return b
}

func (b *groupBuilder) unschedulable(message string) *groupBuilder {
	b.Status.Conditions = append(b.Status.Conditions, v1beta1.PodGroupCondition{Type: v1beta1.PodGroupUnschedulableType,
		Status: corev1.ConditionTrue, Reason: v1beta1.NotEnoughResourcesReason, Message: message})
	return b
}

func (b *groupBuilder) ownedBy(apiVersion, kind, name string) *groupBuilder {
	controller := true
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &controller}}
	return b
}

func (b *groupBuilder) obj() *v1beta1.PodGroup { return &b.PodGroup }
