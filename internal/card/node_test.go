package card

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node builds a node from "key=value" labels and "resource:count" allocatables.
func node(parts ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("110"), "rdma/hca": resource.MustParse("8")}
	for _, part := range parts {
		if key, value, ok := strings.Cut(part, "="); ok {
			n.Labels[key] = value
		} else if name, count, ok := strings.Cut(part, ":"); ok {
			n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(count)
		}
	}
	return n
}

func TestRecognise(t *testing.T) {
	h200 := []string{"nvidia.com/gpu.product=NVIDIA-H200", "nvidia.com/gpu.memory=143771", "nvidia.com/gpu.count=8"}
	tests := map[string]struct {
		labels, more []string
		want         Node
		wantAnomaly  string
	}{
		"whole cards, counted by allocatable and not by the label": {
			h200, []string{"nvidia.com/gpu:7"},
			Node{Model: "NVIDIA-H200", Holdings: []Holding{{"NVIDIA-H200", "nvidia.com/gpu", 7}}}, "",
		},
		"whole cards and MIG slices side by side": {
			h200, []string{"nvidia.com/gpu:7", "nvidia.com/mig-1g.18gb:3", "nvidia.com/mig-3g.71gb:1", "nvidia.com/mig-1g.18gb.product=NVIDIA-H200-MIG-1g.18gb", "nvidia.com/mig-1g.18gb.memory=16384"},
			Node{Model: "NVIDIA-H200", Holdings: []Holding{
				{"NVIDIA-H200", "nvidia.com/gpu", 7},
				{"NVIDIA-H200/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb", 3},
				{"NVIDIA-H200/mig-3g.71gb-mixed", "nvidia.com/mig-3g.71gb", 1},
			}}, "",
		},
		"MPS shares": {
			[]string{"nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/gpu.memory=81559", "nvidia.com/gpu.replicas=2"}, []string{"nvidia.com/gpu.shared:16"},
			Node{Model: "NVIDIA-H800", Holdings: []Holding{{"NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu.shared", 16}}}, "",
		},
		"time slicing keeps the resource and renames the model": {
			[]string{"nvidia.com/gpu.product=NVIDIA-H200-SHARED", "nvidia.com/gpu.memory=143771", "nvidia.com/gpu.replicas=4"}, []string{"nvidia.com/gpu:32"},
			Node{Model: "NVIDIA-H200-SHARED", Holdings: []Holding{{"NVIDIA-H200-SHARED", "nvidia.com/gpu", 32}}}, "",
		},
		"Ascend, whose resource is not called after its type": {
			[]string{"huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536"}, []string{"huawei.com/Ascend910:8"},
			Node{Model: "Ascend-910B", Holdings: []Holding{{"Ascend-910B", "huawei.com/Ascend910", 8}}}, "",
		},
		"a type with a dash and a dot": {
			[]string{"vendor.example/ai-card.v2.product=PPU-ZW810E", "vendor.example/ai-card.v2.memory=98304"}, []string{"vendor.example/ai-card.v2:16"},
			Node{Model: "PPU-ZW810E", Holdings: []Holding{{"PPU-ZW810E", "vendor.example/ai-card.v2", 16}}}, "",
		},
		"all cards failed": {
			h200, []string{"nvidia.com/gpu:0"},
			Node{Model: "NVIDIA-H200", Holdings: []Holding{{"NVIDIA-H200", "nvidia.com/gpu", 0}}}, "",
		},
		"device plugin not there yet": {h200, nil, Node{Model: "NVIDIA-H200"}, ""},
		"CPU node":                    {nil, nil, Node{}, ""},
		"product without memory": {
			[]string{"nvidia.com/gpu.product=NVIDIA-H200"}, []string{"nvidia.com/gpu:8"},
			Node{Unnamed: []corev1.ResourceName{"nvidia.com/gpu"}}, "offers nvidia.com/gpu but no label",
		},
		"NVIDIA cards before the node is labelled": {
			nil, []string{"nvidia.com/gpu:8", "nvidia.com/gpu.shared:2"},
			Node{Unnamed: []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpu.shared"}}, "offers nvidia.com/gpu but no label",
		},
		"another vendor's cards half labelled": {
			[]string{"vendor.example/ppu.count=8"}, []string{"vendor.example/ppu:8"},
			Node{Unnamed: []corev1.ResourceName{"vendor.example/ppu"}}, "offers vendor.example/ppu but no label",
		},
		"two models": {
			append([]string{"huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536"}, h200...), []string{"nvidia.com/gpu:8", "huawei.com/Ascend910:8"},
			Node{Unnamed: []corev1.ResourceName{"huawei.com/Ascend910", "nvidia.com/gpu"}}, "names more than one card model: Ascend-910B, NVIDIA-H200",
		},
		"slices without a model": {nil, []string{"nvidia.com/mig-1g.18gb:3"}, Node{Unnamed: []corev1.ResourceName{"nvidia.com/mig-1g.18gb"}}, "offers nvidia.com/mig-1g.18gb but no label"},
		"shares without replicas": {
			h200, []string{"nvidia.com/gpu.shared:8"}, Node{Model: "NVIDIA-H200", Unnamed: []corev1.ResourceName{"nvidia.com/gpu.shared"}}, "has no label nvidia.com/gpu.replicas",
		},
		"shares of zero replicas": {
			append([]string{"nvidia.com/gpu.replicas=0"}, h200...), []string{"nvidia.com/gpu.shared:8"},
			Node{Model: "NVIDIA-H200", Unnamed: []corev1.ResourceName{"nvidia.com/gpu.shared"}}, "not a number of shares",
		},
		"shares of unknown memory": {
			[]string{"nvidia.com/gpu.product=A", "nvidia.com/gpu.memory=much", "nvidia.com/gpu.replicas=2"}, []string{"nvidia.com/gpu.shared:8"},
			Node{Model: "A", Unnamed: []corev1.ResourceName{"nvidia.com/gpu.shared"}}, "no memory size",
		},
		"two resources that could be the card": {
			[]string{"huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536"}, []string{"huawei.com/Ascend910:8", "huawei.com/Ascend310:8"},
			Node{Model: "Ascend-910B", Unnamed: []corev1.ResourceName{"huawei.com/Ascend310", "huawei.com/Ascend910"}}, "could be any of the resources",
		},
		"MIG slices beside another vendor's model": {
			[]string{"huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536"}, []string{"nvidia.com/mig-1g.18gb:3"},
			Node{Model: "Ascend-910B", Unnamed: []corev1.ResourceName{"nvidia.com/mig-1g.18gb"}}, "its model label is of huawei.com",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Recognise(node(append(tc.labels, tc.more...)...))
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Node{}, "Anomalies"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("recognised wrongly (-want +got):\n%s", diff)
			}
			if anomalies := strings.Join(got.Anomalies, "; "); !strings.Contains(anomalies, tc.wantAnomaly) || tc.wantAnomaly == "" && anomalies != "" {
				t.Errorf("anomalies %q, want %q", anomalies, tc.wantAnomaly)
			}
		})
	}
}

func TestEveryRecognisedNameIsAValidQuotaKey(t *testing.T) {
	n := Recognise(node("nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/gpu.memory=81559", "nvidia.com/gpu.replicas=10",
		"nvidia.com/gpu:1", "nvidia.com/mig-1g.10gb.me:1", "nvidia.com/gpu.shared:10"))
	if len(n.Holdings) != 3 {
		t.Fatalf("holdings %v", n.Holdings)
	}
	for _, h := range n.Holdings {
		if _, err := ParseName(string(h.Name)); err != nil {
			t.Error(err)
		}
	}
}

func TestInventory(t *testing.T) {
	inv := NewInventory(map[string]Node{
		"a": Recognise(node("nvidia.com/gpu.product=NVIDIA-H200", "nvidia.com/gpu.memory=143771", "nvidia.com/gpu:8")),
		"b": Recognise(node("nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/gpu.memory=81559", "nvidia.com/gpu:8")),
		"c": Recognise(node("nvidia.com/gpu:8")),
	}, "huawei.com/Ascend910")
	if diff := cmp.Diff([]Name{"NVIDIA-H200", "NVIDIA-H800"}, inv.Named("nvidia.com/gpu")); diff != "" {
		t.Error(diff)
	}
	if name, ok := inv.On("b", "nvidia.com/gpu"); !ok || name != "NVIDIA-H800" {
		t.Errorf("card on b is %s, %v", name, ok)
	}
	if _, ok := inv.On("c", "nvidia.com/gpu"); ok {
		t.Error("a node without a model told its card")
	}
	if !inv.IsCard("huawei.com/Ascend910") || inv.IsCard("rdma/hca") || inv.IsCard("cpu") {
		t.Error("a resource that was a card must stay one, and others must not become one")
	}
	if diff := cmp.Diff(map[Name]Count{"NVIDIA-H200": 8, "NVIDIA-H800": 8}, inv.Physical()); diff != "" {
		t.Error(diff)
	}
}
