package card

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"cardquota.dev/operator/internal/testing/check"
)

// node builds a node from "key=value" labels and "resource:count" allocatables.
func node(parts ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("110"), "rdma/hca": resource.MustParse("8")}
	for _, part := range parts {
		if key, value, ok := strings.Cut(part, "="); ok {
			n.Labels[key] = value
		} else if name, count, ok := strings.Cut(part, ":"); ok {
			n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(count)
		}
	}
	return n
}

// Labels of nodes in the form that node reads.
const (
	h200 = "nvidia.com/gpu.product=NVIDIA-H200 nvidia.com/gpu.memory=143771 "
	h800 = "nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/gpu.memory=81559 "
	npu  = "huawei.com/npu.product=Ascend-910B huawei.com/npu.memory=65536 "
)

// spoilt is a node on which something is wrong, the resources that are withheld, and
// what the node says.
type spoilt struct{ parts, withheld, says string }

// What people and broken tools write on nodes, beside the nodes of testdata/nodes. The
// resource that a mistake is about is withheld, never guessed, and the node says why.
func TestRecogniseReportsWhatIsWrongWithANode(t *testing.T) {
	const (
		gpu     = "nvidia.com/gpu"
		shared  = "nvidia.com/gpu.shared"
		noLabel = " but no label"
		models  = "names more than one card model"
	)

	tests := map[string]spoilt{
		"replicas of another type of card": {h800 + "nvidia.com/vgpu.replicas=2 nvidia.com/gpu.shared:16", shared, "has no label nvidia.com/gpu.replicas"},

		// which model
		"no label":                        {"nvidia.com/gpu:8 nvidia.com/gpu.shared:2", gpu + " " + shared, "offers nvidia.com/gpu" + noLabel},
		"memory without product":          {"nvidia.com/gpu.memory=81559 nvidia.com/gpu:8", gpu, "offers nvidia.com/gpu" + noLabel},
		"an empty product":                {"nvidia.com/gpu.product= nvidia.com/gpu.memory=81559 nvidia.com/gpu:8", gpu, "offers nvidia.com/gpu" + noLabel},
		"product in capitals":             {"nvidia.com/gpu.Product=NVIDIA-H800 nvidia.com/gpu.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"product without the vendor":      {"gpu.product=NVIDIA-H800 gpu.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"product without the type":        {"nvidia.com/product=NVIDIA-H800 nvidia.com/memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"product and memory of two types": {"nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/card.memory=81559 nvidia.com/gpu:8", gpu, noLabel},
		"a slice without a model":         {"nvidia.com/mig-1g.18gb:3", "nvidia.com/mig-1g.18gb", "offers nvidia.com/mig-1g.18gb" + noLabel},
		"only the product of a slice": {"nvidia.com/mig-1g.10gb.product=NVIDIA-H800-MIG-1g.10gb nvidia.com/mig-1g.10gb.memory=9856 nvidia.com/mig-1g.10gb:7",
			"nvidia.com/mig-1g.10gb", "offers nvidia.com/mig-1g.10gb" + noLabel},

		// more than one
		"two types of one vendor":   {h800 + "nvidia.com/card.product=NVIDIA-H200 nvidia.com/card.memory=143771 nvidia.com/gpu:8", gpu, models + ": NVIDIA-H200, NVIDIA-H800"},
		"one model under two types": {h800 + "nvidia.com/card.product=NVIDIA-H800 nvidia.com/card.memory=81559 nvidia.com/gpu:8", gpu, models + ": NVIDIA-H800, NVIDIA-H800"},
		"three vendors": {h800 + npu + "amd.com/gpu.product=MI300X amd.com/gpu.memory=196608 nvidia.com/gpu:1 amd.com/gpu:1 huawei.com/Ascend910:1",
			"amd.com/gpu huawei.com/Ascend910 nvidia.com/gpu", "MI300X, Ascend-910B, NVIDIA-H800"},
		"two models and slices":           {h800 + npu + "nvidia.com/gpu:1 nvidia.com/mig-1g.10gb:7", "nvidia.com/gpu nvidia.com/mig-1g.10gb", models},
		"a resource left behind at zero":  {npu + "huawei.com/Ascend910:8 huawei.com/Ascend310:0", "huawei.com/Ascend310 huawei.com/Ascend910", "could be any of the resources"},
		"a slice beside another's model":  {npu + "nvidia.com/mig-1g.18gb:3", "nvidia.com/mig-1g.18gb", "its model label is of huawei.com, not nvidia.com/<type>.product with nvidia.com/<type>.memory"},
		"a MIG profile in capitals":       {h800 + "nvidia.com/mig-1G.10GB:7", "nvidia.com/mig-1G.10GB", "offers nvidia.com/mig-1G.10GB, which makes no card name"},
		"what to write in place of that":  {h800 + "nvidia.com/mig-1G.10GB:7", "nvidia.com/mig-1G.10GB", "after the model write"},
		"a MIG profile beyond the bound ": {h800 + "nvidia.com/mig-" + strings.Repeat("1", 42) + ":7", "nvidia.com/mig-" + strings.Repeat("1", 42), "which makes no card name"},
	}

	for _, value := range []string{"", "0", "two", "2.5", "1e1", "0x2", "10000", "99999999999999999999"} {
		tests["cut into "+value] = spoilt{h800 + "nvidia.com/gpu.shared:16 nvidia.com/gpu.replicas=" + value, shared,
			fmt.Sprintf("nvidia.com/gpu.replicas=%q, which is not a number of shares from 1 to 9999", value)}
	}

	for _, value := range []string{"", "0", "much", "80Gi", "81559.5", "8e4", "85520809984", "99999999999999999999", "9223372036854775807"} {
		tests["memory of "+value] = spoilt{"nvidia.com/gpu.product=NVIDIA-H800 nvidia.com/gpu.replicas=2 nvidia.com/gpu.shared:16 nvidia.com/gpu.memory=" + value, shared,
			fmt.Sprintf("nvidia.com/gpu.memory=%q is no memory size in MiB", value)}
	}

	for t, tc := range check.Cases(t, tests) {
		n := node(strings.Split(tc.parts, " ")...)
		mustBeReal(t, n)
		got := Recognise(n, nil)
		check.Equal(t, "withheld", tc.withheld, strings.Trim(fmt.Sprint(got.Unnamed), "[]"))

		said := joinMessages(got.Anomalies)
		check.Contains(t, "the node says", said, tc.says)
		check.Equal(t, "an event can hold it", true, check.FitsEvent(said))
		for _, h := range got.Cards {
			check.That(t, !strings.Contains(" "+tc.withheld+" ", " "+string(h.Resource)+" "), "%s is held as %s and withheld", h.Resource, h.Name)
		}
	}
}

func joinMessages(anomalies []Anomaly) string {
	texts := make([]string, len(anomalies))
	for i, anomaly := range anomalies {
		texts[i] = anomaly.Message
	}
	return strings.Join(texts, "; ")
}

func TestEveryAnomalyHasAReason(t *testing.T) {
	for parts, want := range map[string]Anomaly{
		"nvidia.com/gpu:8":                                               {Reason: NoModelLabel, Resource: "nvidia.com/gpu"},
		npu + "nvidia.com/mig-1g.18gb:3":                                 {Reason: NoModelLabel, Resource: "nvidia.com/mig-1g.18gb"},
		h800 + npu + "nvidia.com/gpu:8":                                  {Reason: SeveralModels},
		npu + "huawei.com/a:1 huawei.com/b:1":                            {Reason: AmbiguousResource},
		h800 + "nvidia.com/gpu.shared:2":                                 {Reason: InvalidLabel, Resource: "nvidia.com/gpu.shared"},
		h800 + "nvidia.com/mig-1G.10GB:7":                                {Reason: InvalidLabel, Resource: "nvidia.com/mig-1G.10GB"},
		"a.b/c.product=X a.b/c.memory=- a.b/c.replicas=2 a.b/c.shared:2": {Reason: InvalidLabel, Resource: "a.b/c.shared"},
	} {
		check.Equal(t, parts, []Anomaly{want}, Recognise(node(strings.Split(parts, " ")...), nil).Anomalies, cmpopts.IgnoreFields(Anomaly{}, "Message"))
	}
}

// mustBeReal fails for labels and resources that the API server refuses.
func mustBeReal(t *testing.T, n *corev1.Node) {
	for key, value := range n.Labels {
		for _, wrong := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			check.That(t, false, "label %s=%s: %s", key, value, wrong)
		}
	}
	for resource := range n.Status.Allocatable {
		for _, wrong := range validation.IsQualifiedName(string(resource)) {
			check.That(t, false, "resource %s: %s", resource, wrong)
		}
	}
}

// A mistake about shares withholds the shares and leaves the whole cards. A type may
// have a dash and a dot.
func TestRecognise(t *testing.T) {
	for parts, want := range map[string]Node{
		h800 + "nvidia.com/gpu:7 nvidia.com/gpu.shared:2": {
			Model: "NVIDIA-H800", Cards: []NodeCard{{"NVIDIA-H800", "nvidia.com/gpu", 7}}, Unnamed: []corev1.ResourceName{"nvidia.com/gpu.shared"}},
		"vendor.example/ai-card.v2.product=PPU-ZW810E vendor.example/ai-card.v2.memory=98304 vendor.example/ai-card.v2:16": {
			Model: "PPU-ZW810E", Cards: []NodeCard{{"PPU-ZW810E", "vendor.example/ai-card.v2", 16}}},
	} {
		got := Recognise(node(strings.Split(parts, " ")...), nil)
		check.Equal(t, "recognised", want, got, cmpopts.IgnoreFields(Node{}, "Anomalies"), cmpopts.EquateEmpty())
		check.Equal(t, "anomalies", len(want.Unnamed), len(got.Anomalies))
	}
}

// Counts that no node has, and that a broken device plugin could report.
func TestRecogniseNeverCountsBelowZeroOrBeyondReason(t *testing.T) {
	for count, want := range map[string]Count{
		"-1": 0, "-9223372036854775808": 0, "1n": 1, "7500m": 8, "1M": MaxCount, "1000001": MaxCount + 1, "9223372036854775807": MaxCount + 1,
		"18446744073709551615": MaxCount + 1, "1e30": MaxCount + 1, "4000Ei": MaxCount + 1,
	} {
		got := Recognise(node(strings.Split(h800+"nvidia.com/gpu.replicas=2 nvidia.com/gpu.shared:"+count, " ")...), nil)
		check.Equal(t, count, []NodeCard{{"NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu.shared", want}}, got.Cards)
	}
}
