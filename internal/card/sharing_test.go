package card

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestSharesOfSlicesAreACardOfTheirOwn: a quarter of a MIG slice is worth less than a slice, so it has another card
// name, with -SHARED. NVIDIA's GPU feature discovery says that slices are shared by the label of the product or of
// the replicas. A node offers 7 slices, or 28 shares: 4 of each slice. A mapping (an entry of spec.cards) gives only
// the model; the labels still say whether slices are shared. Shares under a resource of their own (slice.shared) have
// another name, without -SHARED. If such shares are mapped, the name has the card's memory, here 80 GiB, and the
// replicas. The constant h800 labels NVIDIA-H800 with this memory. A quota can be written for each of the names.
func TestSharesOfSlicesAreACardOfTheirOwn(t *testing.T) {
	const (
		slice           = "nvidia.com/mig-1g.10gb"
		productOfSlices = slice + ".product=NVIDIA-H800-MIG-1g.10gb "
		productOfShares = slice + ".product=NVIDIA-H800-MIG-1g.10gb-SHARED "
		fourReplicas    = slice + ".replicas=4 "
		renamedShares   = slice + ":0 " + slice + ".shared:28"
	)

	mapSlices := Mapping{Resource: slice, Model: "Lab"}
	mapShares := Mapping{Resource: slice + ".shared", Model: "Q", MemoryLabel: "nvidia.com/gpu.memory"}
	mapByProduct := Mapping{Resource: slice, ModelLabel: slice + ".product"}

	for t, tc := range check.Cases(t, map[string]struct {
		node     string
		mappings Mappings
		want     []NodeCard
	}{
		"product and replicas say that slices are not shared": {
			node: h800 + productOfSlices + slice + ".replicas=1 " + slice + ":7",
			want: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}},
		},
		"product and replicas say that slices are shared": {
			node: h800 + productOfShares + fourReplicas + slice + ":28",
			want: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"only the product says that slices are shared": {
			node: h800 + productOfShares + slice + ":28",
			want: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"only the replicas say that slices are shared": {
			node: h800 + productOfSlices + fourReplicas + slice + ":28",
			want: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"replicas that are no number say nothing": {
			node: h800 + productOfSlices + slice + ".replicas=x " + slice + ":7",
			want: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}},
		},
		"the shares have a resource of their own, so the slices are whole": {
			node: h800 + productOfSlices + fourReplicas + renamedShares,
			want: []NodeCard{
				{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 0},
				{"NVIDIA-H800/mig-1g.10gb.shared-mixed", slice + ".shared", 28},
			},
		},
		"the shares have a resource of their own, which is mapped": {
			node:     h800 + productOfSlices + fourReplicas + renamedShares,
			mappings: Mappings{mapShares},
			want: []NodeCard{
				{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 0},
				{"Q/mps-80g*1/4", slice + ".shared", 28},
			},
		},
		"slices of another profile are not shared": {
			node: h800 + productOfShares + slice + ":28 nvidia.com/mig-3g.40gb:2",
			want: []NodeCard{
				{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28},
				{"NVIDIA-H800/mig-3g.40gb-mixed", "nvidia.com/mig-3g.40gb", 2},
			},
		},
		"mapped slices that are not shared": {
			node:     h800 + productOfSlices + slice + ":7",
			mappings: Mappings{mapSlices},
			want:     []NodeCard{{"Lab/mig-1g.10gb-mixed", slice, 7}},
		},
		"mapped slices that are shared by the product": {
			node:     h800 + productOfShares + slice + ":28",
			mappings: Mappings{mapSlices},
			want:     []NodeCard{{"Lab/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"mapped slices that are shared by the replicas": {
			node:     h800 + productOfSlices + fourReplicas + slice + ":28",
			mappings: Mappings{mapSlices},
			want:     []NodeCard{{"Lab/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"slices are mapped, and their shares, which have a resource of their own": {
			node:     h800 + productOfSlices + fourReplicas + renamedShares,
			mappings: Mappings{mapShares, mapSlices},
			want: []NodeCard{
				{"Lab/mig-1g.10gb-mixed", slice, 0},
				{"Q/mps-80g*1/4", slice + ".shared", 28},
			},
		},
		"a mapped model that ends with -SHARED gets no second -SHARED": {
			node:     h800 + productOfShares + slice + ":28",
			mappings: Mappings{mapByProduct},
			want:     []NodeCard{{"NVIDIA-H800-MIG-1g.10gb-SHARED/mig-1g.10gb-mixed", slice, 28}},
		},
	}) {
		node := newNode(tc.node)
		expectValidKeysAndValues(t, node)

		got := Recognise(node, tc.mappings)
		check.Equal(t, "cards", tc.want, got.Cards)
		check.Equal(t, "anomalies", 0, len(got.Anomalies))
		for _, offered := range got.Cards {
			check.Value(ParseQuota(Quota{offered.Name: 1}.String()))(t)
		}
	}
}

// TestASliceAndItsShareAreAlternatives: alternatives must be requested by one resource. A slice and a share of it are
// under the same resource, so they are alternatives. A slice of one MIG profile and a share of another one are not.
func TestASliceAndItsShareAreAlternatives(t *testing.T) {
	check.Equal(t, "alternatives", 2, len(check.Value(ParseRequest("A/mig-1g.10gb-mixed|A/mig-1g.10gb-mixed-SHARED"))(t).Names()))

	_, err := ParseRequest("A/mig-1g.10gb-mixed|A/mig-3g.40gb-mixed-SHARED")
	check.Says(t, err, "one resource request cannot mean either")
}

// TestMoreCardsThanTheLabelsSay: label <type>.count says how many cards a node has. Label replicas says how many
// shares each is cut into, 1 without the label. A node that offers twice count x replicas, or more, probably shares
// its cards without a label. A tenant with quota for whole cards would get parts, so the node withholds them from new
// pods. Fewer, but more than count x replicas, are offered. Both are an anomaly. Without a label of the count, any
// number is offered. An entry of spec.cards for the node is trusted in place of the labels. The label h800 names
// NVIDIA-H800.
func TestMoreCardsThanTheLabelsSay(t *testing.T) {
	const (
		gpu      = "nvidia.com/gpu"
		shared   = "nvidia.com/gpu.shared"
		slice    = "nvidia.com/mig-1g.10gb"
		counted  = h800 + "nvidia.com/gpu.count=8 "
		twoEach  = "nvidia.com/gpu.replicas=2 "
		withheld = "no new pod gets one of them"
		offered  = "pods get each of them as one NVIDIA-H800"
	)

	mapCards := Mapping{Resource: gpu, Model: "Tenth"}
	mapCardsElsewhere := Mapping{Resource: gpu, Model: "Tenth", NodeSelector: map[string]string{"pool": "other"}}
	mapShares := Mapping{Resource: shared, Model: "Half", MemoryLabel: "nvidia.com/gpu.memory"}

	for t, tc := range check.Cases(t, map[string]struct {
		node         string
		mappings     Mappings
		wantCards    []NodeCard
		wantWithheld []NodeCard
		wantMessage  string // "" without an anomaly
	}{
		"count 8, the node offers 8": {
			node:      counted + gpu + ":8",
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 8}},
		},
		"count 8, the node offers 5": {
			node:      counted + gpu + ":5",
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 5}},
		},
		"count 8, the node offers 9: an anomaly": {
			node:        counted + gpu + ":9",
			wantCards:   []NodeCard{{"NVIDIA-H800", gpu, 9}},
			wantMessage: "offers 9 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; " + offered,
		},
		"count 8, the node offers 15, one less than twice as many: an anomaly": {
			node:        counted + gpu + ":15",
			wantCards:   []NodeCard{{"NVIDIA-H800", gpu, 15}},
			wantMessage: offered,
		},
		"count 8, the node offers 16, twice as many: withheld": {
			node:         counted + gpu + ":16",
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 16}},
			wantMessage:  "offers 16 nvidia.com/gpu, more than label nvidia.com/gpu.count=8 says; " + withheld,
		},
		"count 8, not divided (1 replica), the node offers 80: withheld": {
			node:         counted + "nvidia.com/gpu.replicas=1 " + gpu + ":80",
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 80}},
			wantMessage:  withheld,
		},
		"no label of the count, the node offers 80": {
			node:      h800 + gpu + ":80",
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 80}},
		},
		"the count is no number, the node offers 80": {
			node:      h800 + "nvidia.com/gpu.count=many " + gpu + ":80",
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 80}},
		},
		"count 0, the node offers 1: withheld": {
			node:         h800 + "nvidia.com/gpu.count=0 " + gpu + ":1",
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 1}},
			wantMessage:  "more than label nvidia.com/gpu.count=0",
		},
		"count 8, the node offers 80 beside slices without a count: only the cards are withheld": {
			node:         counted + "nvidia.com/gpu.replicas=0 " + gpu + ":80 " + slice + ":7",
			wantCards:    []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 7}},
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 80}},
			wantMessage:  withheld,
		},
		"0 replicas, which discovery writes beside slices, count as 1": {
			node:      counted + "nvidia.com/gpu.replicas=0 " + gpu + ":8",
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 8}},
		},
		"2 cards in 4 replicas each are the 8 shares that the product announces": {
			node:      "nvidia.com/gpu.product=A10-SHARED nvidia.com/gpu.memory=1 nvidia.com/gpu.count=2 nvidia.com/gpu.replicas=4 " + gpu + ":8",
			wantCards: []NodeCard{{"A10-SHARED", gpu, 8}},
		},
		"1 card in 10 replicas is the 10 shares that only the replicas announce": {
			node: "nvidia.com/gpu.product=A10G nvidia.com/gpu.memory=23028 nvidia.com/gpu.count=1 nvidia.com/gpu.replicas=10 " +
				"nvidia.com/gpu.sharing-strategy=time-slicing " + gpu + ":10",
			wantCards: []NodeCard{{"A10G-SHARED", gpu, 10}},
		},
		"8 cards in 2 replicas each, the node offers 32 shares, twice as many: withheld": {
			node:         counted + twoEach + gpu + ":32",
			wantWithheld: []NodeCard{{"NVIDIA-H800-SHARED", gpu, 32}},
			wantMessage:  "more than the 16 of labels",
		},
		"8 cards whose shares have a resource of their own, the node offers 16 whole: withheld": {
			node:         counted + twoEach + gpu + ":16 " + shared + ":0", // the replicas count for the shares alone
			wantCards:    []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 0}},
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 16}},
			wantMessage:  "more than label nvidia.com/gpu.count=8 says",
		},
		"8 cards offered whole, and 16 mapped shares of them": {
			node:      counted + twoEach + gpu + ":8 " + shared + ":16",
			mappings:  Mappings{mapShares},
			wantCards: []NodeCard{{"NVIDIA-H800", gpu, 8}, {"Half/mps-80g*1/2", shared, 16}},
		},
		"8 cards in 16384 replicas each are 131072 shares": {
			node: "nvidia.com/gpu.product=L4-SHARED nvidia.com/gpu.memory=1 nvidia.com/gpu.count=8 nvidia.com/gpu.replicas=16384 " +
				gpu + ":131072", // more than 9999, the most that names with the number have
			wantCards: []NodeCard{{"L4-SHARED", gpu, 131072}},
		},
		"8 cards in 2 replicas each are 16 shares with a resource of their own": {
			node:      counted + twoEach + shared + ":16",
			wantCards: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 16}},
		},
		"8 cards in 2 replicas each, the node offers 17 of the shares' resource: an anomaly": {
			node:        counted + twoEach + shared + ":17",
			wantCards:   []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 17}},
			wantMessage: "offers 17 nvidia.com/gpu.shared, more than the 16 of labels nvidia.com/gpu.count=8 and nvidia.com/gpu.replicas=2",
		},
		"8 cards in 2 replicas each, the node offers 32 of the shares' resource: withheld": {
			node:         counted + twoEach + shared + ":32",
			wantWithheld: []NodeCard{{"NVIDIA-H800/mps-80g*1/2", shared, 32}},
			wantMessage:  withheld,
		},
		"7 slices, the node offers 28: withheld": {
			node:         h800 + slice + ".count=7 " + slice + ":28",
			wantWithheld: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed", slice, 28}},
			wantMessage:  "offers 28 nvidia.com/mig-1g.10gb, more than label nvidia.com/mig-1g.10gb.count=7 says",
		},
		"7 slices in 4 replicas each are 28 shares": {
			node:      h800 + slice + ".count=7 " + slice + ".replicas=4 " + slice + ":28",
			wantCards: []NodeCard{{"NVIDIA-H800/mig-1g.10gb-mixed-SHARED", slice, 28}},
		},
		"2 cards of another vendor, the node offers 8: withheld": {
			node:         "a.b/c.product=X a.b/c.memory=1 a.b/c.count=2 a.b/c:8",
			wantWithheld: []NodeCard{{"X", "a.b/c", 8}},
			wantMessage:  withheld,
		},
		"a resource with another name than its labels has no count": {
			node:      npu + "huawei.com/npu.count=1 huawei.com/Ascend910.count=1 huawei.com/Ascend910:8",
			wantCards: []NodeCard{{"Ascend-910B", "huawei.com/Ascend910", 8}},
		},
		"count 8, the node offers 80, and an entry of spec.cards names them": {
			node:      counted + gpu + ":80",
			mappings:  Mappings{mapCards},
			wantCards: []NodeCard{{"Tenth", gpu, 80}},
		},
		"count 8, the node offers 80, and an entry for other nodes names them: withheld": {
			node:         counted + gpu + ":80",
			mappings:     Mappings{mapCardsElsewhere},
			wantWithheld: []NodeCard{{"NVIDIA-H800", gpu, 80}},
			wantMessage:  withheld,
		},
	}) {
		node := newNode(tc.node)
		expectValidKeysAndValues(t, node)

		got := Recognise(node, tc.mappings)
		check.Equal(t, "cards", tc.wantCards, got.Cards)
		check.Equal(t, "withheld cards", tc.wantWithheld, got.Withheld)
		check.Equal(t, "number of withheld resources", len(tc.wantWithheld), len(got.Unnamed))
		for i, card := range tc.wantWithheld {
			check.Equal(t, "withheld resource", card.Resource, got.Unnamed[i])
		}

		if tc.wantMessage == "" {
			check.Equal(t, "anomalies", 0, len(got.Anomalies))
			continue
		}
		check.Must(t, len(got.Anomalies) == 1, "anomalies %+v", got.Anomalies)
		check.Equal(t, "reason", MoreThanLabelled, got.Anomalies[0].Reason)
		check.Contains(t, "message", got.Anomalies[0].Message, tc.wantMessage)
	}
}

// TestSharesWhoseNameIsTooLong: the model of a card name has at most 63 characters. The model of these shares is 60
// characters and -SHARED, 67 together. No quota could be written for it, so the node offers no card and has an
// anomaly.
func TestSharesWhoseNameIsTooLong(t *testing.T) {
	product := "nvidia.com/gpu.product=" + strings.Repeat("A", 60)
	got := Recognise(newNode(product+" nvidia.com/gpu.memory=1 nvidia.com/gpu.replicas=2 nvidia.com/gpu:2"), nil)

	check.Must(t, len(got.Anomalies) == 1 && len(got.Cards) == 0, "%+v", got)
	check.Equal(t, "reason", InvalidLabel, got.Anomalies[0].Reason)
}

// TestWithheldCardsKeepTheirName: node eighty has a label of 8 cards and offers 80, so it withholds them, and the
// inventory counts none of them. Pods that run on the node already are still charged by the card's name. Node nine
// offers 9 beside a label of 8, and these are not withheld. A pod of an unknown node uses no card.
func TestWithheldCardsKeepTheirName(t *testing.T) {
	inventory := inventoryOf(map[string]string{
		"eighty": h800 + "nvidia.com/gpu.count=8 nvidia.com/gpu:80",
		"nine":   h200 + "nvidia.com/gpu.count=8 nvidia.com/gpu:9",
	})

	_, isOffered := inventory.CardOnNode("eighty", "nvidia.com/gpu")
	check.That(t, !isOffered, "the withheld card is offered")
	inUse, _ := inventory.CardInUseOnNode("eighty", "nvidia.com/gpu")
	check.Equal(t, "card that running pods use", "NVIDIA-H800", inUse)

	check.Equal(t, "physical", map[Name]Count{"NVIDIA-H200": 9}, inventory.Physical())
	check.That(t, inventory.IsCard("nvidia.com/gpu"), "the resource is no card any more")
	check.Equal(t, "nodes that withhold cards", 1, inventory.AnomalousNodes())

	_, isKnown := inventory.CardInUseOnNode("unknown", "nvidia.com/gpu")
	check.That(t, !isKnown, "an unknown node has a card")
}

// TestSharingStrategyCountsOnlyForShares: label sharing-strategy says how shares are made: "time-slicing" or
// "mps". With "none" and without the label the strategy is "". It counts only where the node offers shares:
// under a resource of their own (gpu.shared), or as a card named -SHARED, by its product or because label
// replicas is above 1. Shares of slices have labels of their own, named after the slice.
func TestSharingStrategyCountsOnlyForShares(t *testing.T) {
	const (
		gpu   = "nvidia.com/gpu"
		slice = "nvidia.com/mig-1g.10gb"
	)

	for t, tc := range check.Cases(t, map[string]struct{ node, want string }{
		"whole cards without the label": {
			node: h800 + gpu + ":1",
		},
		"whole cards with the label none": {
			node: h800 + gpu + ".sharing-strategy=none " + gpu + ":1",
		},
		"whole cards with the label mps: nothing is shared": {
			node: h800 + gpu + ".sharing-strategy=mps " + gpu + ":1",
		},
		"shares by time slicing": {
			node: h800 + gpu + ".replicas=4 " + gpu + ".sharing-strategy=time-slicing " + gpu + ".shared:4",
			want: "time-slicing",
		},
		"shares by MPS": {
			node: h800 + gpu + ".replicas=4 " + gpu + ".sharing-strategy=mps " + gpu + ".shared:4",
			want: "mps",
		},
		"shares by MPS under the cards' resource": {
			node: "nvidia.com/gpu.product=A10-SHARED nvidia.com/gpu.memory=1 " + gpu + ".sharing-strategy=mps " + gpu + ":4",
			want: "mps",
		},
		"shares without the label":   {h800 + gpu + ".replicas=4 " + gpu + ".shared:4", ""},
		"shares with the label none": {h800 + gpu + ".replicas=4 " + gpu + ".sharing-strategy=none " + gpu + ".shared:4", ""},
		"shares of slices by time slicing": {
			h800 + gpu + ".sharing-strategy=none " + slice + ".replicas=4 " + slice + ".sharing-strategy=time-slicing " + slice + ":28",
			"time-slicing",
		},
		"shares of slices by MPS under a resource of their own": {
			h800 + gpu + ".sharing-strategy=none " + slice + ".replicas=4 " + slice + ".sharing-strategy=mps " + slice + ".shared:28",
			"mps",
		},
	}) {
		node := newNode(tc.node)
		cards := Recognise(node, nil).Cards
		check.Must(t, len(cards) == 1, "cards %+v", cards)
		check.Equal(t, "strategy", tc.want, SharingStrategy(node, cards[0]))
	}
}
