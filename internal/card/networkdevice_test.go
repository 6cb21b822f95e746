package card

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestNetworkDevicesBesideCardsAreNoCards: pods request network devices together with cards, and no quota limits
// them. Labels of product and memory name the one resource of their vendor that is no network device. A network
// device is a card only if a mapping, or these labels, have its very name. A resource in wantResources without a
// count in wantCards is withheld: it is known as a card, but no pod may get it. npu are labels that name Ascend-910B
// for huawei.com; ascend is an entry of spec.cards that does the same.
func TestNetworkDevicesBesideCardsAreNoCards(t *testing.T) {
	ascend := Mappings{{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}}
	eightAscends := map[Name]Count{"Ascend-910B": 8}

	for t, tc := range check.Cases(t, map[string]struct {
		node          string
		mappings      Mappings // before the node is known
		laterMappings Mappings // in place of those before, once the node is known
		wantResources []corev1.ResourceName
		wantCards     map[Name]Count
	}{
		"the label names the card": {
			node:          npu + "huawei.com/Ascend910:8 huawei.com/rdma_nic:8",
			wantResources: resources("huawei.com/Ascend910"),
			wantCards:     eightAscends,
		},
		"a mapping names the card": {
			node:          npu + "huawei.com/Ascend910:8 huawei.com/rdma_nic:8",
			mappings:      ascend,
			laterMappings: ascend,
			wantResources: resources("huawei.com/Ascend910"),
			wantCards:     eightAscends,
		},
		"a mapping names the card later": {
			node:          npu + "huawei.com/Ascend910:8 huawei.com/sriov_nic:8",
			laterMappings: ascend,
			wantResources: resources("huawei.com/Ascend910"),
			wantCards:     eightAscends,
		},
		"the node does not offer the card of the label yet": {
			node:      npu + "huawei.com/rdma_nic:8",
			wantCards: map[Name]Count{},
		},
		"labels name two models: the card of the other vendor is withheld": {
			node:          npu + "a.b/c.product=X a.b/c.memory=1 huawei.com/rdma_nic:8 a.b/c:1",
			wantResources: resources("a.b/c"),
			wantCards:     map[Name]Count{},
		},
		"a label with its name, here .speed, makes no network device a card": {
			node:      "huawei.com/rdma_nic.speed=200 huawei.com/rdma_nic:8",
			wantCards: map[Name]Count{},
		},
		"product and memory have the very name of the network device": {
			node:          "a.b/sriov.product=X a.b/sriov.memory=1 a.b/sriov:4",
			wantResources: resources("a.b/sriov"),
			wantCards:     map[Name]Count{"X": 4},
		},
		"ai-processor contains roce, a word of networks, and is a card": {
			node:          "v.w/unit.product=X v.w/unit.memory=1 v.w/ai-processor:4 v.w/rdma:8",
			wantResources: resources("v.w/ai-processor"),
			wantCards:     map[Name]Count{"X": 4},
		},
		"any label with its name, here .family, makes ai-processor a card: withheld without a product": {
			node:          "v.w/ai-processor.family=X v.w/ai-processor:4",
			wantResources: resources("v.w/ai-processor"),
			wantCards:     map[Name]Count{},
		},
		"a mapping names the network device": {
			node:          npu + "huawei.com/rdma_nic:8",
			laterMappings: Mappings{{Resource: "huawei.com/rdma_nic", Model: "X"}},
			wantResources: resources("huawei.com/rdma_nic"),
			wantCards:     map[Name]Count{"X": 8},
		},
	}) {
		var tracker Tracker
		tracker.SetMappings(tc.mappings)
		tracker.Update(newNode(tc.node))
		tracker.SetMappings(tc.laterMappings)

		check.Equal(t, "resources", tc.wantResources, tracker.Inventory().Resources())
		check.Equal(t, "cards", tc.wantCards, tracker.Inventory().Physical())
	}
}

// TestNoNetworkDeviceIsReadFromTheRecord: the operator records which resources are cards. Earlier versions recorded
// network devices, too. AddResources, which reads the record, leaves these out. Lasting resources are those of the
// record.
func TestNoNetworkDeviceIsReadFromTheRecord(t *testing.T) {
	var tracker Tracker
	check.That(t, tracker.AddResources("huawei.com/rdma_nic", "huawei.com/Ascend910"), "AddResources reports no change for a new card")
	check.Equal(t, "lasting resources", resources("huawei.com/Ascend910"), tracker.Inventory().LastingResources())
}

// TestNoNetworkDeviceIsRecorded: labels have the very name of network device a.b/sriov, so it is a card. The record
// leaves it out, because it would not be read back. So exactly what is written, a.b/c, is read.
func TestNoNetworkDeviceIsRecorded(t *testing.T) {
	var before Tracker
	before.Update(newNode("a.b/sriov.product=X a.b/sriov.memory=1 a.b/sriov:4"))
	before.AddResources("a.b/c")
	check.Equal(t, "cards", resources("a.b/c", "a.b/sriov"), before.Inventory().Resources())
	written := before.Inventory().LastingResources()
	check.Equal(t, "written", resources("a.b/c"), written)

	var after Tracker
	after.AddResources(written...)
	check.Equal(t, "read", written, after.Inventory().LastingResources())
}
