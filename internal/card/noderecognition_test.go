package card

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/internal/testing/check"
)

// newNode builds a node from a text of labels "key=value" and allocatable resources "resource:count". It also has
// CPU, pods and a network device, rdma/hca.
func newNode(text string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	node.Status.Allocatable = corev1.ResourceList{
		"cpu":      resource.MustParse("64"),
		"pods":     resource.MustParse("110"),
		"rdma/hca": resource.MustParse("8"),
	}

	for _, part := range strings.Fields(text) {
		if key, value, ok := strings.Cut(part, "="); ok {
			node.Labels[key] = value
		} else if name, count, ok := strings.Cut(part, ":"); ok {
			node.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(count)
		}
	}
	return node
}

// Labels of nodes in the form that newNode reads.
const (
	h200 = "nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.memory=143771 "
	h800 = "nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/gpu.memory=81559 "
	npu  = "huawei.com/npu.product=Ascend-910B huawei.com/npu.memory=65536 "
)

// wrongNode is a node on which something is wrong. It has the resources that are withheld, separated by spaces, and a
// part of the message that says why.
type wrongNode struct{ node, wantWithheld, wantMessage string }

// TestRecogniseReportsWhatIsWrongWithANode: a card has a name if exactly one label <type>.product beside
// <type>.memory names it, and the numbers of its shares are valid. Otherwise the resource that the mistake is about
// is withheld from new pods, never guessed, and the message says why. It fits an event, and lists models in the order
// of their labels. The labels h800 and npu name NVIDIA-H800 for nvidia.com and Ascend-910B for huawei.com. Each row
// has the node, what it withholds, and a part of the message.
func TestRecogniseReportsWhatIsWrongWithANode(t *testing.T) {
	const (
		gpu           = "nvidia.com/gpu"
		shared        = "nvidia.com/gpu.shared"
		noLabel       = " but no label"
		severalModels = "names more than one card model"
	)

	nodes := map[string]wrongNode{
		"only another type of card has replicas": {
			h800 + "nvidia.com/vgpu.replicas=2 nvidia.com/gpu.shared:16",
			shared,
			"has no label nvidia.com/gpu.replicas",
		},

		"no label names the cards and shares": {"nvidia.com/gpu:8 nvidia.com/gpu.shared:2", gpu + " " + shared, "offers nvidia.com/gpu" + noLabel},
		"there is no label of the product":    {"nvidia.com/gpu.memory=81559 nvidia.com/gpu:8", gpu, "offers nvidia.com/gpu" + noLabel},
		"the label of the product is empty": {
			"nvidia.com/gpu.product= nvidia.com/gpu.memory=81559 nvidia.com/gpu:8",
			gpu,
			"offers nvidia.com/gpu" + noLabel,
		},
		"the label is Product with a capital": {"nvidia.com/gpu.Product=NVIDIA-H800 nvidia.com/gpu.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"the labels are without the vendor":   {"gpu.product=NVIDIA-H800 gpu.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"the labels are without the type":     {"nvidia.com/product=NVIDIA-H800 nvidia.com/memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"product and memory have two types":   {"nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/card.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"no label names the model of slices":  {"nvidia.com/mig-1g.18gb:3", "nvidia.com/mig-1g.18gb", "offers nvidia.com/mig-1g.18gb" + noLabel},
		"only the slices have a label of product": {
			"nvidia.com/mig-1g.10gb.product=NVIDIA-H800-MIG-1g.10gb nvidia.com/mig-1g.10gb.memory=9856 nvidia.com/mig-1g.10gb:7",
			"nvidia.com/mig-1g.10gb",
			"offers nvidia.com/mig-1g.10gb" + noLabel,
		},

		"two types of one vendor name two models": {
			h800 + "nvidia.com/card.product=NVIDIA-H200 nvidia.com/card.memory=143771 nvidia.com/gpu:8",
			gpu,
			severalModels + ": NVIDIA-H200, NVIDIA-H800",
		},
		"two types of one vendor name the same model": {
			h800 + "nvidia.com/card.product=NVIDIA-H800 nvidia.com/card.memory=81559 nvidia.com/gpu:8",
			gpu,
			severalModels + ": NVIDIA-H800, NVIDIA-H800",
		},
		"labels of three vendors name three models": {
			h800 + npu + "amd.com/gpu.product=MI300X amd.com/gpu.memory=196608 nvidia.com/gpu:1 amd.com/gpu:1 huawei.com/Ascend910:1",
			"amd.com/gpu huawei.com/Ascend910 nvidia.com/gpu",
			"MI300X, Ascend-910B, NVIDIA-H800",
		},
		"labels name two models, the node has slices": {
			h800 + npu + "nvidia.com/gpu:1 nvidia.com/mig-1g.10gb:7",
			"nvidia.com/gpu nvidia.com/mig-1g.10gb",
			severalModels,
		},
		"one model could be either of two resources, of which one has 0": {
			npu + "huawei.com/Ascend910:8 huawei.com/Ascend310:0",
			"huawei.com/Ascend310 huawei.com/Ascend910",
			"could be any of the resources",
		},
		"slices beside the label of another vendor": {
			npu + "nvidia.com/mig-1g.18gb:3",
			"nvidia.com/mig-1g.18gb",
			"its model label is of huawei.com, not nvidia.com/<type>.product with nvidia.com/<type>.memory",
		},
		"a MIG profile in capitals": {
			h800 + "nvidia.com/mig-1G.10GB:7",
			"nvidia.com/mig-1G.10GB",
			"offers nvidia.com/mig-1G.10GB, which makes no card name",
		},
		"a MIG profile in capitals: the message says what to write": {
			h800 + "nvidia.com/mig-1G.10GB:7",
			"nvidia.com/mig-1G.10GB",
			"after the model write",
		},
		"a MIG profile of 42 characters, of which a card name may have 41": {
			h800 + "nvidia.com/mig-" + strings.Repeat("1", 42) + ":7",
			"nvidia.com/mig-" + strings.Repeat("1", 42),
			"which makes no card name",
		},
	}

	for _, value := range []string{"", "0", "two", "2.5", "1e1", "0x2", "10000", "99999999999999999999"} {
		nodes["label replicas="+value+" of shares"] = wrongNode{
			h800 + "nvidia.com/gpu.shared:16 nvidia.com/gpu.replicas=" + value,
			shared,
			fmt.Sprintf("nvidia.com/gpu.replicas=%q, which is not a number of shares from 1 to 9999", value),
		}
	}

	// A card name has room for six digits of GiB; 85520809984 are bytes.
	for _, value := range []string{"", "0", "much", "80Gi", "81559.5", "8e4", "85520809984", "99999999999999999999", "9223372036854775807"} {
		nodes["label memory="+value+" of shares"] = wrongNode{
			"nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/gpu.replicas=2 nvidia.com/gpu.shared:16 nvidia.com/gpu.memory=" + value,
			shared,
			fmt.Sprintf("nvidia.com/gpu.memory=%q is no memory size in MiB", value),
		}
	}

	for t, tc := range check.Cases(t, nodes) {
		node := newNode(tc.node)
		expectValidKeysAndValues(t, node)

		got := Recognise(node, nil)
		check.Equal(t, "withheld", tc.wantWithheld, Join(got.Unnamed, " "))
		message := joinMessages(got.Anomalies)
		check.Contains(t, "message", message, tc.wantMessage)
		check.That(t, check.FitsEvent(message), "no event can have %q", message)

		for _, offered := range got.Cards {
			check.That(t, !slices.Contains(got.Unnamed, offered.Resource), "%s is offered as %s and withheld", offered.Resource,
				offered.Name)
		}
	}
}

// describeCards writes the cards that a node offers: "NVIDIA-H200=nvidia.com/gpu:8 …".
func describeCards(cards []NodeCard) string {
	texts := make([]string, len(cards))
	for i, offered := range cards {
		texts[i] = fmt.Sprintf("%s=%s:%d", offered.Name, offered.Resource, offered.Count)
	}
	return strings.Join(texts, " ")
}

// joinMessages joins what anomalies say.
func joinMessages(anomalies []Anomaly) string {
	texts := make([]string, len(anomalies))
	for i, anomaly := range anomalies {
		texts[i] = anomaly.Message
	}
	return strings.Join(texts, "; ")
}

// TestEveryAnomalyHasAReason: administrators count and filter anomalies by their reason, so it is one word for the
// same mistake on each node. The anomaly names its resource, unless it is about several resources or models. The
// labels h800 and npu name NVIDIA-H800 for nvidia.com and Ascend-910B for huawei.com.
func TestEveryAnomalyHasAReason(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		node string
		want Anomaly
	}{
		"no label names the card": {
			node: "nvidia.com/gpu:8",
			want: Anomaly{Reason: NoModelLabel, Resource: "nvidia.com/gpu"},
		},
		"only another vendor's label is there": {
			node: npu + "nvidia.com/mig-1g.18gb:3",
			want: Anomaly{Reason: NoModelLabel, Resource: "nvidia.com/mig-1g.18gb"},
		},
		"labels name two models": {
			node: h800 + npu + "nvidia.com/gpu:8",
			want: Anomaly{Reason: SeveralModels},
		},
		"one model could be either of two resources": {
			node: npu + "huawei.com/a:1 huawei.com/b:1",
			want: Anomaly{Reason: AmbiguousResource},
		},
		"shares without a label of replicas": {
			node: h800 + "nvidia.com/gpu.shared:2",
			want: Anomaly{Reason: InvalidLabel, Resource: "nvidia.com/gpu.shared"},
		},
		"a MIG profile in capitals": {
			node: h800 + "nvidia.com/mig-1G.10GB:7",
			want: Anomaly{Reason: InvalidLabel, Resource: "nvidia.com/mig-1G.10GB"},
		},
		"shares with a memory that is no number": {
			node: "a.b/c.product=X a.b/c.memory=- a.b/c.replicas=2 a.b/c.shared:2",
			want: Anomaly{Reason: InvalidLabel, Resource: "a.b/c.shared"},
		},
		"9 cards, and a label says 8": {
			node: h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:9",
			want: Anomaly{Reason: MoreThanLabelled, Resource: "nvidia.com/gpu"},
		},
	}) {
		check.Equal(t, "anomalies", []Anomaly{tc.want}, Recognise(newNode(tc.node), nil).Anomalies, cmpopts.IgnoreFields(Anomaly{}, "Message"))
	}
}

// expectValidKeysAndValues fails for labels and resources that the API server refuses, so that no test is about a
// node that cannot exist.
func expectValidKeysAndValues(t *testing.T, node *corev1.Node) {
	for key, value := range node.Labels {
		wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		check.Equal(t, "faults of label "+key+"="+value, 0, len(wrong))
	}
	for resource := range node.Status.Allocatable {
		check.Equal(t, "faults of resource "+string(resource), 0, len(validation.IsQualifiedName(string(resource))))
	}
}

// TestAMistakeAboutSharesLeavesTheWholeCards: the node has 7 whole cards, and 2 shares without the label of their
// replicas. Only the shares are withheld.
func TestAMistakeAboutSharesLeavesTheWholeCards(t *testing.T) {
	got := Recognise(newNode(h800+"nvidia.com/gpu:7 nvidia.com/gpu.shared:2"), nil)
	check.Equal(t, "cards", []NodeCard{{"NVIDIA-H800", "nvidia.com/gpu", 7}}, got.Cards)
	check.Equal(t, "withheld", resources("nvidia.com/gpu.shared"), got.Unnamed)
	check.Equal(t, "anomalies", 1, len(got.Anomalies))
}

// TestATypeMayHaveADashAndADot: vendors choose the type of a card, which stands before .product and .memory in
// labels. Type ai-card.v2 has a dash and a dot, and labels of it name the card all the same.
func TestATypeMayHaveADashAndADot(t *testing.T) {
	got := Recognise(newNode("v.w/ai-card.v2.product=PPU-ZW810E v.w/ai-card.v2.memory=98304 v.w/ai-card.v2:16"), nil)
	check.Equal(t, "recognised", nodeWithCards("PPU-ZW810E", "v.w/ai-card.v2", 16), got, cmpopts.EquateEmpty())
}

// TestRecogniseNeverCountsBelowZeroOrBeyondReason: a broken device plugin may report any quantity. Negative ones
// count as 0, and parts of a card are rounded up. More than a million (MaxCount) become a million and one, which fits
// no quota. The node has halves of an NVIDIA-H800 of 80 GiB.
func TestRecogniseNeverCountsBelowZeroOrBeyondReason(t *testing.T) {
	for quantity, want := range map[string]Count{
		"-1":                   0,
		"-9223372036854775808": 0,
		"1n":                   1,
		"7500m":                8,
		"1M":                   MaxCount,
		"1000001":              MaxCount + 1,
		"9223372036854775807":  MaxCount + 1,
		"18446744073709551615": MaxCount + 1,
		"1e30":                 MaxCount + 1,
		"4000Ei":               MaxCount + 1,
	} {
		got := Recognise(newNode(h800+"nvidia.com/gpu.replicas=2 nvidia.com/gpu.shared:"+quantity), nil)

		check.Equal(t, quantity, []NodeCard{{"NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu.shared", want}}, got.Cards)
	}
}
