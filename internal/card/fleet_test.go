package card

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// readFleetNode reads a node of testdata/nodes: labels and resources as the
// software named in the file writes them.
func readFleetNode(t testing.TB, name string) *corev1.Node {
	text := check.Value(os.ReadFile(filepath.Join("testdata", "nodes", name+".yaml")))(t)
	var node corev1.Node
	check.NoError(t, yaml.UnmarshalStrict(text, &node))
	return &node
}

// nodeWithCards is what Recognise returns for a node that offers so many cards of one model under one resource.
func nodeWithCards(model string, resource corev1.ResourceName, count Count) Node {
	return Node{Model: model, Cards: []NodeCard{{Name(model), resource, count}}}
}

// fleet is what each file of testdata/nodes is recognised as. Cards are {card name, resource, count}. A resource
// in Unnamed is a card that no new pod gets, because the node does not say which card it is; Anomalies say why.
var fleet = map[string]Node{
	"nvidia-h200":                nodeWithCards("NVIDIA-H200", "nvidia.com/gpu", 8),
	"nvidia-h800":                nodeWithCards("NVIDIA-H800", "nvidia.com/gpu", 8),
	"nvidia-h20":                 nodeWithCards("NVIDIA-H20", "nvidia.com/gpu", 8),
	"nvidia-rtx-4090":            nodeWithCards("NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu", 8),
	"nvidia-rtx-4090-relabelled": nodeWithCards("NVIDIA-GeForce-RTX-4090-D", "nvidia.com/gpu", 8),

	// MIG
	"nvidia-a100-40gb-mig-mixed": {Model: "A100-PCIE-40GB", Cards: []NodeCard{
		{"A100-PCIE-40GB", "nvidia.com/gpu", 0},
		{"A100-PCIE-40GB/mig-1g.5gb-mixed", "nvidia.com/mig-1g.5gb", 4},
		{"A100-PCIE-40GB/mig-2g.10gb-mixed", "nvidia.com/mig-2g.10gb", 2},
		{"A100-PCIE-40GB/mig-3g.20gb-mixed", "nvidia.com/mig-3g.20gb", 2},
	}},
	"nvidia-a100-40gb-mig-single":              nodeWithCards("A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu", 56),
	"nvidia-a100-80gb-mig-single-invalid":      nodeWithCards("NVIDIA-A100-SXM4-80GB-MIG-INVALID", "nvidia.com/gpu", 0),
	"nvidia-a100-40gb-mig-single-time-slicing": nodeWithCards("A100-SXM4-40GB-MIG-1g.5gb-SHARED", "nvidia.com/gpu", 112),
	"nvidia-a100-40gb-mig-mixed-time-slicing": {Model: "A100-SXM4-40GB", Cards: []NodeCard{
		{"A100-SXM4-40GB/mig-1g.5gb-mixed-SHARED", "nvidia.com/mig-1g.5gb", 28},
	}},
	"nvidia-a100-40gb-mig-mixed-time-slicing-renamed": {Model: "A100-SXM4-40GB", Cards: []NodeCard{
		{"A100-SXM4-40GB/mig-1g.5gb.shared-mixed", "nvidia.com/mig-1g.5gb.shared", 28},
	}},
	"nvidia-h100-mig-media-extensions": {Model: "NVIDIA-H100-80GB-HBM3", Cards: []NodeCard{
		{"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 0},
		{"NVIDIA-H100-80GB-HBM3/mig-1g.10gb.me-mixed", "nvidia.com/mig-1g.10gb.me", 8},
	}},
	"nvidia-h200-mig-mixed": {Model: "NVIDIA-H200", Cards: []NodeCard{
		{"NVIDIA-H200", "nvidia.com/gpu", 7},
		{"NVIDIA-H200/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb", 3},
		{"NVIDIA-H200/mig-3g.71gb-mixed", "nvidia.com/mig-3g.71gb", 1},
	}},
	"nvidia-h200-mig-plugin-down": {Model: "NVIDIA-H200"},
	"nvidia-h20-mig-mixed": {Model: "NVIDIA-H20", Cards: []NodeCard{
		{"NVIDIA-H20", "nvidia.com/gpu", 7},
		{"NVIDIA-H20/mig-1g.12gb-mixed", "nvidia.com/mig-1g.12gb", 2},
		{"NVIDIA-H20/mig-1g.24gb-mixed", "nvidia.com/mig-1g.24gb", 1},
		{"NVIDIA-H20/mig-3g.48gb-mixed", "nvidia.com/mig-3g.48gb", 1},
	}},

	// MPS and time slicing
	"nvidia-h800-mps-renamed": {Model: "NVIDIA-H800", Cards: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu.shared", 16}}},
	"nvidia-h800-mps":         nodeWithCards("NVIDIA-H800-SHARED", "nvidia.com/gpu", 16),
	"nvidia-rtx-4090-mps-one-card": {Model: "NVIDIA-GeForce-RTX-4090", Cards: []NodeCard{
		{"NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu", 7},
		{"NVIDIA-GeForce-RTX-4090/mps-24g*1/2", "nvidia.com/gpu.shared", 2},
	}},
	"nvidia-t4-time-slicing":         nodeWithCards("Tesla-T4-SHARED", "nvidia.com/gpu", 8),
	"nvidia-t4-time-slicing-renamed": {Model: "Tesla-T4", Cards: []NodeCard{{"Tesla-T4/mps-15g*1/8", "nvidia.com/gpu.shared", 8}}},

	// NVIDIA nodes in odd states
	"nvidia-h200-failed-cards":    nodeWithCards("NVIDIA-H200", "nvidia.com/gpu", 6),
	"nvidia-h200-rdma":            nodeWithCards("NVIDIA-H200", "nvidia.com/gpu", 8),
	"nvidia-h200-rdma-before-gpu": {Model: "NVIDIA-H200"},
	"nvidia-rtx-4090-unlabelled": {Unnamed: []corev1.ResourceName{"nvidia.com/gpu"},
		Anomalies: []Anomaly{{
			NoModelLabel, "nvidia.com/gpu",
			"offers nvidia.com/gpu but no label nvidia.com/<type>.product with nvidia.com/<type>.memory names the card",
		}}},
	"nvidia-gb10": {Unnamed: []corev1.ResourceName{"nvidia.com/gpu"},
		Anomalies: []Anomaly{{
			NoModelLabel, "nvidia.com/gpu",
			"offers nvidia.com/gpu but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10 names the card",
		}}},

	// Huawei
	"huawei-ascend-910b":               nodeWithCards("Ascend-910B", "huawei.com/Ascend910", 8),
	"huawei-ascend-910b-vendor-labels": {},
	"huawei-ascend-910b-vnpu": {Model: "Ascend-910B",
		Unnamed: []corev1.ResourceName{"huawei.com/Ascend910", "huawei.com/Ascend910-5c.1cpu.8g", "huawei.com/Ascend910B4"},
		Anomalies: []Anomaly{{
			AmbiguousResource, "",
			"model Ascend-910B could be any of the resources [huawei.com/Ascend910 huawei.com/Ascend910-5c.1cpu.8g huawei.com/Ascend910B4]",
		}}},
	"huawei-ascend-310p": nodeWithCards("Ascend-310P", "huawei.com/Ascend310P", 4),
	"huawei-ascend-310p-mixed-insertion": {
		Model:   "Ascend-310P",
		Unnamed: []corev1.ResourceName{"huawei.com/Ascend310P-IPro", "huawei.com/Ascend310P-V", "huawei.com/Ascend310P-VPro"},
		Anomalies: []Anomaly{{
			AmbiguousResource, "",
			"model Ascend-310P could be any of the resources [huawei.com/Ascend310P-IPro huawei.com/Ascend310P-V " +
				"huawei.com/Ascend310P-VPro]",
		}},
	},
	"huawei-cce-ascend-310": nodeWithCards("Ascend-310", "huawei.com/ascend-310", 4),

	// other vendors
	"alibaba-ppu-zw810e":               nodeWithCards("PPU-ZW810E", "alibabacloud.com/ppu", 16),
	"alibaba-ppu-zw810e-vendor-labels": {},
	"alibaba-ppu-zw810e-slices":        nodeWithCards("PPU-ZW810E", "alibabacloud.com/ppu", 15),
	"amd-mi300x": {Unnamed: []corev1.ResourceName{"amd.com/gpu"},
		Anomalies: []Anomaly{{
			NoModelLabel, "amd.com/gpu",
			"offers amd.com/gpu but no label amd.com/<type>.product with amd.com/<type>.memory names the card",
		}}},
	"amd-mi300x-fleet-labels": nodeWithCards("AMD-Instinct-MI300X", "amd.com/gpu", 8),
	"hygon-k100-ai": {Unnamed: []corev1.ResourceName{"hygon.com/dcu"},
		Anomalies: []Anomaly{{
			NoModelLabel, "hygon.com/dcu",
			"offers hygon.com/dcu but no label hygon.com/<type>.product with hygon.com/<type>.memory names the card",
		}}},
	"metax-c550":     nodeWithCards("MXC550", "metax-tech.com/gpu", 8),
	"intel-flex-170": {},
	"two-vendors": {Unnamed: []corev1.ResourceName{"huawei.com/Ascend910", "nvidia.com/gpu"},
		Anomalies: []Anomaly{{
			SeveralModels, "",
			"names more than one card model: Ascend-910B, NVIDIA-H20",
		}}},
}

// TestEveryNodeOfTheFleetIsRecognised: labels name the model of a card, status.allocatable says how many there
// are, and MIG slices and shares get names of their own. The table fleet above has the result for each file of
// testdata/nodes. An administrator must be able to write a quota for each name, so it must be a valid card name.
func TestEveryNodeOfTheFleetIsRecognised(t *testing.T) {
	check.Equal(t, "number of files", len(fleet), len(check.Value(filepath.Glob("testdata/nodes/*.yaml"))(t)))

	for file, want := range fleet {
		t.Run(file, func(t *testing.T) {
			got := Recognise(readFleetNode(t, file), nil)
			check.Equal(t, "recognised", want, got, cmpopts.EquateEmpty())

			for _, offered := range got.Cards {
				check.Value(ParseName(string(offered.Name)))(t)
			}
		})
	}
}

// TestFleetFilesAreNodesWithASource: a file of testdata/nodes is evidence of what real nodes look like. So its first
// comment names the source, its node has the name of the file, and the API server would accept its labels.
func TestFleetFilesAreNodesWithASource(t *testing.T) {
	for name := range fleet {
		t.Run(name, func(t *testing.T) {
			text := check.Value(os.ReadFile(filepath.Join("testdata", "nodes", name+".yaml")))(t)
			comment, _, _ := strings.Cut(string(text), "apiVersion:")
			check.Contains(t, "comment", comment, "\n# Source: ")

			node := readFleetNode(t, name)
			check.Equal(t, "kind", "Node", node.Kind)
			check.Equal(t, "name", name, node.Name)
			expectValidKeysAndValues(t, node)
		})
	}
}
