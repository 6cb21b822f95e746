package card

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestTrackerFollowsMappings: a Tracker keeps the cards of all nodes up to date. After random versions of a node and
// random mappings it has the same cards as a new Tracker that only sees the last ones. Each mapped resource is a
// card. SetMappings reports a change if the inventory changes, and none if the mappings are the same as before.
func TestTrackerFollowsMappings(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var tracker Tracker
		nodes := map[string]*corev1.Node{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			node, mappings := drawNodeAndMappings(t)
			nodes[node.Name] = node
			if rapid.Bool().Draw(t, "the node changes first") {
				tracker.Update(node)
			}

			before := tracker.Inventory()
			check.Must(t, tracker.SetMappings(mappings) || before == tracker.Inventory(), "the inventory changed, and SetMappings reports no change")
			check.That(t, !tracker.SetMappings(mappings), "the same mappings are reported as a change")

			tracker.Update(node)
			var fresh Tracker
			fresh.SetMappings(mappings)
			fresh.Replace(nodes)
			check.Equal(t, "nodes", fresh.Nodes(), tracker.Nodes())
			check.Equal(t, "physical", fresh.Inventory().Physical(), tracker.Inventory().Physical())
			for _, name := range mappings.Resources() {
				check.Must(t, tracker.Inventory().IsCard(name), "mapped %s is no card", name)
			}
		}
	})
}

// TestAWrongMappingCanBeTakenBack: by mistake, an administrator maps a network device, and NVIDIA's cards to name Y.
// Once the mappings are removed, the network device is no card, and the cards have the name of their labels.
// huawei.com/Ascend910 is a card by the record of the operator, and stays one throughout.
func TestAWrongMappingCanBeTakenBack(t *testing.T) {
	var tracker Tracker
	tracker.AddResources("huawei.com/Ascend910")
	tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8 rdma/hca:1"))

	tracker.SetMappings(Mappings{{Resource: "rdma/hca", Model: "X"}, {Resource: "nvidia.com/gpu", Model: "Y"}})
	check.Equal(t, "cards with the mappings", resources("huawei.com/Ascend910", "nvidia.com/gpu", "rdma/hca"),
		tracker.Inventory().Resources())

	tracker.SetMappings(nil)
	check.Equal(t, "cards without mappings", resources("huawei.com/Ascend910", "nvidia.com/gpu"), tracker.Inventory().Resources())
	check.Equal(t, "counts without mappings", map[Name]Count{"H200": 8}, tracker.Inventory().Physical())
}

// TestWithoutItsMappingACardIsWithheldAsBefore: label amd.com/gpu.product-name begins with the name of resource
// amd.com/gpu, so the resource is a card. But only labels <type>.product and <type>.memory name a card, so no pod
// gets the 8 cards without a mapping. They get a name while a mapping exists, and are withheld again after it.
func TestWithoutItsMappingACardIsWithheldAsBefore(t *testing.T) {
	node := newNode("amd.com/gpu.product-name=MI210 amd.com/gpu:8")
	before := Recognise(node, nil)
	check.Equal(t, "withheld without a mapping", resources("amd.com/gpu"), before.Unnamed)

	var tracker Tracker
	tracker.Update(node)
	tracker.SetMappings(Mappings{amdByLabel})
	check.Equal(t, "cards with the mapping", map[Name]Count{"MI210": 8}, tracker.Inventory().Physical())

	tracker.SetMappings(nil)
	check.Equal(t, "after the mapping", before, tracker.Nodes()[0].Node)
	check.That(t, tracker.Inventory().IsCard("amd.com/gpu"), "the resource is no card any more")
}

// TestAMappingForgetsNoCard: labels of a node made nvidia.com/gpu a card, so it stays a card when the node is gone: a
// new node may have it again. A mapping of it that is added and removed does not change that. Only a mapping makes
// v.w/x a card, so it is none once the mapping is removed. Lasting resources are those that the operator records.
func TestAMappingForgetsNoCard(t *testing.T) {
	var tracker Tracker
	tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8"))
	tracker.Delete("a")

	tracker.SetMappings(Mappings{{Resource: "nvidia.com/gpu", Model: "Y"}, {Resource: "v.w/x", Model: "X"}})
	check.Equal(t, "cards with the mappings", resources("nvidia.com/gpu", "v.w/x"), tracker.Inventory().Resources())
	check.Equal(t, "lasting resources", resources("nvidia.com/gpu"), tracker.Inventory().LastingResources())

	tracker.SetMappings(nil)
	check.Equal(t, "cards without mappings", resources("nvidia.com/gpu"), tracker.Inventory().Resources())
}

// TestLabelsMakeAMappedCardLast: lasting resources are cards without any mapping, and the operator records them. A
// mapping names nvidia.com/gpu before any node offers it, so it is a card but not lasting. Then node a gets its cards
// and labels, which make it a card without the mapping, too. So it becomes lasting, and stays so without the node.
func TestLabelsMakeAMappedCardLast(t *testing.T) {
	var tracker Tracker
	tracker.SetMappings(Mappings{{Resource: "nvidia.com/gpu", Model: "H200"}})
	tracker.Update(newNamedNode("a", ""))
	check.Equal(t, "lasting resources before the labels", 0, len(tracker.Inventory().LastingResources()))

	check.That(t, tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8")), "labels that make a lasting card are no change")
	tracker.Delete("a")
	check.Equal(t, "lasting resources after the labels", resources("nvidia.com/gpu"), tracker.Inventory().LastingResources())
}

// TestWhatANodeWithholdsBesideAMappingStaysACard: the node offers Ascend cards and NVIDIA's, and only the
// Ascend ones have labels. With a mapping of the Ascend cards the labels have no use, so nothing names
// NVIDIA's cards, and the node withholds them. Withheld cards are lasting: they stay cards without the node
// and without the mapping. But if a mapping names NVIDIA's cards, even for other nodes, they are cards only
// while it exists. The Ascend cards are lasting in each row, because their labels alone make them cards, too.
func TestWhatANodeWithholdsBesideAMappingStaysACard(t *testing.T) {
	node := newNode(npu + "huawei.com/Ascend910:8 nvidia.com/gpu:8")
	ascend := Mapping{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}
	nvidiaElsewhere := mapPoolX("nvidia.com/gpu", "H200")

	for t, tc := range check.Cases(t, map[string]struct {
		mappings     Mappings
		wantWithheld []corev1.ResourceName
		wantLasting  []corev1.ResourceName
	}{
		"no mapping: NVIDIA's cards are no cards": {
			mappings:    nil, // the labels name the one model of the node, which is not NVIDIA's
			wantLasting: resources("huawei.com/Ascend910"),
		},
		"a mapping of the Ascend cards: NVIDIA's are lasting": {
			mappings:     Mappings{ascend},
			wantWithheld: resources("nvidia.com/gpu"),
			wantLasting:  resources("huawei.com/Ascend910", "nvidia.com/gpu"),
		},
		"also a mapping of NVIDIA's cards for other nodes: they are not lasting": {
			mappings:     Mappings{ascend, nvidiaElsewhere},
			wantWithheld: resources("nvidia.com/gpu"),
			wantLasting:  resources("huawei.com/Ascend910"),
		},
	}) {
		var tracker Tracker
		tracker.SetMappings(tc.mappings)
		tracker.Update(node)
		check.Equal(t, "withheld", tc.wantWithheld, tracker.Nodes()[0].Unnamed)

		before := tracker.Inventory().Resources()
		tracker.Delete(node.Name)
		check.Equal(t, "cards without the node", before, tracker.Inventory().Resources())
		check.Equal(t, "lasting resources", tc.wantLasting, tracker.Inventory().LastingResources())

		tracker.SetMappings(nil)
		check.Equal(t, "cards without mappings", tc.wantLasting, tracker.Inventory().Resources())
	}
}
