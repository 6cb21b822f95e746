package card

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// resources is short for a list of resources in a case.
func resources(names ...corev1.ResourceName) []corev1.ResourceName { return names }

// inventoryOf returns the inventory of nodes by their names, each in the text of newNode.
func inventoryOf(nodes map[string]string) *Inventory {
	recognised := map[string]Node{}
	for name, text := range nodes {
		recognised[name] = Recognise(newNode(text), nil)
	}
	return NewInventory(recognised)
}

// inventoryOfFiles returns the inventory of nodes by their names, each a file of testdata/nodes. The table fleet has
// the cards of each file. known are resources that were cards before.
func inventoryOfFiles(t *testing.T, files map[string]string, known ...corev1.ResourceName) *Inventory {
	recognised := map[string]Node{}
	for name, file := range files {
		recognised[name] = Recognise(readFleetNode(t, file), nil)
	}
	return NewInventory(recognised, known...)
}

// TestInventoryAddsUpTheCardsOfAllNodes: an inventory sums the cards of all nodes by name. A resource that is a card
// on one node is a card on each, so that no quota misses it: on a node that does not name it, it is a card without a
// name. A resource that was a card stays one when its last node is gone. The table fleet (fleet_test.go) has the
// cards of each file.
func TestInventoryAddsUpTheCardsOfAllNodes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		files         map[string]string     // node → file of testdata/nodes
		known         []corev1.ResourceName // cards before
		wantResources []corev1.ResourceName
		wantPhysical  map[Name]Count
		wantNames     map[corev1.ResourceName][]Name
		wantOnNode    map[string]map[corev1.ResourceName]Name // "" where the resource has no name on the node
	}{
		"no nodes": {},
		"nodes whose accelerators no label makes cards": {
			files: map[string]string{"a": "intel-flex-170", "b": "huawei-ascend-910b-vendor-labels"},
		},
		"several vendors in one cluster": {
			files: map[string]string{
				"h200":  "nvidia-h200-mig-mixed",
				"h800":  "nvidia-h800-mps-renamed",
				"4090":  "nvidia-rtx-4090",
				"npu":   "huawei-ascend-910b",
				"ppu":   "alibaba-ppu-zw810e",
				"metax": "metax-c550",
				"intel": "intel-flex-170",
			},
			wantResources: resources("alibabacloud.com/ppu", "huawei.com/Ascend910", "metax-tech.com/gpu", "nvidia.com/gpu",
				"nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "nvidia.com/mig-3g.71gb"),
			wantPhysical: map[Name]Count{
				"NVIDIA-H200":                   7, // the eighth is cut into slices
				"NVIDIA-H200/mig-1g.18gb-mixed": 3,
				"NVIDIA-H200/mig-3g.71gb-mixed": 1,
				"NVIDIA-H800/mps-80g*1/2":       16, // 8 cards in 2 shares each
				"NVIDIA-GeForce-RTX-4090":       8,
				"Ascend-910B":                   8,
				"PPU-ZW810E":                    16,
				"MXC550":                        8,
			},
			wantNames: map[corev1.ResourceName][]Name{
				"nvidia.com/gpu":       {"NVIDIA-GeForce-RTX-4090", "NVIDIA-H200"},
				"huawei.com/Ascend910": {"Ascend-910B"},
				"rdma/hca_ib_dev":      nil,
			},
			wantOnNode: map[string]map[corev1.ResourceName]Name{
				"h200": {
					"nvidia.com/gpu":         "NVIDIA-H200",
					"nvidia.com/mig-1g.18gb": "NVIDIA-H200/mig-1g.18gb-mixed",
					"nvidia.com/mig-2g.35gb": "", // the node has no such slices
				},
				"h800":    {"nvidia.com/gpu.shared": "NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu": ""},
				"npu":     {"huawei.com/Ascend910": "Ascend-910B", "nvidia.com/gpu": ""},
				"intel":   {"gpu.intel.com/i915": ""},
				"unknown": {"nvidia.com/gpu": ""}, // there is no such node
			},
		},
		"three nodes of one model: 8 cards + 6, because 2 failed, + 0, because the device plugin is down": {
			files: map[string]string{
				"a": "nvidia-h200",
				"b": "nvidia-h200-failed-cards",
				"c": "nvidia-h200-mig-plugin-down",
			},
			wantResources: resources("nvidia.com/gpu"),
			wantPhysical:  map[Name]Count{"NVIDIA-H200": 14},
			wantOnNode:    map[string]map[corev1.ResourceName]Name{"c": {"nvidia.com/gpu": ""}},
		},
		"whole cards and slices of one model on two nodes: 8 + 7 are whole": {
			files:         map[string]string{"a": "nvidia-h20", "b": "nvidia-h20-mig-mixed"},
			wantResources: resources("nvidia.com/gpu", "nvidia.com/mig-1g.12gb", "nvidia.com/mig-1g.24gb", "nvidia.com/mig-3g.48gb"),
			wantPhysical: map[Name]Count{
				"NVIDIA-H20":                   15,
				"NVIDIA-H20/mig-1g.12gb-mixed": 2,
				"NVIDIA-H20/mig-1g.24gb-mixed": 1,
				"NVIDIA-H20/mig-3g.48gb-mixed": 1,
			},
		},
		"only one of two nodes names the resource: the other has a card without a name": {
			files:         map[string]string{"named": "huawei-ascend-910b", "unnamed": "huawei-ascend-910b-vendor-labels"},
			wantResources: resources("huawei.com/Ascend910"),
			wantPhysical:  map[Name]Count{"Ascend-910B": 8},
			wantOnNode: map[string]map[corev1.ResourceName]Name{
				"named":   {"huawei.com/Ascend910": "Ascend-910B"},
				"unnamed": {"huawei.com/Ascend910": ""},
			},
		},
		"no node names the card: it has no name": {
			files:         map[string]string{"amd": "amd-mi300x"},
			wantResources: resources("amd.com/gpu"),
			wantNames:     map[corev1.ResourceName][]Name{"amd.com/gpu": nil},
			wantOnNode:    map[string]map[corev1.ResourceName]Name{"amd": {"amd.com/gpu": ""}},
		},
		"a node whose labels name two models has no named card, another node has 8": {
			files:         map[string]string{"two": "two-vendors", "npu": "huawei-ascend-910b"},
			wantResources: resources("huawei.com/Ascend910", "nvidia.com/gpu"),
			wantPhysical:  map[Name]Count{"Ascend-910B": 8},
			wantNames:     map[corev1.ResourceName][]Name{"nvidia.com/gpu": nil},
			wantOnNode:    map[string]map[corev1.ResourceName]Name{"two": {"huawei.com/Ascend910": "", "nvidia.com/gpu": ""}},
		},
		"network devices of the card's vendor never become cards, also before the card is there": {
			files:         map[string]string{"up": "nvidia-h200-rdma", "starting": "nvidia-h200-rdma-before-gpu"},
			wantResources: resources("nvidia.com/gpu"),
			wantPhysical:  map[Name]Count{"NVIDIA-H200": 8},
			wantOnNode:    map[string]map[corev1.ResourceName]Name{"starting": {"nvidia.com/hostdev": "", "nvidia.com/gpu": ""}},
		},
		"the last node of a resource is gone: it stays a card": {
			files:         map[string]string{"4090": "nvidia-rtx-4090"},
			known:         resources("huawei.com/Ascend910", "nvidia.com/gpu"),
			wantResources: resources("huawei.com/Ascend910", "nvidia.com/gpu"),
			wantPhysical:  map[Name]Count{"NVIDIA-GeForce-RTX-4090": 8},
			wantNames:     map[corev1.ResourceName][]Name{"huawei.com/Ascend910": nil},
		},
		"all nodes are gone: the resource stays a card": {
			known:         resources("nvidia.com/gpu"),
			wantResources: resources("nvidia.com/gpu"),
		},
	}) {
		inventory := inventoryOfFiles(t, tc.files, tc.known...)

		check.Equal(t, "resources", tc.wantResources, inventory.Resources(), cmpopts.EquateEmpty())
		for _, resource := range append(tc.wantResources, "rdma/hca", "cpu") {
			check.Equal(t, string(resource)+" is a card", slices.Contains(tc.wantResources, resource), inventory.IsCard(resource))
		}

		check.Equal(t, "physical", tc.wantPhysical, inventory.Physical(), cmpopts.EquateEmpty())
		for card := range tc.wantPhysical {
			check.That(t, len(inventory.ResourcesFor(card)) != 0, "%s is offered but has no resource", card)
		}
		for resource, want := range tc.wantNames {
			check.Equal(t, "names of "+string(resource), want, inventory.NamesFor(resource), cmpopts.EquateEmpty())
		}

		for node, names := range tc.wantOnNode {
			for resource, want := range names {
				got, isNamed := inventory.CardOnNode(node, resource)
				check.Equal(t, string(resource)+" on "+node, want, got)
				check.Equal(t, string(resource)+" on "+node+" has a name", want != "", isNamed)
			}
		}
	}
}

// TestOneCardUnderTwoResources: two device plugins may offer the same model under two resources. Here the labels npu
// name Ascend-910B on two nodes, with 8 cards each. Both resources are found for the name, because a pod may request
// either, and the 16 cards are one sum.
func TestOneCardUnderTwoResources(t *testing.T) {
	inventory := inventoryOf(map[string]string{
		"own":     npu + "huawei.com/Ascend910:8",
		"managed": npu + "huawei.com/ascend-1980:8",
	})

	check.Equal(t, "resources", resources("huawei.com/Ascend910", "huawei.com/ascend-1980"), inventory.ResourcesFor("Ascend-910B"))
	own, _ := inventory.CardOnNode("own", "huawei.com/Ascend910")
	managed, _ := inventory.CardOnNode("managed", "huawei.com/ascend-1980")
	check.Equal(t, "cards of the nodes", []Name{"Ascend-910B", "Ascend-910B"}, []Name{own, managed})
	check.Equal(t, "number of cards", 16, inventory.Physical()["Ascend-910B"])
}

// TestARelabelledNodeIsTheOtherCard: a node gets another label of its product, RTX-4090-D in place of RTX-4090. From
// then on its cards have the new name, and no node has the old one. An inventory never changes, so the one before
// keeps the old name.
func TestARelabelledNodeIsTheOtherCard(t *testing.T) {
	before := inventoryOfFiles(t, map[string]string{"n": "nvidia-rtx-4090"})
	after := inventoryOfFiles(t, map[string]string{"n": "nvidia-rtx-4090-relabelled"})

	name, _ := after.CardOnNode("n", "nvidia.com/gpu")
	check.Equal(t, "card of the node", "NVIDIA-GeForce-RTX-4090-D", name)
	check.Equal(t, "names", []Name{"NVIDIA-GeForce-RTX-4090-D"}, after.Names())
	check.Equal(t, "resources of the old name", nil, after.ResourcesFor("NVIDIA-GeForce-RTX-4090"))
	check.Equal(t, "names before", []Name{"NVIDIA-GeForce-RTX-4090"}, before.Names())
}

// TestPhysicalIsACopy: an inventory is shared by many callers, so none of them can change it by what Physical
// returns.
func TestPhysicalIsACopy(t *testing.T) {
	inventory := inventoryOf(map[string]string{"n": h200 + "nvidia.com/gpu:8"})
	inventory.Physical()["NVIDIA-H200"] = 99
	check.Equal(t, "cards", 8, inventory.Physical()["NVIDIA-H200"])
}

// TestSameNamesIgnoresCounts: while each resource stands for the same card names, each pod requests the same cards.
// Then the operator need not compute requests again. The inventory before has two nodes with 8 H200 each. Each row
// has the nodes of the inventory after that.
func TestSameNamesIgnoresCounts(t *testing.T) {
	const (
		eightH200   = h200 + "nvidia.com/gpu:8"
		sevenH200   = h200 + "nvidia.com/gpu:7"
		eightH20    = "nvidia.com/gpu.product=NVIDIA-H20 nvidia.com/gpu.memory=97871 nvidia.com/gpu:8"
		sevenSlices = h200 + "nvidia.com/mig-1g.18gb:7"
		unnamed     = "a.b/c.family=X a.b/c:1"
	)

	before := inventoryOf(map[string]string{"a": eightH200, "b": eightH200})
	for t, tc := range check.Cases(t, map[string]struct {
		nodes map[string]string
		want  bool
	}{
		"a card fails":                                {map[string]string{"a": sevenH200, "b": eightH200}, true},
		"another node of the model comes":             {map[string]string{"a": eightH200, "b": eightH200, "c": eightH200}, true},
		"one node of the model leaves":                {map[string]string{"a": eightH200}, true},
		"a node has another model now":                {map[string]string{"a": eightH200, "b": eightH20}, false},
		"a node offers slices under another resource": {map[string]string{"a": eightH200, "b": sevenSlices}, false},
		"another node has a card without a name":      {map[string]string{"a": eightH200, "b": eightH200, "c": unnamed}, false},
		"all nodes leave":                             {nil, false},
	}) {
		check.Equal(t, "same names", tc.want, inventoryOf(tc.nodes).SameNames(before))
	}
}
