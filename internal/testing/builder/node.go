package builder

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// cardMemoryMiB is the memory of card models in MiB, as in NVIDIA's label.
var cardMemoryMiB = map[string]int{
	"NVIDIA-H200": 143771, "NVIDIA-H800": 81559, "NVIDIA-H20": 97871, "NVIDIA-A100-SXM4-80GB": 81920, "NVIDIA-L40S": 46068,
	"NVIDIA-GeForce-RTX-4090": 24564, "NVIDIA-GeForce-RTX-4090-D": 24564, "Ascend-910B": 65536,
}

// NodeBuilder builds a node.
type NodeBuilder struct {
	object[*NodeBuilder, *corev1.Node]
}

// Node is a ready node with 64 CPU, 1 TiB of memory, room for 110 pods and no card.
func Node(name string) *NodeBuilder {
	b := &NodeBuilder{}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	b.object = newObject("Node", "", name, b, &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}}})
	return b.Resource(corev1.ResourceCPU, "64").Resource(corev1.ResourceMemory, "1Ti").Resource(corev1.ResourcePods, "110")
}

// Resource sets how much of a resource the node has.
func (b *NodeBuilder) Resource(name corev1.ResourceName, quantity string) *NodeBuilder {
	b.obj.Status.Allocatable = addQuantity(b.obj.Status.Allocatable, name, quantity)
	b.obj.Status.Capacity = addQuantity(b.obj.Status.Capacity, name, quantity)
	return b
}

// GPUs adds NVIDIA cards of a model. Without a model the node does not name them.
func (b *NodeBuilder) GPUs(model string, count int) *NodeBuilder {
	if model != "" {
		b.labelCard("nvidia.com/gpu", model).Label("nvidia.com/gpu.count", strconv.Itoa(count))
	}
	return b.Resource(GPU, strconv.Itoa(count))
}

// NPUs adds Ascend cards of a model.
func (b *NodeBuilder) NPUs(model string, count int) *NodeBuilder {
	return b.labelCard("huawei.com/npu", model).Resource("huawei.com/Ascend910", strconv.Itoa(count))
}

func (b *NodeBuilder) labelCard(product, model string) *NodeBuilder {
	memory, known := cardMemoryMiB[model]
	if !known {
		memory = 81920
	}
	return b.Label(product+".product", model).Label(product+".memory", strconv.Itoa(memory))
}

// MIG adds MIG slices of the node's cards: "1g.18gb".
func (b *NodeBuilder) MIG(profile string, count int) *NodeBuilder {
	base := "nvidia.com/mig-" + profile
	b.Label("nvidia.com/mig.strategy", "mixed")
	b.Label(base+".product", b.obj.Labels["nvidia.com/gpu.product"]+"-MIG-"+profile)
	return b.Resource(corev1.ResourceName(base), strconv.Itoa(count))
}

// MPS divides each of the node's NVIDIA cards into MPS shares.
func (b *NodeBuilder) MPS(replicas int) *NodeBuilder {
	b.Label("nvidia.com/gpu.sharing-strategy", "mps").Label("nvidia.com/gpu.replicas", strconv.Itoa(replicas))
	for _, list := range []corev1.ResourceList{b.obj.Status.Allocatable, b.obj.Status.Capacity} {
		whole := list[GPU]
		delete(list, GPU)
		list["nvidia.com/gpu.shared"] = *resource.NewQuantity(whole.Value()*int64(replicas), resource.DecimalSI)
	}
	return b
}

// Cordoned cordons the node.
func (b *NodeBuilder) Cordoned() *NodeBuilder { b.obj.Spec.Unschedulable = true; return b }

// NotReady says that the kubelet does not answer.
func (b *NodeBuilder) NotReady() *NodeBuilder {
	b.obj.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	return b
}
