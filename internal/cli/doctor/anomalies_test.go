package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestDoctorNamesTheLabelsThatANodeLacks: a node offers cards of a resource, and its labels do not say which card it is.
// That takes a product (the model) and its memory, VENDOR/TYPE.product and .memory. For shares of whole cards it also
// takes .replicas, how many shares there are. A MIG slice, and shares of one, have the labels of the whole card. Vendors
// other than NVIDIA may use another type than that of the resource: a product label with a value shows which.
func TestDoctorNamesTheLabelsThatANodeLacks(t *testing.T) {
	const (
		product  = "nvidia.com/gpu.product"
		memory   = "nvidia.com/gpu.memory"
		replicas = "nvidia.com/gpu.replicas"
	)
	model := missingLabel{product, "MODEL"}
	size := missingLabel{memory, "MIB"}
	ofResource := []missingLabel{{"huawei.com/Ascend910.product", "MODEL"}, {"huawei.com/Ascend910.memory", "MIB"}}

	for t, tc := range check.Cases(t, map[string]struct {
		resource string
		labels   map[string]string // that the node has
		want     []missingLabel
	}{
		"Ascend cards without labels": {"huawei.com/Ascend910", nil, ofResource},
		"Ascend cards with a product of type npu": {
			"huawei.com/Ascend910", map[string]string{"huawei.com/npu.product": "Ascend-910B"}, []missingLabel{{"huawei.com/npu.memory", "MIB"}},
		},
		"Ascend cards with an empty product of type npu": {
			"huawei.com/Ascend910", map[string]string{"huawei.com/npu.product": ""}, ofResource,
		},
		"a MIG slice: the labels are those of the whole card": {
			"nvidia.com/mig-1g.18gb", map[string]string{"nvidia.com/mig-1g.18gb.product": "NVIDIA-H200"}, []missingLabel{model, size},
		},
		"shares of a MIG slice":      {"nvidia.com/mig-1g.18gb.shared", nil, []missingLabel{model, size}},
		"shares of a card":           {"nvidia.com/gpu.shared", nil, []missingLabel{model, size, {replicas, "SHARES"}}},
		"the memory is missing":      {"nvidia.com/gpu", map[string]string{product: "NVIDIA-H200"}, []missingLabel{size}},
		"the product is missing":     {"nvidia.com/gpu", map[string]string{memory: "81559"}, []missingLabel{model}},
		"both were added since then": {"nvidia.com/gpu", map[string]string{product: "NVIDIA-H200", memory: "81559"}, nil},
	}) {
		anomaly := v1alpha1.InventoryAnomaly{Resource: tc.resource, Message: "offers " + tc.resource + " but no label names the card"}
		check.Equal(t, "missing labels", tc.want, missingLabels(anomaly, tc.labels), cmp.AllowUnexported(missingLabel{}), cmpopts.EquateEmpty())
	}
}
