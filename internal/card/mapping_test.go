package card

import (
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

// TestMappingsNameTheNodesOfOtherVendors: device plugins of these vendors write no label <type>.product. So an
// administrator maps the resource to a model, by name or by a label that the vendor writes. The nodes are files of
// testdata/nodes. All allocatable units of the resource become cards. amdByLabel reads label
// amd.com/gpu.product-name; intelFlex names Flex-170 on nodes with a certain label.
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

// TestAMappingDecidesAboutItsResourceAlone: an entry of spec.cards names the card of its resource on the nodes that
// it selects, in place of the labels <type>.product and <type>.memory. The labels still decide about other resources,
// but where they could mean either of two, an entry for one leaves the other unclear. A resource that neither names,
// or two entries name differently, is withheld: no new pod gets it. The labels h800 and npu name NVIDIA-H800 for
// nvidia.com and Ascend-910B for huawei.com. amdByLabel reads the model from label amd.com/gpu.product-name;
// mapPoolX(resource, model) is an entry for the nodes with label pool=x.
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
		"the node has no label of the entry": {
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
		"the node has no label of one entry, and another entry selects the node": {
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
		"the entry is for shares, and there is no label of the memory": {
			node:         "a.b/c.replicas=2 a.b/c.shared:16",
			mappings:     Mappings{share},
			wantReason:   InvalidLabel,
			wantWithheld: "a.b/c.shared",
			wantMessage:  `label mem="" is no memory size in MiB`,
		},
		"the entry is for shares, and there is no label of the replicas": {
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
		check.Equal(t, "anomalies", []Anomaly{{Reason: tc.wantReason, Resource: tc.wantWithheld}}, got.Anomalies,
			cmpopts.IgnoreFields(Anomaly{}, "Message"))
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

// TestAMappingReleasesNoCard: a resource that is no card is free for all tenants. So a resource that is a card of a
// node, or withheld as one, stays so when a random mapping is added. A network device never becomes a card unless a
// mapping names it.
func TestAMappingReleasesNoCard(t *testing.T) {
	// What stands here twice is drawn twice as often.
	offered := rapid.SampledFrom([]corev1.ResourceName{
		"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev",
		"huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend310P", "huawei.com/other", "huawei.com/rdma", "rdma/hca",
	})
	labelledType := rapid.SampledFrom([]string{"nvidia.com/gpu", "huawei.com/npu", "huawei.com/npu", "huawei.com/other"})

	seed.Check(t, func(t *rapid.T) {
		node := newNode("")
		for _, kind := range rapid.SliceOfN(labelledType, 0, 2).Draw(t, "labelled types") {
			node.Labels[kind+".product"] = "M"
			node.Labels[kind+".memory"] = "65536"
		}

		for _, name := range rapid.SliceOfN(offered, 2, 6).Draw(t, "offers") {
			node.Status.Allocatable[name] = resource.MustParse("8")
		}
		mapped := rapid.SampledFrom(slices.Sorted(maps.Keys(node.Status.Allocatable)))

		mappings := Mappings{}
		for range rapid.IntRange(1, 3).Draw(t, "mappings") {
			before := NewInventory(map[string]Node{"n": Recognise(node, mappings)}).Resources()
			mapping := Mapping{Resource: mapped.Draw(t, "mapped"), Model: "X", MemoryLabel: "nvidia.com/gpu.memory"}
			if rapid.IntRange(0, 3).Draw(t, "another node") == 0 {
				mapping.NodeSelector = map[string]string{"pool": "x"} // the node has no label pool
			}

			mappings = append(mappings, mapping)
			after := NewInventory(map[string]Node{"n": Recognise(node, mappings)})
			for _, name := range before {
				check.Must(t, after.IsCard(name), "%s was a card or withheld, and mapping %s released it", name, mapping.Resource)
			}

			for _, name := range after.Resources() {
				isDevice := strings.Contains(string(name), "rdma") || strings.Contains(string(name), "hostdev")
				check.Must(t, !isDevice || slices.Contains(mappings.Resources(), name), "the network device %s is a card", name)
			}
		}
	})
}

// drawNodeAndMappings draws a node that offers none, one or both of v.w/x and a.b/c, 2 each. It also draws up to four
// mappings of them: by a model or by label "model", and for all nodes or for those with a label "pool".
func drawNodeAndMappings(t *rapid.T) (*corev1.Node, Mappings) {
	values := rapid.SampledFrom([]string{"", "X", "Y"})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}

	for _, key := range []string{"model", "pool", "v.w/x.product"} {
		if value := values.Draw(t, key); value != "" {
			node.Labels[key] = value
		}
	}

	node.Labels["v.w/x.memory"] = "1"
	for _, name := range []corev1.ResourceName{"v.w/x", "a.b/c"} {
		if rapid.Bool().Draw(t, string(name)) {
			node.Status.Allocatable[name] = resource.MustParse("2")
		}
	}

	mappings := make(Mappings, rapid.IntRange(0, 4).Draw(t, "mappings"))
	for i := range mappings {
		mapping := Mapping{
			Resource: rapid.SampledFrom([]corev1.ResourceName{"v.w/x", "a.b/c"}).Draw(t, "resource"),
			Model:    values.Draw(t, "model"),
		}
		if mapping.Model == "" {
			mapping.ModelLabel = "model"
		}
		if pool := values.Draw(t, "selector"); pool != "" {
			mapping.NodeSelector = map[string]string{"pool": pool}
		}
		mappings[i] = mapping
	}

	return node, mappings
}

// modelsByDefinition returns the models that mappings give to a resource of such a node. Where none selects the node,
// its label v.w/x.product counts.
func modelsByDefinition(node *corev1.Node, mappings Mappings, name corev1.ResourceName) map[string]bool {
	models := map[string]bool{}
	isSelected := false
	for _, m := range mappings {
		if m.Resource != name || (m.NodeSelector != nil && m.NodeSelector["pool"] != node.Labels["pool"]) {
			continue
		}
		isSelected = true
		if model := m.Model + node.Labels[m.ModelLabel]; model != "" {
			models[model] = true
		}
	}

	if model := node.Labels["v.w/x.product"]; !isSelected && name == "v.w/x" && model != "" {
		models[model] = true
	}

	return models
}

// TestRecognitionWithMappingsFollowsItsDefinition: on random nodes with random mappings, a resource has a card name
// exactly if its mappings, or else its labels, give one model. Each mapped resource is a card in the inventory, and
// something withheld has a reason. The order of the mappings makes no difference.
func TestRecognitionWithMappingsFollowsItsDefinition(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		node, mappings := drawNodeAndMappings(t)

		got := Recognise(node, mappings)
		inventory := NewInventory(map[string]Node{"n": got})
		for name := range node.Status.Allocatable {
			models := modelsByDefinition(node, mappings, name)
			card, isNamed := inventory.CardOnNode("n", name)
			check.Equal(t, string(name)+" has a name", len(models) == 1, isNamed)
			check.Must(t, !isNamed || models[string(card)], "%s is %q, want %v", name, card, models)

			isMapped := slices.Contains(mappings.Resources(), name)
			check.Must(t, !isMapped || inventory.IsCard(name), "mapped %s is no card", name)
		}

		check.Must(t, len(got.Unnamed) == 0 || len(got.Anomalies) != 0, "withholds %v without a reason", got.Unnamed)
		check.Equal(t, "another order of the mappings", got, Recognise(node, mappings.Sorted()), cmpopts.IgnoreFields(Anomaly{}, "Message"))
	})
}

// TestMissingLabelsAreReadFromTheMessage: if a node has no label of a mapping, the message of the anomaly names that
// label. ParseMissingLabel reads it from the message, also inside a longer text, so that another message can name it.
// The message has no such label for a card without a mapping, or with a mapping by model.
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
