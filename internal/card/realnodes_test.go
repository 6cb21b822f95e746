package card

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// realNodes reads testdata/realnodes.yaml.
func realNodes(t *testing.T) []*corev1.Node {
	text := check.Value(os.ReadFile("testdata/realnodes.yaml"))(t)

	var entries []struct {
		Name                  string
		Labels                map[string]string
		Allocatable, Capacity corev1.ResourceList
	}
	check.NoError(t, yaml.UnmarshalStrict(text, &entries))

	var nodes []*corev1.Node
	for _, entry := range entries {
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: entry.Name, Labels: entry.Labels},
			Status:     corev1.NodeStatus{Allocatable: entry.Allocatable, Capacity: entry.Capacity},
		})
	}

	return nodes
}

// TestRealNodesAreRecognised: the configurations of NVIDIA's software on two real cards.
func TestRealNodesAreRecognised(t *testing.T) {
	const (
		gpu    = "nvidia.com/gpu"
		shared = "nvidia.com/gpu.shared"
	)

	want := map[string]Node{}
	strategies := map[string]string{}
	for short, model := range map[string]struct{ name, memory string }{"h100": {"NVIDIA-H100-80GB-HBM3", "80g"}, "h200": {"NVIDIA-H200", "140g"}} {
		share := func(replicas string) Name { return Name(model.name + "/mps-" + model.memory + "*1/" + replicas) }
		for _, configuration := range []string{"no-sharing", "mig-none", "mig-single", "mig-mixed"} {
			want[short+"-"+configuration] = one(model.name, gpu, 1)
		}

		want[short+"-time-slicing-4"] = one(model.name+"-SHARED", gpu, 4)
		want[short+"-time-slicing-4-renamed"] = Node{Model: model.name, Cards: []NodeCard{{share("4"), shared, 4}}}
		want[short+"-mps-2"] = one(model.name+"-SHARED", gpu, 2)
		want[short+"-mps-2-renamed"] = Node{Model: model.name, Cards: []NodeCard{{share("2"), shared, 2}}}

		for _, configuration := range []string{"time-slicing-4", "time-slicing-4-renamed"} {
			strategies[short+"-"+configuration] = "time-slicing"
		}
		for _, configuration := range []string{"mps-2", "mps-2-renamed"} {
			strategies[short+"-"+configuration] = "mps"
		}

		registered := "apiserver-" + short + "-"
		want[registered+"whole"] = one(model.name, gpu, 1)
		want[registered+"plugin-down"] = one(model.name, gpu, 0)
		want[registered+"time-slicing"] = one(model.name+"-SHARED", gpu, 4)
		want[registered+"time-slicing-renamed"] = Node{Model: model.name, Cards: []NodeCard{{Name(model.name), gpu, 0}, {share("4"), shared, 4}}}
		want[registered+"whole-before-labels"] = Node{Unnamed: []corev1.ResourceName{gpu}, Anomalies: []Anomaly{{NoModelLabel, gpu,
			"offers nvidia.com/gpu but no label nvidia.com/<type>.product with nvidia.com/<type>.memory names the card"}}}

		strategies[registered+"time-slicing"] = "time-slicing"
		strategies[registered+"time-slicing-renamed"] = "time-slicing"
	}

	nodes := realNodes(t)
	check.Equal(t, "nodes", len(want), len(nodes))
	for _, n := range nodes {
		mustBeReal(t, n)
		expected, isKnown := want[n.Name]
		check.That(t, isKnown, "%s has no expectation", n.Name)
		got := Recognise(n, nil)
		check.Equal(t, n.Name, expected, got, cmpopts.EquateEmpty())

		strategy := ""
		for _, held := range got.Cards {
			check.Value(ParseName(string(held.Name)))(t)
			strategy += SharingStrategy(n, held)
		}

		check.Equal(t, n.Name+": sharing", strategies[n.Name], strategy)
	}
}

// TestAMissingMemoryLabelIsNamed: the model is there, and "correct the name" would help nothing.
func TestAMissingMemoryLabelIsNamed(t *testing.T) {
	const gb10 = "nvidia.com/gpu.product=NVIDIA-GB10 "
	elsewhere := Mappings{{Resource: "nvidia.com/gpu", Model: "X", NodeSelector: map[string]string{"pool": "x"}}, {Resource: "a.b/card", Model: "Y", NodeSelector: map[string]string{"pool": "x"}}}
	for t, tc := range check.Cases(t, map[string]struct {
		parts    string
		mappings Mappings
		says     string
	}{
		"whole cards": {gb10 + "nvidia.com/gpu:1", nil, "offers nvidia.com/gpu but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10 names the card"},
		"shares":      {gb10 + "nvidia.com/gpu.shared:4", nil, "offers nvidia.com/gpu.shared but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10"},
		"slices":      {gb10 + "nvidia.com/mig-1g.10gb:7", nil, "offers nvidia.com/mig-1g.10gb but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10"},
		"mapped for other nodes": {gb10 + "nvidia.com/gpu:1", elsewhere,
			"no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10 names the card"},
		"another vendor":              {"a.b/card.product=Z a.b/card:1", nil, "no label a.b/card.memory beside a.b/card.product=Z names"},
		"a resource of another name":  {"a.b/ai.product=Z a.b/card:1", elsewhere, "no label a.b/ai.memory beside a.b/ai.product=Z and no entry of spec.cards"},
		"a memory of 0 is a memory":   {"nvidia.com/gpu.memory=0 nvidia.com/gpu:1", nil, "no label nvidia.com/<type>.product with nvidia.com/<type>.memory"},
		"the product of slices alone": {"nvidia.com/mig-1g.10gb.product=Z nvidia.com/mig-1g.10gb:7", nil, "no label nvidia.com/<type>.product with nvidia.com/<type>.memory"},
		"another vendor's product":    {gb10 + "a.b/card.family=Z a.b/card:1", nil, "offers a.b/card but no label a.b/<type>.product with a.b/<type>.memory"},
	}) {
		check.Contains(t, "the node says", joinMessages(Recognise(node(strings.Fields(tc.parts)...), tc.mappings).Anomalies), tc.says)
	}

	held := Recognise(node(strings.Fields("nvidia.com/gpu.product=NVIDIA-GB10 nvidia.com/gpu.memory=0 nvidia.com/gpu:1")...), nil).Cards
	check.Equal(t, "a memory of 0", []NodeCard{{"NVIDIA-GB10", "nvidia.com/gpu", 1}}, held)
	one := Mappings{{Resource: "nvidia.com/gpu", ModelLabel: "nvidia.com/gpu.product"}}
	held = Recognise(node(strings.Fields(gb10+"nvidia.com/gpu:1")...), one).Cards
	check.Equal(t, "one entry of spec.cards", []NodeCard{{"NVIDIA-GB10", "nvidia.com/gpu", 1}}, held)
}
