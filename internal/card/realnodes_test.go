package card

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cardquota.dev/operator/internal/testing/check"
)

// readRealNodes reads testdata/realnodes.yaml.
func readRealNodes(t *testing.T) []*corev1.Node {
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

// TestRealNodesAreRecognised: testdata/realnodes.yaml has nodes with one real card, an H100 or an H200, as NVIDIA's
// software labels them in each of its configurations. With a MIG strategy, single or mixed, the card is not cut into
// slices yet, so it is whole. Parts of a card never count as whole cards: 4 or 2 shares of the card get -SHARED
// behind the model. If the software renames their resource to gpu.shared, they get a name with the memory of the card
// and their number. SharingStrategy says how shares are made. MODEL, MEMORY and CARD below stand for those of both
// cards. Nodes apiserver-… are as a kubelet registered them; the others were put together from the software's
// answers.
func TestRealNodesAreRecognised(t *testing.T) {
	type expectation struct{ cards, sharing string } // cards as describeCards writes them

	configurations := map[string]expectation{
		"CARD-no-sharing":                     {"MODEL=nvidia.com/gpu:1", ""},
		"CARD-mig-none":                       {"MODEL=nvidia.com/gpu:1", ""},
		"CARD-mig-single":                     {"MODEL=nvidia.com/gpu:1", ""},
		"CARD-mig-mixed":                      {"MODEL=nvidia.com/gpu:1", ""},
		"CARD-time-slicing-4":                 {"MODEL-SHARED=nvidia.com/gpu:4", "time-slicing"},
		"CARD-time-slicing-4-renamed":         {"MODEL/mps-MEMORY*1/4=nvidia.com/gpu.shared:4", "time-slicing"},
		"CARD-mps-2":                          {"MODEL-SHARED=nvidia.com/gpu:2", "mps"},
		"CARD-mps-2-renamed":                  {"MODEL/mps-MEMORY*1/2=nvidia.com/gpu.shared:2", "mps"},
		"apiserver-CARD-whole":                {"MODEL=nvidia.com/gpu:1", ""},
		"apiserver-CARD-plugin-down":          {"MODEL=nvidia.com/gpu:0", ""},
		"apiserver-CARD-time-slicing":         {"MODEL-SHARED=nvidia.com/gpu:4", "time-slicing"},
		"apiserver-CARD-time-slicing-renamed": {"MODEL=nvidia.com/gpu:0 MODEL/mps-MEMORY*1/4=nvidia.com/gpu.shared:4", "time-slicing"},
		"apiserver-CARD-whole-before-labels":  {"", ""}, // no label names the card, so it is withheld
	}

	wants := map[string]expectation{}
	for configuration, want := range configurations {
		for _, names := range []*strings.Replacer{
			strings.NewReplacer("CARD", "h100", "MODEL", "NVIDIA-H100-80GB-HBM3", "MEMORY", "80g"),
			strings.NewReplacer("CARD", "h200", "MODEL", "NVIDIA-H200", "MEMORY", "140g"),
		} {
			wants[names.Replace(configuration)] = expectation{names.Replace(want.cards), want.sharing}
		}
	}

	nodes := readRealNodes(t)
	check.Equal(t, "number of nodes", len(wants), len(nodes))
	for _, node := range nodes {
		expectValidKeysAndValues(t, node)
		want, isKnown := wants[node.Name]
		check.Must(t, isKnown, "%s has no expectation", node.Name)

		got := Recognise(node, nil)
		check.Equal(t, node.Name+": cards", want.cards, describeCards(got.Cards))
		sharing := ""
		for _, offered := range got.Cards {
			check.Equal(t, node.Name+": model", offered.Name.Model(), got.Model)
			check.Value(ParseName(string(offered.Name)))(t)
			sharing += SharingStrategy(node, offered)
		}
		check.Equal(t, node.Name+": sharing", want.sharing, sharing)

		if want.cards == "" {
			check.Equal(t, node.Name+": withheld", resources("nvidia.com/gpu"), got.Unnamed)
			check.Equal(t, node.Name+": anomalies", []Anomaly{{NoModelLabel, "nvidia.com/gpu",
				"offers nvidia.com/gpu but no label nvidia.com/<type>.product with nvidia.com/<type>.memory names the card"}}, got.Anomalies)
			continue
		}
		check.Equal(t, node.Name+": withheld or wrong", 0, len(got.Unnamed)+len(got.Withheld)+len(got.Anomalies))
	}
}

// TestAMissingMemoryLabelIsNamed: a label <type>.product names a model only beside <type>.memory, and feature
// discovery writes no memory for NVIDIA-GB10. So the message names the one label that is missing, beside the product.
// Without a product of the whole card it asks for both labels. If nothing but an entry of spec.cards for other nodes
// makes the resource a card, the message says so, too.
func TestAMissingMemoryLabelIsNamed(t *testing.T) {
	const gb10 = "nvidia.com/gpu.product=NVIDIA-GB10 "
	elsewhere := Mappings{mapPoolX("nvidia.com/gpu", "X"), mapPoolX("a.b/card", "Y")} // the nodes below lack label pool=x

	for t, tc := range check.Cases(t, map[string]struct {
		node     string
		mappings Mappings
		want     string
	}{
		"whole cards": {
			node: gb10 + "nvidia.com/gpu:1",
			want: "offers nvidia.com/gpu but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10 names the card",
		},
		"shares": {
			node: gb10 + "nvidia.com/gpu.shared:4",
			want: "offers nvidia.com/gpu.shared but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10",
		},
		"slices": {
			node: gb10 + "nvidia.com/mig-1g.10gb:7",
			want: "offers nvidia.com/mig-1g.10gb but no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10",
		},
		"whole cards that are mapped on other nodes": {
			node:     gb10 + "nvidia.com/gpu:1", // a card by its name, too
			mappings: elsewhere,
			want:     "no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10 names the card",
		},
		"cards of another vendor": {
			node: "a.b/card.product=Z a.b/card:1",
			want: "no label a.b/card.memory beside a.b/card.product=Z names",
		},
		"a resource with another name than the product, mapped on other nodes": {
			node:     "a.b/ai.product=Z a.b/card:1",
			mappings: elsewhere,
			want:     "no label a.b/ai.memory beside a.b/ai.product=Z and no entry of spec.cards",
		},
		"the memory is there, and the product is missing": {
			node: "nvidia.com/gpu.memory=0 nvidia.com/gpu:1",
			want: "no label nvidia.com/<type>.product with nvidia.com/<type>.memory",
		},
		"only slices have a product": {
			node: "nvidia.com/mig-1g.10gb.product=Z nvidia.com/mig-1g.10gb:7",
			want: "no label nvidia.com/<type>.product with nvidia.com/<type>.memory",
		},
		"only another vendor has a product": {
			node: gb10 + "a.b/card.family=Z a.b/card:1", // any label with its name makes a resource a card
			want: "offers a.b/card but no label a.b/<type>.product with a.b/<type>.memory",
		},
	}) {
		check.Contains(t, "message", joinMessages(Recognise(newNode(tc.node), tc.mappings).Anomalies), tc.want)
	}
}

// TestACardWithoutMemoryGetsItsNameOtherwise: feature discovery writes no label of the memory for NVIDIA-GB10. The
// card gets its name from a label of 0 MiB, which an administrator writes, or from an entry of spec.cards.
func TestACardWithoutMemoryGetsItsNameOtherwise(t *testing.T) {
	const gb10 = "nvidia.com/gpu.product=NVIDIA-GB10 nvidia.com/gpu:1 "
	byProduct := Mappings{{Resource: "nvidia.com/gpu", ModelLabel: "nvidia.com/gpu.product"}}

	check.Equal(t, "a label of 0 MiB", "NVIDIA-GB10=nvidia.com/gpu:1",
		describeCards(Recognise(newNode(gb10+"nvidia.com/gpu.memory=0"), nil).Cards))
	check.Equal(t, "an entry of spec.cards", "NVIDIA-GB10=nvidia.com/gpu:1", describeCards(Recognise(newNode(gb10), byProduct).Cards))
}
