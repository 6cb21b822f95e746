package nodecards

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCardsThatNothingNamesHaveTheNameOfTheirResource: a Fleet counts cards on nodes without labels. Node h200 has
// labels. No label names the GPUs of new, nor amd.com/gpu of amd, which only looks like a card. The labels of shared say
// 2 H200, and it offers 8: it withholds these, and they keep their name. Amounts of memory and network devices are no
// cards. A pod requests huawei.com/Ascend910, which no known node offers, so its number is not known.
func TestCardsThatNothingNamesHaveTheNameOfTheirResource(t *testing.T) {
	tracker := &card.Tracker{}
	for _, node := range []*corev1.Node{
		builder.Node("h200").GPUs("NVIDIA-H200", 8).Resource("rdma/hca", "4").Obj(),
		builder.Node("new").GPUs("", 4).Resource("nvidia.com/gpumem", "100").Obj(),
		builder.Node("amd").Resource("amd.com/gpu", "2").Obj(),
		builder.Node("shared").GPUs("NVIDIA-H200", 2).With(func(node *corev1.Node) {
			node.Status.Allocatable[builder.GPU] = builder.Resources("8", "")[corev1.ResourceCPU]
		}).Obj(),
		builder.Node("cpu").Obj(),
	} {
		tracker.Update(node)
	}

	pods := []*corev1.Pod{builder.Pod("lab", "a").Requests("huawei.com/Ascend910", "3").Requests("rdma/hca", "1").Obj()}
	fleet := NewFleet(tracker, pods)
	check.Equal(t, "number of each card", map[card.Name]card.Count{"NVIDIA-H200": 8, "nvidia.com/gpu": 4, "amd.com/gpu": 2, "huawei.com/Ascend910": 0}, fleet.Inventory.Physical())

	used, _ := fleet.Inventory.CardInUseOnNode("shared", builder.GPU)
	check.Equal(t, "card of the node that withholds it", "NVIDIA-H200", used)
	check.Equal(t, "number of nodes", 5, len(fleet.States()))

	for name, want := range map[card.Name]bool{"NVIDIA-H200": true, "NVIDIA-H200/mig-1g.18gb-mixed": true, "nvidia.com/gpu": false, "nvidia.com/mig-1g.18gb": false} {
		check.Equal(t, string(name)+" is a card name", want, IsNamed(name))
	}
}
