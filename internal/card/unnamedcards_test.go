package card

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestUnnamedCards: a node that offers a card and does not name it yet is known as such, also where only
// other nodes tell that its resource is a card.
func TestUnnamedCards(t *testing.T) {
	const npu = "huawei.com/Ascend910"
	node := func(name string, labels map[string]string, offered corev1.ResourceName, count string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{offered: resource.MustParse(count)}}}
	}

	named := map[string]string{"huawei.com/npu.product": "Ascend-910B", "huawei.com/npu.memory": "65536"}
	tracker := &Tracker{}
	for _, n := range []*corev1.Node{
		node("npu-0", named, npu, "8"), node("npu-1", nil, npu, "0"), node("gpu-1", nil, "nvidia.com/gpu", "8"), node("gpu-0", nil, "nvidia.com/gpu", "8"),
		node("disks", nil, "example.com/disk", "4"),
	} {
		tracker.Update(n)
	}

	unnamed := tracker.Inventory().UnnamedCards()
	check.Must(t, len(unnamed) == 1, "unnamed are %+v", unnamed)
	check.Equal(t, "nodes", []string{"gpu-0", "gpu-1"}, unnamed[0].Nodes)

	tracker.Update(node("npu-1", nil, npu, "8"))
	check.Equal(t, "of NVIDIA", 1, len(tracker.Inventory().UnnamedCardsFor("nvidia.com/gpu")))
	ofNPU := tracker.Inventory().UnnamedCardsFor(npu)
	check.Must(t, len(ofNPU) == 1 && len(ofNPU[0].Nodes) == 1 && ofNPU[0].Nodes[0] == "npu-1", "unnamed are %+v", ofNPU)
	check.Contains(t, "message", ofNPU[0].Message, "offers "+npu, "huawei.com/<type>.product")

	tracker.Update(node("npu-1", named, npu, "8"))
	check.Equal(t, "once it is named", 0, len(tracker.Inventory().UnnamedCardsFor(npu)))
}

// TestOtherDevicesAreNoNews: what is no card comes and goes without a new Inventory, and what is one elsewhere
// does not.
func TestOtherDevicesAreNoNews(t *testing.T) {
	const (
		other = "vendor.example/novel"
		novel = "vendor.example/novel.product=X vendor.example/novel.memory=1 vendor.example/novel:1"
	)

	named := func(name, parts string) *corev1.Node {
		n := node(strings.Fields(parts)...)
		n.Name = name
		return n
	}

	var tracker Tracker
	tracker.Update(named("a", h200+"nvidia.com/gpu:8 rdma/hca:0"))
	before := tracker.Inventory()
	isNews := tracker.Update(named("a", h200+"nvidia.com/gpu:8 rdma/hca:8 "+other+":1"))
	check.That(t, !isNews && tracker.Inventory() == before, "devices that are no cards changed the inventory")

	tracker.Update(named("b", novel))
	check.Equal(t, "nodes that do not name it", 1, len(tracker.Inventory().UnnamedCardsFor(other)))

	tracker.Update(named("a", h200+"nvidia.com/gpu:8 vendor.example/novel.product=X "+other+":1"))
	unnamed := tracker.Inventory().UnnamedCardsFor(other)
	check.Must(t, len(unnamed) == 1, "unnamed are %+v", unnamed)
	check.Contains(t, "message", unnamed[0].Message, "no label vendor.example/novel.memory")
	check.That(t, tracker.Update(named("a", h200+"nvidia.com/gpu:8")), "a card that goes is no news")
	check.Equal(t, "nodes that do not name it", 0, len(tracker.Inventory().UnnamedCardsFor(other)))
}

// TestWithheldCards: their name is right, and no new pod gets them.
func TestWithheldCards(t *testing.T) {
	inv := inventory(map[string]string{"b": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80", "a": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80", "more": h200 + "nvidia.com/gpu.count=8 nvidia.com/gpu:9"})
	withheld := inv.WithheldCards("NVIDIA-H800")
	check.Must(t, len(withheld) == 1, "withheld are %+v", withheld)
	check.Equal(t, "nodes", []string{"a", "b"}, withheld[0].Nodes)
	check.Contains(t, "message", withheld[0].Message, "offers 80 nvidia.com/gpu, more than label")
	check.Equal(t, "cards that pods get", 0, len(inv.WithheldCards("NVIDIA-H200")))
	check.Equal(t, "cards that no label names", 0, len(inv.UnnamedCardsFor("")))
}
