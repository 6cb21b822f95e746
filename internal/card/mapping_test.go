package card

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// Entries of spec.cards of the ServiceTypePolicy: by label amd.com/gpu.product-name, and by name on some nodes.
var (
	amdByLabel = Mapping{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"}
	intelFlex  = Mapping{
		Resource:     "gpu.intel.com/i915",
		Model:        "Flex-170",
		NodeSelector: map[string]string{"gpu.intel.com/product": "Flex_170"},
	}
)

// TestMappingsNameTheNodesOfOtherVendors: device plugins of these vendors write no label <type>.product, so an
// administrator maps the resource to a model by name, or by a label that the vendor writes. The nodes are files of
// testdata/nodes. All allocatable units of the resource become cards.
func TestMappingsNameTheNodesOfOtherVendors(t *testing.T) {
	for file, tc := range map[string]struct {
		mapping Mapping
		want    NodeCard
	}{
		"amd-mi300x": {
			mapping: amdByLabel,
			want:    NodeCard{"AMD_Instinct_MI300X_OAM", "amd.com/gpu", 8},
		},
		"hygon-k100-ai": {
			mapping: Mapping{Resource: "hygon.com/dcu", ModelLabel: "hygon.com/dcu.name"},
			want:    NodeCard{"K100_AI", "hygon.com/dcu", 8},
		},
		"intel-flex-170": {
			mapping: intelFlex,
			want:    NodeCard{"Flex-170", "gpu.intel.com/i915", 2},
		},
		"alibaba-ppu-zw810e-vendor-labels": {
			mapping: Mapping{Resource: "alibabacloud.com/ppu", ModelLabel: "aliyun.accelerator/ppu_name"},
			want:    NodeCard{"PPU-ZW810E", "alibabacloud.com/ppu", 16},
		},
		"huawei-ascend-910b-vendor-labels": {
			mapping: Mapping{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"},
			want:    NodeCard{"Ascend-910B", "huawei.com/Ascend910", 8},
		},
	} {
		got := Recognise(readFleetNode(t, file), Mappings{tc.mapping})

		check.Equal(t, file, Node{Model: tc.want.Name.Model(), Cards: []NodeCard{tc.want}}, got, cmpopts.EquateEmpty())
	}
}

// mapPoolX maps a resource to a model on the nodes with label pool=x.
func mapPoolX(resource corev1.ResourceName, model string) Mapping {
	return Mapping{Resource: resource, Model: model, NodeSelector: map[string]string{"pool": "x"}}
}

// TestAMappingDecidesAboutItsResourceAlone: an entry of spec.cards names the card of its resource on the nodes that it
// selects, in place of the labels <type>.product and <type>.memory. The labels still decide about other resources.
// A resource that neither names, or two entries name differently, is withheld: no new pod gets it. The labels h800
// and npu name NVIDIA-H800 for nvidia.com and Ascend-910B for huawei.com; amdByLabel is an entry by label.
func TestAMappingDecidesAboutItsResourceAlone(t *testing.T) {
	share := Mapping{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "mem"}

	for t, tc := range check.Cases(t, map[string]struct {
		node         string // labels "key=value" and resources "name:count"
		mappings     Mappings
		wantCards    string              // as describeCards writes them: card=resource:count
		wantReason   AnomalyReason       // "" where the node has no anomaly
		wantWithheld corev1.ResourceName // the resource of the anomaly
		wantMessage  string
	}{
		"the node has the label of the entry": {
			node:      "amd.com/gpu.product-name=MI300X amd.com/gpu:8",
			mappings:  Mappings{amdByLabel},
			wantCards: "MI300X=amd.com/gpu:8",
		},
		"the node lacks the label of the entry": {
			node:         "amd.com/gpu:8",
			mappings:     Mappings{amdByLabel},
			wantReason:   NoModelLabel,
			wantWithheld: "amd.com/gpu",
			wantMessage:  "offers amd.com/gpu but no label amd.com/gpu.product-name",
		},
		"the label of the entry is empty": {
			node:         "amd.com/gpu.product-name= amd.com/gpu:8",
			mappings:     Mappings{amdByLabel},
			wantReason:   NoModelLabel,
			wantWithheld: "amd.com/gpu",
			wantMessage:  "but no label",
		},
		"the node lacks the label of one entry, another entry selects it": {
			node:      "pool=x amd.com/gpu:8",
			mappings:  Mappings{amdByLabel, mapPoolX("amd.com/gpu", "MI210")},
			wantCards: "MI210=amd.com/gpu:8",
		},
		"two entries name two models": {
			node:         "pool=x amd.com/gpu.product-name=MI300X amd.com/gpu:8",
			mappings:     Mappings{amdByLabel, mapPoolX("amd.com/gpu", "MI210")},
			wantReason:   SeveralModels,
			wantWithheld: "amd.com/gpu",
			wantMessage:  "more than one card: MI210, MI300X",
		},
		"two entries name the same model": {
			node:      "pool=x amd.com/gpu.product-name=MI210 amd.com/gpu:8",
			mappings:  Mappings{amdByLabel, mapPoolX("amd.com/gpu", "MI210")},
			wantCards: "MI210=amd.com/gpu:8",
		},
		"the entry is for other nodes, and no label names the card": {
			node:         "pool=y v.w/x:8",
			mappings:     Mappings{mapPoolX("v.w/x", "X")},
			wantReason:   NoModelLabel,
			wantWithheld: "v.w/x",
			wantMessage: "offers v.w/x but no label v.w/<type>.product with v.w/<type>.memory and " +
				"no entry of spec.cards of the policy names its card on this node",
		},
		"the entry is for other nodes, and labels name the card": {
			node:      "pool=y v.w/x.product=Y v.w/x.memory=1 v.w/x:8",
			mappings:  Mappings{mapPoolX("v.w/x", "X")},
			wantCards: "Y=v.w/x:8",
		},
		"the node does not offer the resource of the entry": {
			node:     "pool=x v.w/y:8",
			mappings: Mappings{mapPoolX("v.w/x", "X")},
		},
		"the entry replaces the labels of its resource": {
			node:      h800 + "pool=x nvidia.com/gpu:8",
			mappings:  Mappings{mapPoolX("nvidia.com/gpu", "X")},
			wantCards: "X=nvidia.com/gpu:8",
		},
		"the labels still name the slices beside mapped whole cards": {
			node:      h800 + "pool=x nvidia.com/gpu:8 nvidia.com/mig-1g.10gb:7",
			mappings:  Mappings{mapPoolX("nvidia.com/gpu", "X")},
			wantCards: "X=nvidia.com/gpu:8 NVIDIA-H800/mig-1g.10gb-mixed=nvidia.com/mig-1g.10gb:7",
		},
		"the entry is for slices": {
			node:      "pool=x nvidia.com/mig-1g.10gb:7",
			mappings:  Mappings{mapPoolX("nvidia.com/mig-1g.10gb", "X")},
			wantCards: "X/mig-1g.10gb-mixed=nvidia.com/mig-1g.10gb:7",
		},
		"the labels still name the cards of another vendor without an entry": {
			node:      h800 + "pool=x nvidia.com/gpu:8 amd.com/gpu:8",
			mappings:  Mappings{mapPoolX("amd.com/gpu", "X")},
			wantCards: "X=amd.com/gpu:8 NVIDIA-H800=nvidia.com/gpu:8",
		},
		"labels name the cards of two vendors, the entry replaces those of one": {
			node:      h800 + npu + "pool=x nvidia.com/gpu:8 huawei.com/Ascend910:8",
			mappings:  Mappings{mapPoolX("huawei.com/Ascend910", "X")},
			wantCards: "X=huawei.com/Ascend910:8 NVIDIA-H800=nvidia.com/gpu:8",
		},
		"a network device of the vendor is no card beside the mapped one": {
			node:      npu + "pool=x huawei.com/Ascend910:8 huawei.com/rdma:1",
			mappings:  Mappings{mapPoolX("huawei.com/Ascend910", "X")},
			wantCards: "X=huawei.com/Ascend910:8",
		},
		"the label could mean two resources, the entry names one: the other is withheld": {
			node:         npu + "pool=x huawei.com/Ascend910:8 huawei.com/Ascend310P:2",
			mappings:     Mappings{mapPoolX("huawei.com/Ascend310P", "X")},
			wantCards:    "X=huawei.com/Ascend310P:2",
			wantReason:   NoModelLabel,
			wantWithheld: "huawei.com/Ascend910",
			wantMessage:  "no entry of spec.cards of the policy names its card on this node",
		},
		"the label could mean two resources, entries name both": {
			node:      npu + "pool=x huawei.com/Ascend910:8 huawei.com/Ascend310P:2",
			mappings:  Mappings{mapPoolX("huawei.com/Ascend310P", "X"), mapPoolX("huawei.com/Ascend910", "Y")},
			wantCards: "X=huawei.com/Ascend310P:2 Y=huawei.com/Ascend910:8",
		},
		"the entry is for shares: 81559 MiB are 80 GiB, cut into 2": {
			node:      "mem=81559 a.b/c.replicas=2 a.b/c.shared:16",
			mappings:  Mappings{share},
			wantCards: "X/mps-80g*1/2=a.b/c.shared:16",
		},
		"the entry is for shares, the label of the memory lacks": {
			node:         "a.b/c.replicas=2 a.b/c.shared:16",
			mappings:     Mappings{share},
			wantReason:   InvalidLabel,
			wantWithheld: "a.b/c.shared",
			wantMessage:  `label mem="" is no memory size in MiB`,
		},
		"the entry is for shares, the label of the replicas lacks": {
			node:         "mem=81559 a.b/c.shared:16",
			mappings:     Mappings{share},
			wantReason:   InvalidLabel,
			wantWithheld: "a.b/c.shared",
			wantMessage:  "has no label a.b/c.replicas",
		},
	}) {
		got := Recognise(newNode(tc.node), tc.mappings)
		check.Equal(t, "cards", tc.wantCards, describeCards(got.Cards))

		if tc.wantReason == "" {
			check.Equal(t, "anomalies", 0, len(got.Anomalies))
			continue
		}
		want := []Anomaly{{Reason: tc.wantReason, Resource: tc.wantWithheld}}
		check.Equal(t, "anomalies", want, got.Anomalies, cmpopts.IgnoreFields(Anomaly{}, "Message"))
		check.Equal(t, "withheld", []corev1.ResourceName{tc.wantWithheld}, got.Unnamed)
		check.Contains(t, "message of the anomaly", joinMessages(got.Anomalies), tc.wantMessage)
	}
}

// TestMappingsNameOneOfSeveralCandidates: the node's label names Ascend-910B, and the node offers three resources of
// Huawei that this could be. The administrator maps one of them, of which the node has 6. The two others are
// withheld.
func TestMappingsNameOneOfSeveralCandidates(t *testing.T) {
	mapping := Mapping{Resource: "huawei.com/Ascend910", ModelLabel: "huawei.com/npu.product"}
	got := Recognise(readFleetNode(t, "huawei-ascend-910b-vnpu"), Mappings{mapping})

	check.Equal(t, "cards", []NodeCard{{"Ascend-910B", "huawei.com/Ascend910", 6}}, got.Cards)
	check.Equal(t, "withheld", resources("huawei.com/Ascend910-5c.1cpu.8g", "huawei.com/Ascend910B4"), got.Unnamed)
}

// TestAMappingReleasesNoCard: a resource without quota is free for all tenants. So a resource that is a card of a node,
// or withheld as one, stays so when a random mapping is added. A network device never becomes a card unless a mapping
// names it.
func TestAMappingReleasesNoCard(t *testing.T) {
	offered := rapid.SampledFrom([]corev1.ResourceName{
		"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev",
		"huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend310P", "huawei.com/other", "huawei.com/rdma", "rdma/hca",
	})
	labelledType := rapid.SampledFrom([]string{"nvidia.com/gpu", "huawei.com/npu", "huawei.com/npu", "huawei.com/other"})

	seed.Check(t, func(t *rapid.T) {
		n := newNode("")
		for _, kind := range rapid.SliceOfN(labelledType, 0, 2).Draw(t, "labelled types") {
			n.Labels[kind+".product"] = "M"
			n.Labels[kind+".memory"] = "65536"
		}

		for _, name := range rapid.SliceOfN(offered, 2, 6).Draw(t, "offers") {
			n.Status.Allocatable[name] = resource.MustParse("8")
		}
		mapped := rapid.SampledFrom(slices.Sorted(maps.Keys(n.Status.Allocatable)))

		mappings := Mappings{}
		for range rapid.IntRange(1, 3).Draw(t, "mappings") {
			before := NewInventory(map[string]Node{"n": Recognise(n, mappings)}).Resources()
			m := Mapping{Resource: mapped.Draw(t, "mapped"), Model: "X", MemoryLabel: "nvidia.com/gpu.memory"}
			if rapid.IntRange(0, 3).Draw(t, "another node") == 0 {
				m.NodeSelector = map[string]string{"pool": "x"}
			}

			mappings = append(mappings, m)
			after := NewInventory(map[string]Node{"n": Recognise(n, mappings)})
			for _, name := range before {
				check.Must(t, after.IsCard(name), "%s was a card or withheld, and mapping %s released it", name, m.Resource)
			}

			for _, name := range after.Resources() {
				isDevice := strings.Contains(string(name), "rdma") || strings.Contains(string(name), "hostdev")
				check.Must(t, !isDevice || slices.Contains(mappings.Resources(), name), "the network device %s is a card", name)
			}
		}
	})
}

// drawNodeAndMappings draws a node that offers none, one or both of v.w/x and a.b/c, 2 each, and up to four mappings of
// them, by a model, by label "model", or with a selector of label "pool".
func drawNodeAndMappings(t *rapid.T) (*corev1.Node, Mappings) {
	values := rapid.SampledFrom([]string{"", "X", "Y"})
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}

	for _, key := range []string{"model", "pool", "v.w/x.product"} {
		if value := values.Draw(t, key); value != "" {
			n.Labels[key] = value
		}
	}

	n.Labels["v.w/x.memory"] = "1"
	for _, name := range []corev1.ResourceName{"v.w/x", "a.b/c"} {
		if rapid.Bool().Draw(t, string(name)) {
			n.Status.Allocatable[name] = resource.MustParse("2")
		}
	}

	mappings := make(Mappings, rapid.IntRange(0, 4).Draw(t, "mappings"))
	for i := range mappings {
		m := Mapping{Resource: rapid.SampledFrom([]corev1.ResourceName{"v.w/x", "a.b/c"}).Draw(t, "resource"), Model: values.Draw(t, "model")}
		if m.Model == "" {
			m.ModelLabel = "model"
		}
		if pool := values.Draw(t, "selector"); pool != "" {
			m.NodeSelector = map[string]string{"pool": pool}
		}
		mappings[i] = m
	}

	return n, mappings
}

// modelsByDefinition returns the models that mappings give to a resource of such a node. Where none selects the node,
// its label v.w/x.product counts.
func modelsByDefinition(n *corev1.Node, mappings Mappings, name corev1.ResourceName) map[string]bool {
	models := map[string]bool{}
	isSelected := false
	for _, m := range mappings {
		if m.Resource != name || (m.NodeSelector != nil && m.NodeSelector["pool"] != n.Labels["pool"]) {
			continue
		}
		isSelected = true
		if model := m.Model + n.Labels[m.ModelLabel]; model != "" {
			models[model] = true
		}
	}

	if model := n.Labels["v.w/x.product"]; !isSelected && name == "v.w/x" && model != "" {
		models[model] = true
	}

	return models
}

// TestRecognitionWithMappingsFollowsItsDefinition: on random nodes with random mappings, a resource has a card name
// exactly if its mappings, or else its labels, give one model. Each mapped resource is a card in the inventory, and
// something withheld has a reason. The order of the mappings makes no difference.
func TestRecognitionWithMappingsFollowsItsDefinition(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n, mappings := drawNodeAndMappings(t)

		got := Recognise(n, mappings)
		inventory := NewInventory(map[string]Node{"n": got})
		for name := range n.Status.Allocatable {
			models := modelsByDefinition(n, mappings, name)
			card, isNamed := inventory.CardOnNode("n", name)
			check.Equal(t, string(name)+" has a name", len(models) == 1, isNamed)
			check.Must(t, !isNamed || models[string(card)], "%s is %q, want %v", name, card, models)

			isMapped := slices.Contains(mappings.Resources(), name)
			check.Must(t, !isMapped || inventory.IsCard(name), "mapped %s is no card", name)
		}

		check.Must(t, len(got.Unnamed) == 0 || len(got.Anomalies) != 0, "withholds %v without a reason", got.Unnamed)
		check.Equal(t, "another order of the mappings", got, Recognise(n, mappings.Sorted()), cmpopts.IgnoreFields(Anomaly{}, "Message"))
	})
}

// TestTrackerFollowsMappings: a Tracker keeps the cards of all nodes up to date. After random nodes and mappings it has
// the same cards as a new Tracker that only sees the last ones. It reports each change, and no change where the
// mappings are the same as before.
func TestTrackerFollowsMappings(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var tracker Tracker
		nodes := map[string]*corev1.Node{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			n, mappings := drawNodeAndMappings(t)
			nodes[n.Name] = n
			if rapid.Bool().Draw(t, "the node changes first") {
				tracker.Update(n)
			}

			before := tracker.Inventory()
			changed := tracker.SetMappings(mappings)
			check.Must(t, changed || before == tracker.Inventory(), "the inventory changed, and SetMappings reports no change")
			check.That(t, !tracker.SetMappings(mappings), "the same mappings are reported as a change")

			tracker.Update(n)
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

// TestAWrongMappingCanBeTakenBack: an administrator maps a network device, and NVIDIA's cards to another name, by
// mistake. Once the mappings are removed, the network device is no card and the cards have the name of their labels.
// A resource that the tracker knows as a card from its record is not touched.
func TestAWrongMappingCanBeTakenBack(t *testing.T) {
	var tracker Tracker
	tracker.AddResources("huawei.com/Ascend910")
	tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8 rdma/hca:1"))

	tracker.SetMappings(Mappings{{Resource: "rdma/hca", Model: "X"}, {Resource: "nvidia.com/gpu", Model: "Y"}})
	check.Equal(t, "cards with the mappings", resources("huawei.com/Ascend910", "nvidia.com/gpu", "rdma/hca"), tracker.Inventory().Resources())

	tracker.SetMappings(nil)
	check.Equal(t, "cards without mappings", resources("huawei.com/Ascend910", "nvidia.com/gpu"), tracker.Inventory().Resources())
	check.Equal(t, "counts without mappings", map[Name]Count{"H200": 8}, tracker.Inventory().Physical())
}

// TestWithoutItsMappingACardIsWithheldAsBefore: a label that begins with the name of a resource makes it a card, but
// only labels <type>.product and <type>.memory name it. So no pod gets the 8 cards until a mapping names them, and
// none gets them once the mapping is removed.
func TestWithoutItsMappingACardIsWithheldAsBefore(t *testing.T) {
	n := newNode("amd.com/gpu.product-name=MI210 amd.com/gpu:8")
	before := Recognise(n, nil)
	check.Equal(t, "withheld without a mapping", resources("amd.com/gpu"), before.Unnamed)

	var tracker Tracker
	tracker.Update(n)
	tracker.SetMappings(Mappings{amdByLabel})
	check.Equal(t, "cards with the mapping", map[Name]Count{"MI210": 8}, tracker.Inventory().Physical())

	tracker.SetMappings(nil)
	check.Equal(t, "after the mapping", before, tracker.Nodes()[0].Node)
	check.That(t, tracker.Inventory().IsCard("amd.com/gpu"), "the resource is no card any more")
}

// TestAMappingForgetsNoCard: labels made nvidia.com/gpu a card once, so it stays a card without nodes: a new node may
// have it again. A mapping of it that comes and goes changes nothing. Only the mapping makes v.w/x a card, so it is
// none once the mapping is removed. Lasting resources are those that the operator records.
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

// TestLabelsMakeAMappedCardLast: a mapping names nvidia.com/gpu before any node offers it, so it is a card but no
// lasting one. When the node gets its cards and labels, they would make it a card without the mapping, too. So it
// becomes lasting, and stays so without the node.
func TestLabelsMakeAMappedCardLast(t *testing.T) {
	var tracker Tracker
	tracker.SetMappings(Mappings{{Resource: "nvidia.com/gpu", Model: "H200"}})
	tracker.Update(newNamedNode("a", ""))
	check.Equal(t, "lasting resources before the labels", 0, len(tracker.Inventory().LastingResources()))

	check.That(t, tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8")), "labels that make a lasting card are no change")
	tracker.Delete("a")
	check.Equal(t, "lasting resources after the labels", resources("nvidia.com/gpu"), tracker.Inventory().LastingResources())
}

// TestWhatANodeWithholdsBesideAMappingStaysACard: the node offers Ascend cards and NVIDIA's, and its only labels are
// of the Ascend ones. With a mapping of the Ascend cards the labels have no use, so nothing names NVIDIA's cards: the
// node withholds them. Withheld cards stay cards without the node and without the mapping. But a mapping of NVIDIA's
// cards, even for other nodes, makes them cards only while it exists.
func TestWhatANodeWithholdsBesideAMappingStaysACard(t *testing.T) {
	n := newNode(npu + "huawei.com/Ascend910:8 nvidia.com/gpu:8")
	ascend := Mapping{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}
	nvidiaElsewhere := mapPoolX("nvidia.com/gpu", "H200")

	for t, tc := range check.Cases(t, map[string]struct {
		mappings     Mappings
		wantWithheld []corev1.ResourceName
		wantLasting  []corev1.ResourceName
	}{
		"no mapping: NVIDIA's cards are no cards": {
			mappings:    nil,
			wantLasting: resources("huawei.com/Ascend910"),
		},
		"a mapping of the Ascend cards: NVIDIA's last": {
			mappings:     Mappings{ascend},
			wantWithheld: resources("nvidia.com/gpu"),
			wantLasting:  resources("huawei.com/Ascend910", "nvidia.com/gpu"),
		},
		"also a mapping of NVIDIA's cards for other nodes: they do not last": {
			mappings:     Mappings{ascend, nvidiaElsewhere},
			wantWithheld: resources("nvidia.com/gpu"),
			wantLasting:  resources("huawei.com/Ascend910"),
		},
	}) {
		var tracker Tracker
		tracker.SetMappings(tc.mappings)
		tracker.Update(n)
		check.Equal(t, "withheld", tc.wantWithheld, tracker.Nodes()[0].Unnamed)

		before := tracker.Inventory().Resources()
		tracker.Delete(n.Name)
		check.Equal(t, "cards without the node", before, tracker.Inventory().Resources())
		check.Equal(t, "lasting resources", tc.wantLasting, tracker.Inventory().LastingResources())

		tracker.SetMappings(nil)
		check.Equal(t, "cards without mappings", tc.wantLasting, tracker.Inventory().Resources())
	}
}

// TestMissingLabelsAreReadFromTheMessage: an anomaly's message names the label of a mapping that a node lacks.
// ParseMissingLabel finds it, also inside a longer text, so that another message can name it. A card without a
// mapping, or with one by model, lacks no such label.
func TestMissingLabelsAreReadFromTheMessage(t *testing.T) {
	messageOf := func(parts string, mappings ...Mapping) string {
		return joinMessages(Recognise(newNode(parts), mappings).Anomalies)
	}

	for message, want := range map[string]string{
		messageOf("amd.com/gpu:8", amdByLabel):                           "amd.com/gpu.product-name",
		"node a: " + messageOf("amd.com/gpu:8", amdByLabel) + "; add it": "amd.com/gpu.product-name",
		messageOf("nvidia.com/gpu:8"):                                    "",
		messageOf("amd.com/gpu:8", mapPoolX("amd.com/gpu", "X")):         "",
		"": "",
	} {
		label, isMissing := ParseMissingLabel(message)
		check.Equal(t, message+": label", want, label)
		check.Equal(t, message+": a label is missing", want != "", isMissing)
	}
}

// TestWrongMappingsAreRefusedWithTheEntry: spec.cards has up to 64 entries. Each names an extended resource of a device
// plugin and one model, by name or by label. An error says which entry and field is wrong, and what to write.
func TestWrongMappingsAreRefusedWithTheEntry(t *testing.T) {
	labels := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}

	for t, tc := range check.Cases(t, map[string]struct {
		mappings   Mappings
		wantErrors []string // none if the mappings are valid
	}{
		"valid entries": {mappings: Mappings{
			amdByLabel,
			intelFlex,
			{Resource: "amd.com/gpu", Model: "MI210", NodeSelector: map[string]string{"pool": ""}},
			{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "a.b/c.memory"},
			{Resource: "nvidia.com/mig-1g.18gb", Model: "X"},
		}},
		"an entry without a model and without a label of it": {
			mappings:   Mappings{{Resource: "amd.com/gpu"}},
			wantErrors: []string{"entry 1: names no card: write modelLabel"},
		},
		"an entry with a model and a label of it": {
			mappings:   Mappings{amdByLabel, {Resource: "a.b/c", Model: "X", ModelLabel: "l"}},
			wantErrors: []string{"entry 2: has modelLabel and model: keep one"},
		},
		"the resource is CPU": {
			mappings:   Mappings{{Resource: "cpu", Model: "X"}},
			wantErrors: []string{`entry 1, resource: "cpu" is no card`, "for example amd.com/gpu"},
		},
		"the resource is memory": {
			mappings:   Mappings{{Resource: "memory", Model: "X"}},
			wantErrors: []string{`"memory" is no card`},
		},
		"the resource is huge pages": {
			mappings:   Mappings{{Resource: "hugepages-2Mi", Model: "X"}},
			wantErrors: []string{`is no card`},
		},
		"the resource is one of Kubernetes": {
			mappings:   Mappings{{Resource: "scheduling.kubernetes.io/x", Model: "X"}},
			wantErrors: []string{`is no card`},
		},
		"an entry without a resource": {
			mappings:   Mappings{{Model: "X"}},
			wantErrors: []string{`"" is no card`},
		},
		"the resource has a space": {
			mappings:   Mappings{{Resource: "a.b/c d", Model: "X"}},
			wantErrors: []string{"is no name of a resource"},
		},
		"the model has a space": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "Instinct MI300X"}},
			wantErrors: []string{"entry 1, model:", "makes no card name"},
		},
		"the model is the name of a slice": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X/mig-1g.18gb-mixed"}},
			wantErrors: []string{"makes no card name"},
		},
		"the MIG profile of the resource is in capitals": {
			mappings:   Mappings{{Resource: "nvidia.com/mig-1G.10GB", Model: "X"}},
			wantErrors: []string{"entry 1, model:", "after the model write"},
		},
		"modelLabel is no key of a label": {
			mappings:   Mappings{{Resource: "a.b/c", ModelLabel: "a/b/c"}},
			wantErrors: []string{"entry 1, modelLabel:", "is no key of a label"},
		},
		"whole cards have memoryLabel, which only shares need": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", MemoryLabel: "m"}},
			wantErrors: []string{"entry 1, memoryLabel: has no effect"},
		},
		"shares lack memoryLabel": {
			mappings:   Mappings{{Resource: "a.b/c.shared", Model: "X"}},
			wantErrors: []string{"entry 1, memoryLabel: is missing"},
		},
		"memoryLabel is no key of a label": {
			mappings:   Mappings{{Resource: "a.b/c.shared", Model: "X", MemoryLabel: " "}},
			wantErrors: []string{"memoryLabel:", "is no key of a label"},
		},
		"nodeSelector has a wrong key": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a b": "c"}}},
			wantErrors: []string{"nodeSelector:", "is no key of a label"},
		},
		"nodeSelector has a wrong value": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a": "b c"}}},
			wantErrors: []string{"is no value of a label"},
		},
		"nodeSelector has 17 labels": {
			mappings:   Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: labels(17)}},
			wantErrors: []string{"17 labels, at most 16"},
		},
		"two entries for the same resource and nodes": {
			mappings:   Mappings{amdByLabel, {Resource: "amd.com/gpu", Model: "X"}},
			wantErrors: []string{"entry 2: has the resource and the nodeSelector of another entry"},
		},
		"65 entries": {
			mappings:   make(Mappings, 65),
			wantErrors: []string{"65 entries, at most 64"},
		},
	}) {
		err := tc.mappings.Validate()
		if tc.wantErrors == nil {
			check.NoError(t, err)
			continue
		}
		check.Refused(t, err, tc.wantErrors...)
	}
}

// TestNoValidMappingMakesAnInvalidName: an administrator must be able to write a quota for each card. So mappings that
// are accepted give a node's card a valid name. The drawn resources are whole cards, slices and shares; the node has
// the labels that shares need, 1024 MiB and 2 replicas.
func TestNoValidMappingMakesAnInvalidName(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"a.b/c", "nvidia.com/mig-1g", "a.b/c.shared", "nvidia.com/mig-"}).Draw(t, "resource")
		m := Mapping{
			Resource: corev1.ResourceName(prefix + rapid.StringMatching(`[a-zA-Z0-9_.-]{0,5}`).Draw(t, "rest")),
			Model:    rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_./-]{0,66}`), rapid.String()).Draw(t, "model"),
		}
		if m.isShare() {
			m.MemoryLabel = "m"
		}
		if (Mappings{m}).Validate() != nil {
			return
		}

		replicas := strings.TrimSuffix(string(m.Resource), ".shared") + ".replicas=2"
		got := Recognise(newNode("m=1024 "+replicas+" "+string(m.Resource)+":1"), Mappings{m})
		check.Must(t, len(got.Cards) == 1, "the node offers %+v", got)
		check.Value(ParseName(string(got.Cards[0].Name)))(t)
	})
}
