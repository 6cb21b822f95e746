package diagnosis

import (
	"slices"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

func TestMissingLabelsNameTheCard(t *testing.T) {
	const (
		product  = "nvidia.com/gpu.product"
		memory   = "nvidia.com/gpu.memory"
		replicas = "nvidia.com/gpu.replicas"
	)

	model := missingLabel{product, "MODEL"}
	size := missingLabel{memory, "MIB"}
	for name, tc := range map[string]struct {
		resource string
		labels   map[string]string
		want     []missingLabel
	}{
		"a vendor's resource":       {"huawei.com/Ascend910", nil, []missingLabel{{"huawei.com/Ascend910.product", "MODEL"}, {"huawei.com/Ascend910.memory", "MIB"}}},
		"the vendor's own type":     {"huawei.com/Ascend910", map[string]string{"huawei.com/npu.product": "Ascend-910B"}, []missingLabel{{"huawei.com/npu.memory", "MIB"}}},
		"its type, without a value": {"huawei.com/Ascend910", map[string]string{"huawei.com/npu.product": ""}, []missingLabel{{"huawei.com/Ascend910.product", "MODEL"}, {"huawei.com/Ascend910.memory", "MIB"}}},
		"a slice":                   {"nvidia.com/mig-1g.18gb", map[string]string{"nvidia.com/mig-1g.18gb.product": "NVIDIA-H200"}, []missingLabel{model, size}},
		"shares of a slice":         {"nvidia.com/mig-1g.18gb.shared", nil, []missingLabel{model, size}},
		"shares":                    {"nvidia.com/gpu.shared", nil, []missingLabel{model, size, {replicas, "SHARES"}}},
		"only memory":               {"nvidia.com/gpu", map[string]string{product: "NVIDIA-H200"}, []missingLabel{size}},
		"only the model":            {"nvidia.com/gpu", map[string]string{memory: "81559"}, []missingLabel{model}},
		"none any more":             {"nvidia.com/gpu", map[string]string{product: "NVIDIA-H200", memory: "81559"}, nil},
	} {
		got := missingLabels(v1alpha1.InventoryAnomaly{Resource: tc.resource, Message: "offers " + tc.resource + " but no label names the card"}, tc.labels)
		check.That(t, slices.Equal(got, tc.want), "%s: %v, want %v", name, got, tc.want)
	}
}
