package card

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestUnnamedCardsListNodesWithoutAName: an unnamed card is one that a node offers and no label names, so
// that no new pod gets it. The list has an entry for each resource, with its nodes. NVIDIA's resources are
// cards by their name. A resource of another vendor is a card once some node names it. Then another node that
// offers it without labels has unnamed cards. Disks are no cards.
func TestUnnamedCardsListNodesWithoutAName(t *testing.T) {
	const ascend = "huawei.com/Ascend910"
	tracker := &Tracker{}
	tracker.Update(newNamedNode("npu-0", npu+ascend+":8"))
	tracker.Update(newNamedNode("npu-1", ascend+":0"))
	tracker.Update(newNamedNode("gpu-1", "nvidia.com/gpu:8"))
	tracker.Update(newNamedNode("gpu-0", "nvidia.com/gpu:8"))
	tracker.Update(newNamedNode("disks", "example.com/disk:4"))

	// Node npu-1 has 0 cards yet.
	unnamed := tracker.Inventory().UnnamedCards()
	check.Must(t, len(unnamed) == 1, "unnamed are %+v", unnamed)
	check.Equal(t, "nodes with unnamed cards", []string{"gpu-0", "gpu-1"}, unnamed[0].Nodes)

	// The device plugin of npu-1 starts, and reports 8 cards before the node has labels.
	tracker.Update(newNamedNode("npu-1", ascend+":8"))
	check.Equal(t, "entries for unnamed NVIDIA cards", 1, len(tracker.Inventory().UnnamedCardsFor("nvidia.com/gpu")))
	ascends := tracker.Inventory().UnnamedCardsFor(ascend)
	check.Must(t, len(ascends) == 1, "unnamed are %+v", ascends)
	check.Equal(t, "nodes with unnamed Ascend cards", []string{"npu-1"}, ascends[0].Nodes)
	check.Contains(t, "message", ascends[0].Message, "offers "+ascend, "huawei.com/<type>.product")

	// Labels of npu-1 name its cards.
	tracker.Update(newNamedNode("npu-1", npu+ascend+":8"))
	check.Equal(t, "unnamed Ascend cards", 0, len(tracker.Inventory().UnnamedCardsFor(ascend)))
}

// TestADeviceIsAnUnnamedCardOnceAnotherNodeNamesIt: node a gets a network device, and a device that is no card on any
// node: the inventory stays the same. Then node b names vendor.example/novel as its card. So the same device of node a
// is an unnamed card. Node a gets the label of the product only, and the message names the label of the memory, which
// is missing. When the device is removed, that is a change.
func TestADeviceIsAnUnnamedCardOnceAnotherNodeNamesIt(t *testing.T) {
	const (
		eightH200 = h200 + "nvidia.com/gpu:8 "
		novel     = "vendor.example/novel"
	)

	var tracker Tracker
	tracker.Update(newNamedNode("a", eightH200+"rdma/hca:0"))
	before := tracker.Inventory()
	changed := tracker.Update(newNamedNode("a", eightH200+"rdma/hca:8 "+novel+":1"))
	check.That(t, !changed && tracker.Inventory() == before, "devices that are no cards changed the inventory")

	tracker.Update(newNamedNode("b", novel+".product=X "+novel+".memory=1 "+novel+":1"))
	check.Equal(t, "entries for unnamed novel cards", 1, len(tracker.Inventory().UnnamedCardsFor(novel)))

	tracker.Update(newNamedNode("a", eightH200+novel+".product=X "+novel+":1"))
	unnamed := tracker.Inventory().UnnamedCardsFor(novel)
	check.Must(t, len(unnamed) == 1, "unnamed are %+v", unnamed)
	check.Contains(t, "message", unnamed[0].Message, "no label vendor.example/novel.memory")

	check.That(t, tracker.Update(newNamedNode("a", eightH200)), "an unnamed card that is removed is no change")
	check.Equal(t, "unnamed cards", 0, len(tracker.Inventory().UnnamedCardsFor(novel)))
}

// TestWithheldCardsHaveAName: nodes a and b have a label of 8 cards and offer 80, so they withhold them.
// WithheldCards lists them as NVIDIA-H800, so they are no unnamed cards. Node c offers 9 beside a label of 8: pods
// get these, so they are not withheld.
func TestWithheldCardsHaveAName(t *testing.T) {
	inventory := inventoryOf(map[string]string{
		"a": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80",
		"b": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80",
		"c": h200 + "nvidia.com/gpu.count=8 nvidia.com/gpu:9",
	})

	withheld := inventory.WithheldCards("NVIDIA-H800")
	check.Must(t, len(withheld) == 1, "withheld are %+v", withheld)
	check.Equal(t, "nodes", []string{"a", "b"}, withheld[0].Nodes)
	check.Contains(t, "message", withheld[0].Message, "offers 80 nvidia.com/gpu, more than label")
	check.Equal(t, "withheld H200", 0, len(inventory.WithheldCards("NVIDIA-H200")))
	check.Equal(t, "unnamed cards", 0, len(inventory.UnnamedCardsFor(""))) // of any resource
}
