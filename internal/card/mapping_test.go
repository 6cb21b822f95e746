package card

import (
	"errors"
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

var (
	amdByLabel = Mapping{Resource: "amd.com/gpu", ModelLabel: "amd.com/gpu.product-name"}
	intelFlex  = Mapping{Resource: "gpu.intel.com/i915", Model: "Flex-170", NodeSelector: map[string]string{"gpu.intel.com/product": "Flex_170"}}
)

// TestMappingsNameTheNodesOfOtherVendors maps nodes of testdata/nodes whose labels name no card.
func TestMappingsNameTheNodesOfOtherVendors(t *testing.T) {
	for file, tc := range map[string]struct {
		mapping Mapping
		want    NodeCard
	}{
		"amd-mi300x":                       {amdByLabel, NodeCard{"AMD_Instinct_MI300X_OAM", "amd.com/gpu", 8}},
		"hygon-k100-ai":                    {Mapping{Resource: "hygon.com/dcu", ModelLabel: "hygon.com/dcu.name"}, NodeCard{"K100_AI", "hygon.com/dcu", 8}},
		"intel-flex-170":                   {intelFlex, NodeCard{"Flex-170", "gpu.intel.com/i915", 2}},
		"alibaba-ppu-zw810e-vendor-labels": {Mapping{Resource: "alibabacloud.com/ppu", ModelLabel: "aliyun.accelerator/ppu_name"}, NodeCard{"PPU-ZW810E", "alibabacloud.com/ppu", 16}},
		"huawei-ascend-910b-vendor-labels": {Mapping{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}, NodeCard{"Ascend-910B", "huawei.com/Ascend910", 8}},
	} {
		got := Recognise(fleetNode(t, file), Mappings{tc.mapping})
		tc.want.Count = got.Cards[0].Count
		check.Equal(t, file, Node{Model: tc.want.Name.Model(), Cards: []NodeCard{tc.want}}, got, cmpopts.EquateEmpty())

		check.That(t, tc.want.Count == NewCount(fleetNode(t, file).Status.Allocatable[tc.want.Resource]), "%s counts %d", file, tc.want.Count)
	}
}

func TestRecogniseWithMappings(t *testing.T) {
	share := Mapping{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "mem"}
	selected := func(resource corev1.ResourceName, model string) Mapping {
		return Mapping{Resource: resource, Model: model, NodeSelector: map[string]string{"pool": "x"}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		parts    string
		mappings Mappings
		cards    string // card=resource
		anomaly  Anomaly
		says     string
	}{
		"by label":                  {"amd.com/gpu.product-name=MI300X amd.com/gpu:8", Mappings{amdByLabel}, "MI300X=amd.com/gpu", Anomaly{}, ""},
		"no label":                  {"amd.com/gpu:8", Mappings{amdByLabel}, "", Anomaly{Reason: NoModelLabel, Resource: "amd.com/gpu"}, "offers amd.com/gpu but no label amd.com/gpu.product-name"},
		"an empty label":            {"amd.com/gpu.product-name= amd.com/gpu:8", Mappings{amdByLabel}, "", Anomaly{Reason: NoModelLabel, Resource: "amd.com/gpu"}, "but no label"},
		"no label, another mapping": {"pool=x amd.com/gpu:8", Mappings{amdByLabel, selected("amd.com/gpu", "MI210")}, "MI210=amd.com/gpu", Anomaly{}, ""},
		"two models":                {"pool=x amd.com/gpu.product-name=MI300X amd.com/gpu:8", Mappings{amdByLabel, selected("amd.com/gpu", "MI210")}, "", Anomaly{Reason: SeveralModels, Resource: "amd.com/gpu"}, "more than one card: MI210, MI300X"},
		"one model twice":           {"pool=x amd.com/gpu.product-name=MI210 amd.com/gpu:8", Mappings{amdByLabel, selected("amd.com/gpu", "MI210")}, "MI210=amd.com/gpu", Anomaly{}, ""},
		"another node":              {"pool=y v.w/x:8", Mappings{selected("v.w/x", "X")}, "", Anomaly{Reason: NoModelLabel, Resource: "v.w/x"}, "offers v.w/x but no label v.w/<type>.product with v.w/<type>.memory and no entry of spec.cards of the policy names its card on this node"},
		"another node with labels":  {"pool=y v.w/x.product=Y v.w/x.memory=1 v.w/x:8", Mappings{selected("v.w/x", "X")}, "Y=v.w/x", Anomaly{}, ""},
		"not offered":               {"pool=x v.w/y:8", Mappings{selected("v.w/x", "X")}, "", Anomaly{}, ""},
		"in place of its labels":    {h800 + "pool=x nvidia.com/gpu:8", Mappings{selected("nvidia.com/gpu", "X")}, "X=nvidia.com/gpu", Anomaly{}, ""},
		"slices beside a mapping":   {h800 + "pool=x nvidia.com/gpu:8 nvidia.com/mig-1g.10gb:7", Mappings{selected("nvidia.com/gpu", "X")}, "X=nvidia.com/gpu NVIDIA-H800/mig-1g.10gb-mixed=nvidia.com/mig-1g.10gb", Anomaly{}, ""},
		"a slice":                   {"pool=x nvidia.com/mig-1g.10gb:7", Mappings{selected("nvidia.com/mig-1g.10gb", "X")}, "X/mig-1g.10gb-mixed=nvidia.com/mig-1g.10gb", Anomaly{}, ""},
		"beside another vendor":     {h800 + "pool=x nvidia.com/gpu:8 amd.com/gpu:8", Mappings{selected("amd.com/gpu", "X")}, "X=amd.com/gpu NVIDIA-H800=nvidia.com/gpu", Anomaly{}, ""},
		"one of two vendors":        {h800 + npu + "pool=x nvidia.com/gpu:8 huawei.com/Ascend910:8", Mappings{selected("huawei.com/Ascend910", "X")}, "X=huawei.com/Ascend910 NVIDIA-H800=nvidia.com/gpu", Anomaly{}, ""},
		"the rest of a domain":      {npu + "pool=x huawei.com/Ascend910:8 huawei.com/rdma:1", Mappings{selected("huawei.com/Ascend910", "X")}, "X=huawei.com/Ascend910", Anomaly{}, ""},
		"the labels' other candidate": {npu + "pool=x huawei.com/Ascend910:8 huawei.com/Ascend310P:2", Mappings{selected("huawei.com/Ascend310P", "X")}, "X=huawei.com/Ascend310P",
			Anomaly{Reason: NoModelLabel, Resource: "huawei.com/Ascend910"}, "no entry of spec.cards of the policy names its card on this node"},
		"both candidates": {npu + "pool=x huawei.com/Ascend910:8 huawei.com/Ascend310P:2", Mappings{selected("huawei.com/Ascend310P", "X"), selected("huawei.com/Ascend910", "Y")},
			"X=huawei.com/Ascend310P Y=huawei.com/Ascend910", Anomaly{}, ""},
		"a share":                  {"mem=81559 a.b/c.replicas=2 a.b/c.shared:16", Mappings{share}, "X/mps-80g*1/2=a.b/c.shared", Anomaly{}, ""},
		"a share without memory":   {"a.b/c.replicas=2 a.b/c.shared:16", Mappings{share}, "", Anomaly{Reason: InvalidLabel, Resource: "a.b/c.shared"}, `label mem="" is no memory size in MiB`},
		"a share without replicas": {"mem=81559 a.b/c.shared:16", Mappings{share}, "", Anomaly{Reason: InvalidLabel, Resource: "a.b/c.shared"}, "has no label a.b/c.replicas"},
	}) {
		got := Recognise(node(strings.Split(tc.parts, " ")...), tc.mappings)
		var cards []string
		for _, held := range got.Cards {
			cards = append(cards, fmt.Sprintf("%s=%s", held.Name, held.Resource))
		}

		check.Equal(t, "cards", tc.cards, strings.Join(cards, " "))
		var want []Anomaly
		if tc.anomaly.Reason != "" {
			want = []Anomaly{tc.anomaly}
			check.Equal(t, "withheld", resources(tc.anomaly.Resource), got.Unnamed)
		}

		check.Equal(t, "anomalies", want, got.Anomalies, cmpopts.IgnoreFields(Anomaly{}, "Message"), cmpopts.EquateEmpty())
		check.Contains(t, "the node says", joinMessages(got.Anomalies), tc.says)
	}
}

// TestMappingsNameOneOfSeveralCandidates: the labels name the model, and no resource of it alone.
func TestMappingsNameOneOfSeveralCandidates(t *testing.T) {
	got := Recognise(fleetNode(t, "huawei-ascend-910b-vnpu"), Mappings{{Resource: "huawei.com/Ascend910", ModelLabel: "huawei.com/npu.product"}})
	check.Equal(t, "cards", []NodeCard{{"Ascend-910B", "huawei.com/Ascend910", 6}}, got.Cards)
	check.Equal(t, "withheld", resources("huawei.com/Ascend910-5c.1cpu.8g", "huawei.com/Ascend910B4"), got.Unnamed)
}

// TestAMappingReleasesNoCard: a resource that is a card of a node or withheld as one stays that,
// whatever else is mapped. Network devices are no cards, with or without mappings.
func TestAMappingReleasesNoCard(t *testing.T) {
	offered := rapid.SampledFrom([]corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev",
		"huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/Ascend310P", "huawei.com/other", "huawei.com/rdma", "rdma/hca"})

	seed.Check(t, func(t *rapid.T) {
		n := node()
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"nvidia.com/gpu", "huawei.com/npu", "huawei.com/npu", "huawei.com/other"}), 0, 2).Draw(t, "labelled") {
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

// drawMapped returns a node that offers two resources, and mappings of them.
func drawMapped(t *rapid.T) (*corev1.Node, Mappings) {
	values := rapid.SampledFrom([]string{"", "X", "Y"})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
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

// nameByHand names one resource of such a node in the plainest way.
func nameByHand(n *corev1.Node, mappings Mappings, name corev1.ResourceName) (models map[string]bool, selected bool) {
	models = map[string]bool{}
	for _, m := range mappings {
		if m.Resource != name || (m.NodeSelector != nil && m.NodeSelector["pool"] != n.Labels["pool"]) {
			continue
		}
		selected = true
		if model := m.Model + n.Labels[m.ModelLabel]; model != "" {
			models[model] = true
		}
	}

	if model := n.Labels["v.w/x.product"]; !selected && name == "v.w/x" && model != "" {
		models[model] = true
	}

	return models, selected
}

func TestMappedRecognitionIsAPlainOne(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n, mappings := drawMapped(t)
		got := Recognise(n, mappings)
		inventory := NewInventory(map[string]Node{"n": got})
		for name := range n.Status.Allocatable {
			models, _ := nameByHand(n, mappings, name)
			card, named := inventory.CardOnNode("n", name)
			check.Must(t, named == (len(models) == 1) && (!named || models[string(card)]), "%s is %q, want %v", name, card, models)

			isMapped := false
			for _, m := range mappings {
				isMapped = isMapped || m.Resource == name
			}
			check.Must(t, !isMapped || inventory.IsCard(name), "mapped %s is no card", name)
		}

		check.Must(t, len(got.Unnamed) == 0 || len(got.Anomalies) != 0, "withholds %v and does not say why", got.Unnamed)
		check.Equal(t, "another order of the mappings", got, Recognise(n, mappings.Sorted()), cmpopts.IgnoreFields(Anomaly{}, "Message"))
	})
}

// TestTrackerFollowsMappings: whatever was mapped before, a Tracker says what one says that sees
// the nodes and mappings for the first time. A resource of a removed mapping is no card any more.
func TestTrackerFollowsMappings(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var tracker Tracker
		nodes := map[string]*corev1.Node{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			n, mappings := drawMapped(t)
			nodes[n.Name] = n
			if rapid.Bool().Draw(t, "the node changes first") {
				tracker.Update(n)
			}

			before := tracker.Inventory()
			changed := tracker.SetMappings(mappings)
			check.Must(t, changed || before == tracker.Inventory(), "something changed without a notice")
			check.That(t, !tracker.SetMappings(mappings), "the same mappings are news")

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

func TestAWrongMappingCanBeTakenBack(t *testing.T) {
	var tracker Tracker
	tracker.AddResources("huawei.com/Ascend910")
	tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.Status.Allocatable["rdma/hca"] = resource.MustParse("1") }))
	tracker.SetMappings(Mappings{{Resource: "rdma/hca", Model: "X"}, {Resource: "nvidia.com/gpu", Model: "Y"}})
	check.Equal(t, "resources", resources("huawei.com/Ascend910", "nvidia.com/gpu", "rdma/hca"), tracker.Inventory().Resources())
	tracker.SetMappings(nil)
	check.Equal(t, "resources without mappings", resources("huawei.com/Ascend910", "nvidia.com/gpu"), tracker.Inventory().Resources())
	check.Equal(t, "cards", map[Name]Count{"H200": 8}, tracker.Inventory().Physical())
}

// TestWithoutItsMappingACardIsWithheldAsBefore: labels that begin with the name of a resource make it
// a card that no pod gets.
func TestWithoutItsMappingACardIsWithheldAsBefore(t *testing.T) {
	n := node("amd.com/gpu.product-name=MI210", "amd.com/gpu:8")
	before := Recognise(n, nil)
	check.Equal(t, "withheld", resources("amd.com/gpu"), before.Unnamed)
	var tracker Tracker
	tracker.Update(n)
	tracker.SetMappings(Mappings{amdByLabel})
	check.Equal(t, "cards", map[Name]Count{"MI210": 8}, tracker.Inventory().Physical())
	tracker.SetMappings(nil)
	check.Equal(t, "without the entry", before, tracker.Nodes()[0].Node)
	check.That(t, tracker.Inventory().IsCard("amd.com/gpu"), "the resource is no card")
}

// TestAMappingForgetsNoCard: what labels made a card stays one when a mapping of it comes and goes,
// even without nodes. What only a mapping made a card does not outlive the mapping.
func TestAMappingForgetsNoCard(t *testing.T) {
	var tracker Tracker
	tracker.Update(trackedGPUs("a", "H200", "8"))
	tracker.Delete("a")
	tracker.SetMappings(Mappings{{Resource: "nvidia.com/gpu", Model: "Y"}, {Resource: "v.w/x", Model: "X"}})
	check.Equal(t, "resources", resources("nvidia.com/gpu", "v.w/x"), tracker.Inventory().Resources())
	check.Equal(t, "lasting", resources("nvidia.com/gpu"), tracker.Inventory().LastingResources())

	tracker.SetMappings(nil)
	check.Equal(t, "resources without mappings", resources("nvidia.com/gpu"), tracker.Inventory().Resources())

	var mapped Tracker
	mapped.SetMappings(Mappings{{Resource: "nvidia.com/gpu", Model: "H200"}})
	mapped.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) {
		n.Labels = nil
		n.Status.Allocatable = nil
	}))

	check.Equal(t, "lasting before the labels", 0, len(mapped.Inventory().LastingResources()))
	check.That(t, mapped.Update(trackedGPUs("a", "H200", "8")), "labels that make a lasting card are no news")
	mapped.Delete("a")
	check.Equal(t, "lasting after the labels", resources("nvidia.com/gpu"), mapped.Inventory().LastingResources())
}

// TestWhatANodeWithholdsBesideAMappingStaysACard: a mapping replaces the only label of a model, so
// that the node withholds NVIDIA's cards as well. They stay cards when the node goes. A mapping of
// them for other nodes makes them no lasting cards.
func TestWhatANodeWithholdsBesideAMappingStaysACard(t *testing.T) {
	n := node(strings.Fields(npu + "huawei.com/Ascend910:8 nvidia.com/gpu:8")...)
	ascend := Mapping{Resource: "huawei.com/Ascend910", Model: "Ascend-910B"}
	elsewhere := Mapping{Resource: "nvidia.com/gpu", Model: "H200", NodeSelector: map[string]string{"pool": "x"}}
	for t, tc := range check.Cases(t, map[string]struct {
		mappings             Mappings
		withheld, afterwards []corev1.ResourceName
	}{
		"no mapping":                {nil, nil, resources("huawei.com/Ascend910")},
		"a mapping of the other":    {Mappings{ascend}, resources("nvidia.com/gpu"), resources("huawei.com/Ascend910", "nvidia.com/gpu")},
		"a mapping for other nodes": {Mappings{ascend, elsewhere}, resources("nvidia.com/gpu"), resources("huawei.com/Ascend910")},
	}) {
		var tracker Tracker
		tracker.SetMappings(tc.mappings)
		tracker.Update(n)
		check.Equal(t, "withheld", tc.withheld, tracker.Nodes()[0].Unnamed)

		before := tracker.Inventory().Resources()
		tracker.Delete(n.Name)
		check.Equal(t, "cards without the node", before, tracker.Inventory().Resources())
		check.Equal(t, "lasting", tc.afterwards, tracker.Inventory().LastingResources())
		tracker.SetMappings(nil)
		check.Equal(t, "cards without mappings", tc.afterwards, tracker.Inventory().Resources())
	}
}

func TestMissingLabelsAreReadAsTheyWereWritten(t *testing.T) {
	for message, want := range map[string]string{
		joinMessages(Recognise(node("amd.com/gpu:8"), Mappings{amdByLabel}).Anomalies):                                                                       "amd.com/gpu.product-name",
		"node a: " + joinMessages(Recognise(node("amd.com/gpu:8"), Mappings{amdByLabel}).Anomalies) + "; add it":                                             "amd.com/gpu.product-name",
		joinMessages(Recognise(node("nvidia.com/gpu:8"), nil).Anomalies):                                                                                     "",
		joinMessages(Recognise(node("amd.com/gpu:8"), Mappings{{Resource: "amd.com/gpu", Model: "X", NodeSelector: map[string]string{"a": "b"}}}).Anomalies): "",
		"": "",
	} {
		label, ok := ParseMissingLabel(message)
		check.That(t, label == want && ok == (want != ""), "%q misses %q", message, label)
	}
}

func TestMistakesOfMappings(t *testing.T) {
	selector := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}

	for t, tc := range check.Cases(t, map[string]struct {
		mappings Mappings
		wants    []string
	}{
		"valid": {Mappings{amdByLabel, intelFlex, {Resource: "amd.com/gpu", Model: "MI210", NodeSelector: map[string]string{"pool": ""}},
			{Resource: "a.b/c.shared", Model: "X", MemoryLabel: "a.b/c.memory"}, {Resource: "nvidia.com/mig-1g.18gb", Model: "X"}}, nil},
		"no model":              {Mappings{{Resource: "amd.com/gpu"}}, []string{"entry 1: names no card: write modelLabel"}},
		"two ways":              {Mappings{amdByLabel, {Resource: "a.b/c", Model: "X", ModelLabel: "l"}}, []string{"entry 2: has modelLabel and model: keep one"}},
		"CPU":                   {Mappings{{Resource: "cpu", Model: "X"}}, []string{`entry 1, resource: "cpu" is no card`, "for example amd.com/gpu"}},
		"memory":                {Mappings{{Resource: "memory", Model: "X"}}, []string{`"memory" is no card`}},
		"huge pages":            {Mappings{{Resource: "hugepages-2Mi", Model: "X"}}, []string{`is no card`}},
		"of Kubernetes":         {Mappings{{Resource: "scheduling.kubernetes.io/x", Model: "X"}}, []string{`is no card`}},
		"nothing":               {Mappings{{Model: "X"}}, []string{`"" is no card`}},
		"no name of a resource": {Mappings{{Resource: "a.b/c d", Model: "X"}}, []string{"is no name of a resource"}},
		"a model with a space":  {Mappings{{Resource: "a.b/c", Model: "Instinct MI300X"}}, []string{"entry 1, model:", "makes no card name"}},
		"a slice as model":      {Mappings{{Resource: "a.b/c", Model: "X/mig-1g.18gb-mixed"}}, []string{"makes no card name"}},
		"a profile in capitals": {Mappings{{Resource: "nvidia.com/mig-1G.10GB", Model: "X"}}, []string{"entry 1, model:", "after the model write"}},
		"a label":               {Mappings{{Resource: "a.b/c", ModelLabel: "a/b/c"}}, []string{"entry 1, modelLabel:", "is no key of a label"}},
		"memory of whole cards": {Mappings{{Resource: "a.b/c", Model: "X", MemoryLabel: "m"}}, []string{"entry 1, memoryLabel: has no effect"}},
		"a share":               {Mappings{{Resource: "a.b/c.shared", Model: "X"}}, []string{"entry 1, memoryLabel: is missing"}},
		"a memory label":        {Mappings{{Resource: "a.b/c.shared", Model: "X", MemoryLabel: " "}}, []string{"memoryLabel:", "is no key of a label"}},
		"a selector":            {Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a b": "c"}}}, []string{"nodeSelector:", "is no key of a label"}},
		"a value":               {Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: map[string]string{"a": "b c"}}}, []string{"is no value of a label"}},
		"many labels":           {Mappings{{Resource: "a.b/c", Model: "X", NodeSelector: selector(17)}}, []string{"17 labels, at most 16"}},
		"twice":                 {Mappings{amdByLabel, {Resource: "amd.com/gpu", Model: "X"}}, []string{"entry 2: has the resource and the nodeSelector of another entry"}},
		"many":                  {make(Mappings, 65), []string{"65 entries, at most 64"}},
	}) {
		err := tc.mappings.Validate()
		if len(tc.wants) == 0 {
			check.NoError(t, err)
			continue
		}

		check.Refused(t, err, tc.wants...)
		var mistake *MappingError
		check.That(t, errors.As(error(tc.mappings.Mistakes()[0]), &mistake), "no mistake")
	}
}

// TestNoValidMappingMakesAnInvalidName: the name of a card must fit into a quota.
func TestNoValidMappingMakesAnInvalidName(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		m := Mapping{
			Resource: corev1.ResourceName(rapid.SampledFrom([]string{"a.b/c", "nvidia.com/mig-1g", "a.b/c.shared", "nvidia.com/mig-"}).Draw(t, "resource") +
				rapid.StringMatching(`[a-zA-Z0-9_.-]{0,5}`).Draw(t, "rest")),
			Model: rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_./-]{0,66}`), rapid.String()).Draw(t, "model"), MemoryLabel: "m",
		}
		if !m.isShare() {
			m.MemoryLabel = ""
		}

		if (Mappings{m}).Validate() != nil {
			return
		}

		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"m": "1024", strings.TrimSuffix(string(m.Resource), ".shared") + ".replicas": "2"}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{m.Resource: resource.MustParse("1")}}}
		got := Recognise(n, Mappings{m})
		check.Must(t, len(got.Cards) == 1, "the node offers %+v", got)

		check.Value(ParseName(string(got.Cards[0].Name)))(t)
	})
}
