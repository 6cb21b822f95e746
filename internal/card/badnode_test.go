package card

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels of an H800 node whose cards are cut by MPS, without the one that a
// case spoils.
var (
	h800        = []string{"nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/gpu.memory=81559"}
	h800InTwo   = append([]string{"nvidia.com/gpu.replicas=2"}, h800...)
	h800Product = []string{"nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/gpu.replicas=2"}
)

// with is a node of labels and more parts, as node builds it.
func with(labels []string, more ...string) []string {
	return append(append([]string{}, labels...), more...)
}

// What people and broken tools write on nodes, beside the cases of
// TestRecognise. The resource that a mistake is about is withheld, never
// guessed, and the node says why.
func TestRecogniseReportsWhatIsWrongWithANode(t *testing.T) {
	const noShares = "which is not a number of shares from 1 to 9999"
	shared, gpu := []corev1.ResourceName{"nvidia.com/gpu.shared"}, []corev1.ResourceName{"nvidia.com/gpu"}
	tests := map[string]struct {
		parts       []string
		wantUnnamed []corev1.ResourceName
		wants       []string
	}{
		// into how many shares
		"an empty number of shares":           {with(h800, "nvidia.com/gpu.replicas=", "nvidia.com/gpu.shared:16"), shared, []string{`nvidia.com/gpu.replicas=""`, noShares}},
		"a number of shares in words":         {with(h800, "nvidia.com/gpu.replicas=two", "nvidia.com/gpu.shared:16"), shared, []string{`replicas="two"`, noShares}},
		"half a share":                        {with(h800, "nvidia.com/gpu.replicas=2.5", "nvidia.com/gpu.shared:16"), shared, []string{`replicas="2.5"`, noShares}},
		"a number of shares with an exponent": {with(h800, "nvidia.com/gpu.replicas=1e1", "nvidia.com/gpu.shared:16"), shared, []string{`replicas="1e1"`, noShares}},
		"a hexadecimal number of shares":      {with(h800, "nvidia.com/gpu.replicas=0x2", "nvidia.com/gpu.shared:16"), shared, []string{`replicas="0x2"`, noShares}},
		"ten thousand shares":                 {with(h800, "nvidia.com/gpu.replicas=10000", "nvidia.com/gpu.shared:16"), shared, []string{`replicas="10000"`, noShares}},
		"more shares than a number holds":     {with(h800, "nvidia.com/gpu.replicas=99999999999999999999", "nvidia.com/gpu.shared:16"), shared, []string{noShares}},
		"replicas of another type of card":    {with(h800, "nvidia.com/vgpu.replicas=2", "nvidia.com/gpu.shared:16"), shared, []string{"has no label nvidia.com/gpu.replicas"}},

		// how large a card that is cut is
		"memory with a unit":                {with(h800Product, "nvidia.com/gpu.memory=80Gi", "nvidia.com/gpu.shared:16"), shared, []string{`nvidia.com/gpu.memory="80Gi"`, "no memory size in MiB"}},
		"memory as a fraction":              {with(h800Product, "nvidia.com/gpu.memory=81559.5", "nvidia.com/gpu.shared:16"), shared, []string{`memory="81559.5"`, "no memory size in MiB"}},
		"memory with an exponent":           {with(h800Product, "nvidia.com/gpu.memory=8e4", "nvidia.com/gpu.shared:16"), shared, []string{"no memory size in MiB"}},
		"no memory at all":                  {with(h800Product, "nvidia.com/gpu.memory=0", "nvidia.com/gpu.shared:16"), shared, []string{`memory="0"`, "no memory size in MiB"}},
		"an empty memory label":             {with(h800Product, "nvidia.com/gpu.memory=", "nvidia.com/gpu.shared:16"), shared, []string{`memory=""`, "no memory size in MiB"}},
		"memory in bytes":                   {with(h800Product, "nvidia.com/gpu.memory=85520809984", "nvidia.com/gpu.shared:16"), shared, []string{"no memory size in MiB"}},
		"memory that no 64 bits hold":       {with(h800Product, "nvidia.com/gpu.memory=99999999999999999999", "nvidia.com/gpu.shared:16"), shared, []string{"no memory size in MiB"}},
		"memory of the largest 64-bit size": {with(h800Product, "nvidia.com/gpu.memory=9223372036854775807", "nvidia.com/gpu.shared:16"), shared, []string{"no memory size in MiB"}},

		// which model
		"memory without product":          {with(nil, "nvidia.com/gpu.memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"an empty product":                {with(nil, "nvidia.com/gpu.product=", "nvidia.com/gpu.memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"product in capitals":             {with(nil, "nvidia.com/gpu.Product=NVIDIA-H800", "nvidia.com/gpu.memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"product without the vendor":      {with(nil, "gpu.product=NVIDIA-H800", "gpu.memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"product without the type":        {with(nil, "nvidia.com/product=NVIDIA-H800", "nvidia.com/memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"product and memory of two types": {with(nil, "nvidia.com/gpu.product=NVIDIA-H800", "nvidia.com/card.memory=81559", "nvidia.com/gpu:8"), gpu, []string{"offers nvidia.com/gpu but no label"}},
		"only the product of a slice":     {with(nil, "nvidia.com/mig-1g.10gb.product=NVIDIA-H800-MIG-1g.10gb", "nvidia.com/mig-1g.10gb.memory=9856", "nvidia.com/mig-1g.10gb:7"), []corev1.ResourceName{"nvidia.com/mig-1g.10gb"}, []string{"offers nvidia.com/mig-1g.10gb but no label"}},

		// more than one
		"two types of one vendor": {with(h800, "nvidia.com/card.product=NVIDIA-H200", "nvidia.com/card.memory=143771", "nvidia.com/gpu:8"),
			gpu, []string{"names more than one card model: NVIDIA-H200, NVIDIA-H800"}},
		"one model under two types": {with(h800, "nvidia.com/card.product=NVIDIA-H800", "nvidia.com/card.memory=81559", "nvidia.com/gpu:8"),
			gpu, []string{"names more than one card model: NVIDIA-H800, NVIDIA-H800"}},
		"three vendors": {with(h800, "huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536", "amd.com/gpu.product=MI300X", "amd.com/gpu.memory=196608", "nvidia.com/gpu:1", "amd.com/gpu:1", "huawei.com/Ascend910:1"),
			[]corev1.ResourceName{"amd.com/gpu", "huawei.com/Ascend910", "nvidia.com/gpu"}, []string{"MI300X, Ascend-910B, NVIDIA-H800"}},
		"two models and slices": {with(h800, "huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536", "nvidia.com/gpu:1", "nvidia.com/mig-1g.10gb:7"),
			[]corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/mig-1g.10gb"}, []string{"names more than one card model"}},
		"a resource left behind at zero": {with(nil, "huawei.com/npu.product=Ascend-910B", "huawei.com/npu.memory=65536", "huawei.com/Ascend910:8", "huawei.com/Ascend310:0"),
			[]corev1.ResourceName{"huawei.com/Ascend310", "huawei.com/Ascend910"}, []string{"could be any of the resources"}},

		// slices that make no card name
		"a MIG profile in capitals": {with(h800, "nvidia.com/mig-1G.10GB:7"), []corev1.ResourceName{"nvidia.com/mig-1G.10GB"}, []string{"offers nvidia.com/mig-1G.10GB, which makes no card name", "after the model write"}},
		"a MIG profile beyond the bound": {with(h800, "nvidia.com/mig-"+strings.Repeat("1", 42)+":7"), []corev1.ResourceName{corev1.ResourceName("nvidia.com/mig-" + strings.Repeat("1", 42))},
			[]string{"which makes no card name"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := node(tc.parts...)
			mustBeReal(t, n)
			got := Recognise(n)
			if diff := cmp.Diff(tc.wantUnnamed, got.Unnamed, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("withheld (-want +got):\n%s", diff)
			}
			said := strings.Join(got.Anomalies, "; ")
			for _, want := range tc.wants {
				if !strings.Contains(said, want) {
					t.Errorf("the node says\n  %s\nwant\n  …%s…", said, want)
				}
			}
			if !tellable(said) {
				t.Errorf("no event can hold %q", said)
			}
			for _, h := range got.Holdings {
				for _, withheld := range got.Unnamed {
					if h.Resource == withheld {
						t.Errorf("%s is held as %s and withheld", h.Resource, h.Name)
					}
				}
			}
		})
	}
}

// mustBeReal fails for labels and resources that the API server refuses.
func mustBeReal(t *testing.T, n *corev1.Node) {
	t.Helper()
	for key, value := range n.Labels {
		for _, wrong := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			t.Errorf("label %s=%s: %s", key, value, wrong)
		}
	}
	for resource := range n.Status.Allocatable {
		for _, wrong := range validation.IsQualifiedName(string(resource)) {
			t.Errorf("resource %s: %s", resource, wrong)
		}
	}
}

// A mistake about shares withholds the shares and leaves the whole cards.
func TestWholeCardsStayWhenSharesAreWithheld(t *testing.T) {
	got := Recognise(node(with(h800, "nvidia.com/gpu:7", "nvidia.com/gpu.shared:2")...))
	want := Node{Model: "NVIDIA-H800", Holdings: []Holding{{"NVIDIA-H800", "nvidia.com/gpu", 7}}, Unnamed: []corev1.ResourceName{"nvidia.com/gpu.shared"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Node{}, "Anomalies")); diff != "" {
		t.Errorf("recognised wrongly (-want +got):\n%s", diff)
	}
}

// Counts that no node has, and that a broken device plugin could report.
func TestRecogniseNeverCountsBelowZeroOrBeyondReason(t *testing.T) {
	tests := map[string]struct {
		count string
		want  Count
	}{
		"negative":                  {"-1", 0},
		"most negative of 64 bits":  {"-9223372036854775808", 0},
		"part of a card":            {"7500m", 8},
		"a million":                 {"1M", MaxCount},
		"more than a million":       {"1000001", MaxCount + 1},
		"the largest of 64 bits":    {"9223372036854775807", MaxCount + 1},
		"one more than 64 bits":     {"18446744073709551615", MaxCount + 1},
		"far beyond 64 bits":        {"1e30", MaxCount + 1},
		"in thousands of Ei":        {"4000Ei", MaxCount + 1},
		"the smallest that is some": {"1n", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Recognise(node(with(h800InTwo, "nvidia.com/gpu.shared:"+tc.count)...))
			want := []Holding{{"NVIDIA-H800/mps-80g*1/2", "nvidia.com/gpu.shared", tc.want}}
			if diff := cmp.Diff(want, got.Holdings); diff != "" {
				t.Error(diff)
			}
		})
	}
}
