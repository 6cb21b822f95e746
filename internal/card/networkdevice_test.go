package card

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestLabelsMakeNoNetworkDeviceACard: a device of the card's own vendor neither hides which resource
// is the card, nor stays a card itself. Pods request both together.
func TestLabelsMakeNoNetworkDeviceACard(t *testing.T) {
	ascend := Mappings{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	for t, tc := range check.Cases(t, map[string]struct {
		parts         string
		before, after Mappings
		cards         map[Name]Count
		resources     []corev1.ResourceName
	}{
		"by labels":                 {npu + "huawei.com/Ascend910:8 huawei.com/rdma_nic:8", nil, nil, map[Name]Count{"Ascend-910B": 8}, resources("huawei.com/Ascend910")},
		"mapped":                    {npu + "huawei.com/Ascend910:8 huawei.com/rdma_nic:8", ascend, ascend, map[Name]Count{"Ascend-910B": 8}, resources("huawei.com/Ascend910")},
		"mapped later":              {npu + "huawei.com/Ascend910:8 huawei.com/sriov_nic:8", nil, ascend, map[Name]Count{"Ascend-910B": 8}, resources("huawei.com/Ascend910")},
		"before the card":           {npu + "huawei.com/rdma_nic:8", nil, nil, map[Name]Count{}, nil},
		"of two models":             {npu + "a.b/c.product=X a.b/c.memory=1 huawei.com/rdma_nic:8 a.b/c:1", nil, nil, map[Name]Count{}, resources("a.b/c")},
		"without a product":         {"huawei.com/rdma_nic.speed=200 huawei.com/rdma_nic:8", nil, nil, map[Name]Count{}, nil},
		"a label of its name":       {"a.b/sriov.product=X a.b/sriov.memory=1 a.b/sriov:4", nil, nil, map[Name]Count{"X": 4}, resources("a.b/sriov")},
		"a card that ends like one": {"v.w/unit.product=X v.w/unit.memory=1 v.w/ai-processor:4 v.w/rdma:8", nil, nil, map[Name]Count{"X": 4}, resources("v.w/ai-processor")},
		"withheld":                  {"v.w/ai-processor.family=X v.w/ai-processor:4", nil, nil, map[Name]Count{}, resources("v.w/ai-processor")},
		"a mapping of it":           {npu + "huawei.com/rdma_nic:8", nil, Mappings{{Resource: "huawei.com/rdma_nic", Model: "X"}}, map[Name]Count{"X": 8}, resources("huawei.com/rdma_nic")},
	}) {
		var tracker Tracker
		tracker.SetMappings(tc.before)
		tracker.Update(node(strings.Fields(tc.parts)...))

		tracker.SetMappings(tc.after)
		check.Equal(t, "resources", tc.resources, tracker.Inventory().Resources())
		check.Equal(t, "cards", tc.cards, tracker.Inventory().Physical())
	}
}

// TestNoNetworkDeviceIsRemembered: earlier versions of the operator recorded them as cards.
func TestNoNetworkDeviceIsRemembered(t *testing.T) {
	var tracker Tracker
	check.That(t, tracker.AddResources("huawei.com/rdma_nic", "huawei.com/Ascend910"), "the card is no news")
	check.Equal(t, "lasting", resources("huawei.com/Ascend910"), tracker.Inventory().LastingResources())
}

// TestTheRecordHasNoNetworkDevice: what is read back from the record is what was written, also where
// labels have the very name of a network device.
func TestTheRecordHasNoNetworkDevice(t *testing.T) {
	var before, after Tracker
	before.Update(node(strings.Fields("a.b/sriov.product=X a.b/sriov.memory=1 a.b/sriov:4")...))
	before.AddResources("a.b/c")
	check.Equal(t, "cards", resources("a.b/c", "a.b/sriov"), before.Inventory().Resources())
	written := before.Inventory().LastingResources()
	check.Equal(t, "written", resources("a.b/c"), written)
	after.AddResources(written...)
	check.Equal(t, "read", written, after.Inventory().LastingResources())
}
