package card

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestSharesOfSlicesAreACardOfTheirOwn: a quarter of a slice is no slice, in a node's labels and in a request.
func TestSharesOfSlicesAreACardOfTheirOwn(t *testing.T) {
	const (
		slice  = "nvidia.com/mig-1g.10gb"
		shared = slice + ".product=NVIDIA-H800-MIG-1g.10gb-SHARED "
		whole  = slice + ".product=NVIDIA-H800-MIG-1g.10gb "
	)

	byModel := Mappings{{Resource: slice, Model: "Lab"}}
	for t, tc := range check.Cases(t, map[string]struct {
		parts    string
		mappings Mappings
		want     []NodeCard
	}{
		"exclusive":                   {h800 + whole + slice + ".replicas=1 " + slice + ":7", nil, []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}}},
		"shared":                      {h800 + shared + slice + ".replicas=4 " + slice + ":28", nil, []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}}},
		"only the product says so":    {h800 + shared + slice + ":28", nil, []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}}},
		"only the replicas say so":    {h800 + whole + slice + ".replicas=4 " + slice + ":28", nil, []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}}},
		"replicas that are no number": {h800 + whole + slice + ".replicas=x " + slice + ":7", nil, []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}}},
		"the shares are renamed": {h800 + whole + slice + ".replicas=4 " + slice + ":0 " + slice + ".shared:28", nil,
			[]NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 0}, {"NVIDIA-H800/mig-1g.10gb.shared-mixed", slice + ".shared", 28}}},
		"the renamed shares are mapped": {h800 + whole + slice + ".replicas=4 " + slice + ":0 " + slice + ".shared:28", Mappings{{Resource: slice + ".shared", Model: "Q", MemoryLabel: "nvidia.com/gpu.memory"}},
			[]NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 0}, {"Q/mps-80g*1/4", slice + ".shared", 28}}},
		"another profile is not shared": {h800 + shared + slice + ":28 nvidia.com/mig-3g.40gb:2", nil,
			[]NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}, {"NVIDIA-H800/mig-3g.40gb-mixed", "nvidia.com/mig-3g.40gb", 2}}},
		"mapped, exclusive":                {h800 + whole + slice + ":7", byModel, []NodeCard{{"Lab/mig-1g.10gb-mixed", slice, 7}}},
		"mapped, shared":                   {h800 + shared + slice + ":28", byModel, []NodeCard{{"Lab/mig-1g.10gb-mixed-SHARED", slice, 28}}},
		"mapped, only the replicas say so": {h800 + whole + slice + ".replicas=4 " + slice + ":28", byModel, []NodeCard{{"Lab/mig-1g.10gb-mixed-SHARED", slice, 28}}},
		"mapped, and its shares are renamed": {h800 + whole + slice + ".replicas=4 " + slice + ":0 " + slice + ".shared:28", append(Mappings{{Resource: slice + ".shared", Model: "Q", MemoryLabel: "nvidia.com/gpu.memory"}}, byModel...),
			[]NodeCard{{"Lab/mig-1g.10gb-mixed", slice, 0}, {"Q/mps-80g*1/4", slice + ".shared", 28}}},
		"mapped by a label that says so itself": {h800 + shared + slice + ":28", Mappings{{Resource: slice, ModelLabel: slice + ".product"}},
			[]NodeCard{{"NVIDIA-H800-MIG-1g.10gb-SHARED/mig-1g.10gb-mixed", slice, 28}}},
	}) {
		n := node(strings.Fields(tc.parts)...)
		mustBeReal(t, n)

		got := Recognise(n, tc.mappings)
		check.Equal(t, "cards", tc.want, got.Cards, cmpopts.EquateEmpty())
		check.Equal(t, "anomalies", 0, len(got.Anomalies))
		for _, held := range got.Cards {
			check.Value(ParseQuota(Quota{held.Name: 1}.String()))(t)
		}
	}
}

// TestASliceAndItsShareAreAlternatives: pods request both by one resource.
func TestASliceAndItsShareAreAlternatives(t *testing.T) {
	request := check.Value(ParseRequest("A/mig-1g.10gb-mixed|A/mig-1g.10gb-mixed-SHARED"))(t)
	check.Equal(t, "alternatives", 2, len(request.Names()))
	_, err := ParseRequest("A/mig-1g.10gb-mixed|A/mig-3g.40gb-mixed-SHARED")
	check.That(t, err != nil, "two profiles are one resource")
}

// TestMoreCardsThanTheLabelsSay: sharing that only the device plugin knows makes parts of cards look
// like cards. A few more are no sharing.
func TestMoreCardsThanTheLabelsSay(t *testing.T) {
	const (
		gpu     = "nvidia.com/gpu"
		shared  = "nvidia.com/gpu.shared"
		slice   = "nvidia.com/mig-1g.10gb"
		counted = h800 + "nvidia.com/gpu.count=8 "
	)

	hami := Mappings{{Resource: gpu, Model: "Tenth"}}
	elsewhere := Mappings{{Resource: gpu, Model: "Tenth", NodeSelector: map[string]string{"pool": "other"}}}
	type want struct {
		cards, withheld []NodeCard
		says            string
	}

	for t, tc := range check.Cases(t, map[string]struct {
		parts    string
		mappings Mappings
		want     want
	}{
		"as many":                           {counted + gpu + ":8", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 8}}}},
		"fewer":                             {counted + gpu + ":5", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 5}}}},
		"no label":                          {h800 + gpu + ":80", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 80}}}},
		"no number":                         {h800 + "nvidia.com/gpu.count=many " + gpu + ":80", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 80}}}},
		"one more":                          {counted + gpu + ":9", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 9}}, says: "offers 9 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; pods get each of them as one NVIDIA-H800"}},
		"almost twice":                      {counted + gpu + ":15", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 15}}, says: "pods get each"}},
		"twice":                             {counted + gpu + ":16", nil, want{withheld: []NodeCard{{"NVIDIA-H800", gpu, 16}}, says: "offers 16 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; no new pod gets one of them"}},
		"ten times":                         {counted + "nvidia.com/gpu.replicas=1 " + gpu + ":80", nil, want{withheld: []NodeCard{{"NVIDIA-H800", gpu, 80}}, says: "no new pod"}},
		"beside slices":                     {counted + "nvidia.com/gpu.replicas=0 " + gpu + ":80 " + slice + ":7", nil, want{[]NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}}, []NodeCard{{"NVIDIA-H800", gpu, 80}}, "no new pod"}},
		"no replicas":                       {counted + "nvidia.com/gpu.replicas=0 " + gpu + ":8", nil, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 8}}}},
		"none is labelled":                  {h800 + "nvidia.com/gpu.count=0 " + gpu + ":1", nil, want{withheld: []NodeCard{{"NVIDIA-H800", gpu, 1}}, says: "more than label nvidia.com/gpu.count=0"}},
		"announced":                         {"nvidia.com/gpu.product=A10-SHARED nvidia.com/gpu.memory=1 nvidia.com/gpu.count=2 nvidia.com/gpu.replicas=4 " + gpu + ":8", nil, want{cards: []NodeCard{{"A10-SHARED", gpu, 8}}}},
		"announced by replicas":             {"nvidia.com/gpu.product=A10G nvidia.com/gpu.memory=23028 nvidia.com/gpu.count=1 nvidia.com/gpu.replicas=10 nvidia.com/gpu.sharing-strategy=time-slicing " + gpu + ":10", nil, want{cards: []NodeCard{{"A10G-SHARED", gpu, 10}}}},
		"announced by replicas, and twice":  {counted + "nvidia.com/gpu.replicas=2 " + gpu + ":32", nil, want{withheld: []NodeCard{{"NVIDIA-H800-SHARED", gpu, 32}}, says: "more than the 16 of labels"}},
		"whole cards beside renamed shares": {counted + "nvidia.com/gpu.replicas=2 " + gpu + ":16 " + shared + ":0", nil, want{[]NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 0}}, []NodeCard{{"NVIDIA-H800", gpu, 16}}, "more than label nvidia.com/gpu.count=8 says"}},
		"whole cards beside mapped shares":  {counted + "nvidia.com/gpu.replicas=2 " + gpu + ":8 " + shared + ":16", Mappings{{Resource: shared, Model: "Half", MemoryLabel: "nvidia.com/gpu.memory"}}, want{cards: []NodeCard{{"NVIDIA-H800", gpu, 8}, {"Half/mps-80g*1/2", shared, 16}}}},
		"many shares":                       {"nvidia.com/gpu.product=L4-SHARED nvidia.com/gpu.memory=1 nvidia.com/gpu.count=8 nvidia.com/gpu.replicas=16384 " + gpu + ":131072", nil, want{cards: []NodeCard{{"L4-SHARED", gpu, 131072}}}},
		"renamed":                           {counted + "nvidia.com/gpu.replicas=2 " + shared + ":16", nil, want{cards: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 16}}}},
		"renamed, and more":                 {counted + "nvidia.com/gpu.replicas=2 " + shared + ":17", nil, want{cards: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 17}}, says: "offers 17 nvidia.com/gpu.shared, more than the 16 of labels nvidia.com/gpu.count=8 and nvidia.com/gpu.replicas=2"}},
		"renamed, and twice":                {counted + "nvidia.com/gpu.replicas=2 " + shared + ":32", nil, want{withheld: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 32}}, says: "no new pod"}},
		"slices": {h800 + slice + ".count=7 " + slice + ":28", nil, want{withheld: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 28}},
			says: "offers 28 nvidia.com/mig-1g.10gb, more than label nvidia.com/mig-1g.10gb.count=7 says"}},
		"shares of slices":                    {h800 + slice + ".count=7 " + slice + ".replicas=4 " + slice + ":28", nil, want{cards: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}}}},
		"another vendor":                      {"a.b/c.product=X a.b/c.memory=1 a.b/c.count=2 a.b/c:8", nil, want{withheld: []NodeCard{{"X", "a.b/c", 8}}, says: "no new pod"}},
		"a resource of another name":          {npu + "huawei.com/npu.count=1 huawei.com/Ascend910.count=1 huawei.com/Ascend910:8", nil, want{cards: []NodeCard{{"Ascend-910B", "huawei.com/Ascend910", 8}}}},
		"an entry is the way out":             {counted + gpu + ":80", hami, want{cards: []NodeCard{{"Tenth", gpu, 80}}}},
		"an entry for other nodes is no help": {counted + gpu + ":80", elsewhere, want{withheld: []NodeCard{{"NVIDIA-H800", gpu, 80}}, says: "no new pod"}},
	}) {
		n := node(strings.Fields(tc.parts)...)
		mustBeReal(t, n)

		got := Recognise(n, tc.mappings)
		check.Equal(t, "cards", tc.want.cards, got.Cards, cmpopts.EquateEmpty())
		check.Equal(t, "withheld", tc.want.withheld, got.Withheld, cmpopts.EquateEmpty())
		check.Equal(t, "unnamed", resourcesOf(tc.want.withheld), got.Unnamed, cmpopts.EquateEmpty())
		if tc.want.says == "" {
			check.Equal(t, "anomalies", 0, len(got.Anomalies))
			continue
		}

		check.Must(t, len(got.Anomalies) == 1, "anomalies %+v", got.Anomalies)
		check.Equal(t, "reason", MoreThanLabelled, got.Anomalies[0].Reason)
		check.Contains(t, "the node says", got.Anomalies[0].Message, tc.want.says)
	}
}

// TestSharesWhoseNameIsTooLong: a model has at most 63 characters.
func TestSharesWhoseNameIsTooLong(t *testing.T) {
	n := node("nvidia.com/gpu.product="+strings.Repeat("A", 60), "nvidia.com/gpu.memory=1", "nvidia.com/gpu.replicas=2", "nvidia.com/gpu:2")
	got := Recognise(n, nil)
	check.Must(t, len(got.Anomalies) == 1 && len(got.Cards) == 0, "%+v", got)
	check.Equal(t, "reason", InvalidLabel, got.Anomalies[0].Reason)
}

func resourcesOf(cards []NodeCard) (out []corev1.ResourceName) {
	for _, held := range cards {
		out = append(out, held.Resource)
	}
	return out
}

// TestWithheldCardsKeepTheirName: running pods are charged by it, and no card of the name is offered.
func TestWithheldCardsKeepTheirName(t *testing.T) {
	inv := inventory(map[string]string{"oversold": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80", "more": h200 + "nvidia.com/gpu.count=8 nvidia.com/gpu:9"})
	_, isOffered := inv.CardOnNode("oversold", "nvidia.com/gpu")
	held, isHeld := inv.CardHeldOnNode("oversold", "nvidia.com/gpu")
	check.That(t, !isOffered && isHeld && held == "NVIDIA-H800", "offered %v, held %q %v", isOffered, held, isHeld)
	check.Equal(t, "cards", map[Name]Count{"NVIDIA-H200": 9}, inv.Physical())
	check.That(t, inv.IsCard("nvidia.com/gpu"), "it is no card any more")
	check.Equal(t, "nodes that withhold cards", 1, inv.AnomalousNodes())
	_, isHeld = inv.CardHeldOnNode("unknown", "nvidia.com/gpu")
	check.That(t, !isHeld, "an unknown node has a card")
}

func TestSharingStrategy(t *testing.T) {
	for parts, want := range map[string]string{
		"nvidia.com/gpu:1": "", "nvidia.com/gpu.sharing-strategy=none nvidia.com/gpu:1": "", "nvidia.com/gpu.sharing-strategy=mps nvidia.com/gpu:1": "",
		"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing nvidia.com/gpu.shared:4":                                                        "time-slicing",
		"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=mps nvidia.com/gpu.shared:4":                                                                 "mps",
		"nvidia.com/gpu.replicas=4 nvidia.com/gpu.shared:4":                                                                                                     "",
		"nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=none nvidia.com/gpu.shared:4":                                                                "",
		"nvidia.com/gpu.sharing-strategy=none nvidia.com/mig-1g.10gb.replicas=4 nvidia.com/mig-1g.10gb.sharing-strategy=time-slicing nvidia.com/mig-1g.10gb:28": "time-slicing",
		"nvidia.com/gpu.sharing-strategy=none nvidia.com/mig-1g.10gb.replicas=4 nvidia.com/mig-1g.10gb.sharing-strategy=mps nvidia.com/mig-1g.10gb.shared:28":   "mps",
	} {
		n := node(strings.Fields(h800 + parts)...)
		cards := Recognise(n, nil).Cards
		check.Must(t, len(cards) == 1, "%s: cards %+v", parts, cards)
		check.Equal(t, parts, want, SharingStrategy(n, cards[0]))
	}

	n := node(strings.Fields("nvidia.com/gpu.product=A10-SHARED nvidia.com/gpu.memory=1 nvidia.com/gpu.sharing-strategy=mps nvidia.com/gpu:4")...)
	check.Equal(t, "not renamed", "mps", SharingStrategy(n, Recognise(n, nil).Cards[0]))
}
