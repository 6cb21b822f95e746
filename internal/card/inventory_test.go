package card

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// recognised puts nodes of testdata/nodes into a cluster, by node name.
func recognised(t *testing.T, files map[string]string) map[string]Node {
	nodes := map[string]Node{}
	for name, file := range files {
		nodes[name] = Recognise(fleetNode(t, file), nil)
	}
	return nodes
}

// resources is short for a list in a case.
func resources(names ...corev1.ResourceName) []corev1.ResourceName { return names }

func TestWhatAClusterSaysAboutCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		files         map[string]string
		known         []corev1.ResourceName
		wantResources []corev1.ResourceName
		wantPhysical  map[Name]Count
		wantNamed     map[corev1.ResourceName][]Name
		wantOn        map[string]map[corev1.ResourceName]Name // "" where the node must not tell
	}{
		"no nodes":            {},
		"nodes without cards": {files: map[string]string{"a": "intel-flex-170", "b": "huawei-ascend-910b-vendor-labels"}},
		"several vendors in one cluster": {
			files: map[string]string{
				"h200": "nvidia-h200-mig-mixed", "h800": "nvidia-h800-mps-renamed", "4090": "nvidia-rtx-4090",
				"npu": "huawei-ascend-910b", "ppu": "alibaba-ppu-zw810e", "metax": "metax-c550", "intel": "intel-flex-170",
			},
			wantResources: resources("alibabacloud.com/ppu", "huawei.com/Ascend910", "metax-tech.com/gpu", "nvidia.com/gpu",
				"nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "nvidia.com/mig-3g.71gb"),
			wantPhysical: map[Name]Count{
				"NVIDIA-H200": 7, "NVIDIA-H200/mig-1g.18gb-mixed": 3, "NVIDIA-H200/mig-3g.71gb-mixed": 1, "NVIDIA-H800/mps-80g*1/2": 16,
				"NVIDIA-GeForce-RTX-4090": 8, "Ascend-910B": 8, "PPU-ZW810E": 16, "MXC550": 8,
			},
			wantNamed: map[corev1.ResourceName][]Name{
				"nvidia.com/gpu": {"NVIDIA-GeForce-RTX-4090", "NVIDIA-H200"}, "huawei.com/Ascend910": {"Ascend-910B"}, "rdma/hca_ib_dev": nil,
			},
			wantOn: map[string]map[corev1.ResourceName]Name{
				"h200":  {"nvidia.com/gpu": "NVIDIA-H200", "nvidia.com/mig-1g.18gb": "NVIDIA-H200/mig-1g.18gb-mixed", "nvidia.com/mig-2g.35gb": ""},
				"h800":  {"nvidia.com/gpu.shared": "NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu": ""},
				"npu":   {"huawei.com/Ascend910": "Ascend-910B", "nvidia.com/gpu": ""},
				"intel": {"gpu.intel.com/i915": ""},
				"gone":  {"nvidia.com/gpu": ""},
			},
		},
		"one model on many nodes adds up, failed cards do not count": {
			files:         map[string]string{"a": "nvidia-h200", "b": "nvidia-h200-failed-cards", "c": "nvidia-h200-mig-plugin-down"},
			wantResources: resources("nvidia.com/gpu"), wantPhysical: map[Name]Count{"NVIDIA-H200": 14},
			wantOn: map[string]map[corev1.ResourceName]Name{"c": {"nvidia.com/gpu": ""}}},
		"whole cards and slices of one model on two nodes": {
			files:         map[string]string{"a": "nvidia-h20", "b": "nvidia-h20-mig-mixed"},
			wantResources: resources("nvidia.com/gpu", "nvidia.com/mig-1g.12gb", "nvidia.com/mig-1g.24gb", "nvidia.com/mig-3g.48gb"),
			wantPhysical: map[Name]Count{
				"NVIDIA-H20": 15, "NVIDIA-H20/mig-1g.12gb-mixed": 2, "NVIDIA-H20/mig-1g.24gb-mixed": 1, "NVIDIA-H20/mig-3g.48gb-mixed": 1,
			}},
		"a resource that one node names is a card on the node that does not": {
			files:         map[string]string{"named": "huawei-ascend-910b", "silent": "huawei-ascend-910b-vendor-labels"},
			wantResources: resources("huawei.com/Ascend910"), wantPhysical: map[Name]Count{"Ascend-910B": 8},
			wantOn: map[string]map[corev1.ResourceName]Name{"named": {"huawei.com/Ascend910": "Ascend-910B"}, "silent": {"huawei.com/Ascend910": ""}}},
		"a card that no node names is a card without names": {files: map[string]string{"amd": "amd-mi300x"},
			wantResources: resources("amd.com/gpu"), wantNamed: map[corev1.ResourceName][]Name{"amd.com/gpu": nil},
			wantOn: map[string]map[corev1.ResourceName]Name{"amd": {"amd.com/gpu": ""}}},
		"a node with two vendors offers nothing, the others do": {
			files:         map[string]string{"both": "two-vendors", "npu": "huawei-ascend-910b"},
			wantResources: resources("huawei.com/Ascend910", "nvidia.com/gpu"), wantPhysical: map[Name]Count{"Ascend-910B": 8},
			wantNamed: map[corev1.ResourceName][]Name{"nvidia.com/gpu": nil},
			wantOn:    map[string]map[corev1.ResourceName]Name{"both": {"huawei.com/Ascend910": "", "nvidia.com/gpu": ""}}},
		"network devices of the card's vendor never become cards": {
			files:         map[string]string{"up": "nvidia-h200-rdma", "starting": "nvidia-h200-rdma-before-gpu"},
			wantResources: resources("nvidia.com/gpu"), wantPhysical: map[Name]Count{"NVIDIA-H200": 8},
			wantOn: map[string]map[corev1.ResourceName]Name{"starting": {"nvidia.com/hostdev": "", "nvidia.com/gpu": ""}}},
		"the last node of a resource is gone": {files: map[string]string{"4090": "nvidia-rtx-4090"},
			known:         resources("huawei.com/Ascend910", "nvidia.com/gpu"),
			wantResources: resources("huawei.com/Ascend910", "nvidia.com/gpu"), wantPhysical: map[Name]Count{"NVIDIA-GeForce-RTX-4090": 8},
			wantNamed: map[corev1.ResourceName][]Name{"huawei.com/Ascend910": nil}},
		"all nodes are gone": {known: resources("nvidia.com/gpu"), wantResources: resources("nvidia.com/gpu")},
	}) {
		inv := NewInventory(recognised(t, tc.files), tc.known...)
		check.Equal(t, "resources", tc.wantResources, inv.Resources(), cmpopts.EquateEmpty())
		for _, resource := range append(tc.wantResources, "rdma/hca", "cpu") {
			check.Equal(t, string(resource)+" is a card", slices.Contains(tc.wantResources, resource), inv.IsCard(resource))
		}

		check.Equal(t, "physical", tc.wantPhysical, inv.Physical(), cmpopts.EquateEmpty())
		for resource, want := range tc.wantNamed {
			check.Equal(t, string(resource), want, inv.NamesFor(resource), cmpopts.EquateEmpty())
		}

		for node, wants := range tc.wantOn {
			for resource, want := range wants {
				got, ok := inv.CardOnNode(node, resource)
				check.That(t, got == want && ok == (want != ""), "%s on %s is %q, %v, want %q", resource, node, got, ok, want)
			}
		}

		for card := range tc.wantPhysical {
			check.That(t, len(inv.ResourcesFor(card)) != 0, "%s is offered but has no resource", card)
		}
	}
}

// A card that is offered under two resources is found by both; a pod may ask
// for either.
func TestOneCardUnderTwoResources(t *testing.T) {
	inv := inventory(map[string]string{"own": npu + "huawei.com/Ascend910:8", "managed": npu + "huawei.com/ascend-1980:8"})
	check.Equal(t, "ResourcesOf", resources("huawei.com/Ascend910", "huawei.com/ascend-1980"), inv.ResourcesFor("Ascend-910B"))
	for node, resource := range map[string]corev1.ResourceName{"own": "huawei.com/Ascend910", "managed": "huawei.com/ascend-1980"} {
		got, _ := inv.CardOnNode(node, resource)
		check.That(t, got == "Ascend-910B", "%s on %s is %q", resource, node, got)
	}
	check.Equal(t, "cards", 16, inv.Physical()["Ascend-910B"])
}

// A node that gets another label is the other card from then on, and the first
// name belongs to no node any more.
func TestARelabelledNodeIsTheOtherCard(t *testing.T) {
	before := NewInventory(recognised(t, map[string]string{"n": "nvidia-rtx-4090"}))
	after := NewInventory(recognised(t, map[string]string{"n": "nvidia-rtx-4090-relabelled"}), before.Resources()...)
	name, _ := after.CardOnNode("n", "nvidia.com/gpu")
	check.That(t, name == "NVIDIA-GeForce-RTX-4090-D", "the card is %q", name)
	check.Equal(t, "Names", []Name{"NVIDIA-GeForce-RTX-4090-D"}, after.Names())
	got := after.ResourcesFor("NVIDIA-GeForce-RTX-4090")
	check.That(t, len(got) == 0, "the first name is still offered as %v", got)
	check.Equal(t, "the inventory made before has changed", []Name{"NVIDIA-GeForce-RTX-4090"}, before.Names())
}

// The caller's copy of the counts is its own.
func TestPhysicalIsACopy(t *testing.T) {
	inv := NewInventory(recognised(t, map[string]string{"n": "nvidia-h200"}))
	inv.Physical()["NVIDIA-H200"] = 99
	check.Equal(t, "cards", 8, inv.Physical()["NVIDIA-H200"])
}

func TestMeansTheSame(t *testing.T) {
	const h20 = "nvidia.com/gpu.product=NVIDIA-H20 nvidia.com/gpu.memory=97871 nvidia.com/gpu:8"
	whole := h200 + "nvidia.com/gpu:8"

	before := inventory(map[string]string{"a": whole, "b": whole})
	for name, tc := range map[string]struct {
		nodes map[string]string
		want  bool
	}{
		"a card that failed":         {map[string]string{"a": h200 + "nvidia.com/gpu:7", "b": whole}, true},
		"another node of the model":  {map[string]string{"a": whole, "b": whole, "c": whole}, true},
		"one node less of the model": {map[string]string{"a": whole}, true},
		"another model":              {map[string]string{"a": whole, "b": h20}, false},
		"another resource":           {map[string]string{"a": whole, "b": h200 + "nvidia.com/mig-1g.18gb:7"}, false},
		"no node any more":           {nil, false},
	} {
		check.Equal(t, name+": means the same", tc.want, inventory(tc.nodes).SameNames(before))
	}
}

// inventory is that of nodes, by their names in the form that node reads.
func inventory(parts map[string]string) *Inventory {
	nodes := map[string]Node{}
	for name, text := range parts {
		nodes[name] = Recognise(node(strings.Split(text, " ")...), nil)
	}
	return NewInventory(nodes)
}
