package cardquota

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCardsKnown: condition CardsKnown is False, with a warning event, if no node has a card of the spec. Its
// message suggests the nearest name: at most a third of the letters differ, or only their case, the vendor or
// an ending. Otherwise it lists up to five cards of nodes. It is about at most three unknown cards. A card is
// known while nodes have 0 of it. Ready does not depend on CardsKnown. After a restart the condition stays
// until nodes are counted.
func TestCardsKnown(t *testing.T) {
	cardsOfNodes := cards{"NVIDIA-H200": 8, "NVIDIA-H800": 0, "Ascend-910B": 8, "NVIDIA-H20": 8, "MXC550": 8, "PPU-ZW810E": 16}
	for t, tc := range check.Cases(t, map[string]struct {
		physical cards
		spec     []string
		want     string
	}{
		"both cards are known": {
			physical: cardsOfNodes,
			spec:     []string{"NVIDIA-H200", "Ascend-910B"},
			want:     "True/CardsKnown: every card of the spec exists on some node",
		},
		"all H800 are broken, so nodes have 0 of them: known": {
			physical: cardsOfNodes,
			spec:     []string{"NVIDIA-H800"},
			want:     "True/CardsKnown: every card of the spec exists on some node",
		},
		"the spec has no card": {
			physical: cardsOfNodes,
			want:     "True/CardsKnown: every card of the spec exists on some node",
		},
		"H2000 differs from H200 by one letter": {
			physical: cardsOfNodes,
			spec:     []string{"NVIDIA-H2000"},
			want:     "False/UnknownCard: no node has NVIDIA-H2000; did you mean NVIDIA-H200?",
		},
		"nvidia-h200 differs by case": {
			physical: cardsOfNodes,
			spec:     []string{"nvidia-h200"},
			want:     "False/UnknownCard: no node has nvidia-h200; did you mean NVIDIA-H200?",
		},
		"A-21 and A-22 are equally near A-2: the first by name": {
			physical: cards{"A-22": 1, "A-21": 1},
			spec:     []string{"A-2"},
			want:     "False/UnknownCard: no node has A-2; did you mean A-21?",
		},
		"2 of 6 letters differ, which is a third": {
			physical: cards{"abcdef": 1},
			spec:     []string{"xxcdef"},
			want:     "False/UnknownCard: no node has xxcdef; did you mean abcdef?",
		},
		"3 of 6 letters differ": {
			physical: cards{"abcdef": 1},
			spec:     []string{"xxxdef"},
			want:     "False/UnknownCard: no node has xxxdef; nodes have abcdef",
		},
		"none of six cards is near: five are listed": {
			physical: cardsOfNodes,
			spec:     []string{"Tesla-T4"},
			want: "False/UnknownCard: no node has Tesla-T4; nodes have Ascend-910B, MXC550, NVIDIA-H20, NVIDIA-H200, " +
				"NVIDIA-H800 and 1 more",
		},
		"no node has cards": {
			physical: cards{},
			spec:     []string{"NVIDIA-H200"},
			want:     "False/UnknownCard: no node has NVIDIA-H200; no node offers a card yet",
		},
		"the near card is shared now, so nodes have 0 of it: the cards of nodes are listed, too": {
			physical: cards{"NVIDIA-H100": 0, "NVIDIA-H100/mps-80g*1/4": 4},
			spec:     []string{"NVIDIA-H100-SHARED"},
			want: "False/UnknownCard: no node has NVIDIA-H100-SHARED; did you mean NVIDIA-H100, of which no node has a card " +
				"now?; nodes have NVIDIA-H100, NVIDIA-H100/mps-80g*1/4",
		},
		"H200 without the vendor": {
			physical: cardsOfNodes,
			spec:     []string{"H200"},
			want:     "False/UnknownCard: no node has H200; did you mean NVIDIA-H200?",
		},
		"five unknown cards: three are named": {
			physical: cards{"NVIDIA-H200": 1},
			spec:     []string{"Tesla-T4", "NVIDIA-H200", "NVIDIA-H20O", "X", "Y", "Z"},
			want: "False/UnknownCard: no node has Tesla-T4, no node has NVIDIA-H20O; did you mean NVIDIA-H200?, no node has " +
				"X, and 2 more cards; nodes have NVIDIA-H200",
		},
		"nodes have not been counted": {
			spec: []string{"NVIDIA-H200"},
			want: "Unknown/NotCounted: the cards of the nodes have not been counted yet",
		},
	}) {
		input := newStatusInputOfCards(tc.physical, tc.spec...)
		status := NewStatus(input)
		got := conditions.Get(status.Conditions, v1alpha1.ConditionCardsKnown)
		check.Equal(t, "condition", tc.want, string(got.Status)+"/"+got.Reason+": "+got.Message)
		check.Equal(t, "Ready does not depend on it", metav1.ConditionTrue,
			conditions.Get(status.Conditions, v1alpha1.ConditionReady).Status)

		input.Quota.Status = status
		input.Physical = nil
		check.Equal(t, "after a restart", got, conditions.Get(NewStatus(input).Conditions, v1alpha1.ConditionCardsKnown))

		isWarned := false
		for _, event := range Events(v1alpha1.CardQuotaStatus{}, status) {
			isWarned = isWarned || (event.Reason == v1alpha1.ReasonUnknownCard && event.Type == "Warning" && event.Message == got.Message)
		}

		check.Equal(t, "an event warns", got.Status == metav1.ConditionFalse, isWarned)
	}
}

// TestACardMayHaveNoNameYet: nodes new-0 and new-1 offer cards without labels, so an unknown name may become the name
// of these cards. Node spark has a label with the very name NVIDIA-GB10, but no label of the memory. Nodes a and b
// withhold their NVIDIA-A10G. For NVIDIA-GB10 and NVIDIA-A10G the name is right, so the message suggests no other.
func TestACardMayHaveNoNameYet(t *testing.T) {
	unlabelled := card.UnnamedCards{
		Resource: "nvidia.com/gpu",
		Message:  "offers nvidia.com/gpu but no label names the card",
		Nodes:    []string{"new-0", "new-1"},
	}
	withoutMemory := card.UnnamedCards{
		Resource: "nvidia.com/gpu",
		Message:  "no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10",
		Nodes:    []string{"spark"},
	}
	withheld := card.UnnamedCards{
		Resource: "nvidia.com/gpu",
		Card:     "NVIDIA-A10G",
		Message:  "offers 10 nvidia.com/gpu; no new pod gets one of them",
		Nodes:    []string{"a", "b"},
	}

	for t, tc := range check.Cases(t, map[string]struct {
		spec     []string
		physical cards
		unnamed  []card.UnnamedCards
		want     string
	}{
		"an unknown name, and unnamed cards": {
			spec:     []string{"Tesla-T4"},
			physical: cards{"NVIDIA-H200": 8},
			unnamed:  []card.UnnamedCards{unlabelled},
			want: "no node has Tesla-T4; nodes have NVIDIA-H200; or it is not named yet: nodes new-0, new-1: offers " +
				"nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels",
		},
		"a name near another one, and unnamed cards": {
			spec:     []string{"H200"},
			physical: cards{"NVIDIA-H200": 8},
			unnamed:  []card.UnnamedCards{unlabelled},
			want: "no node has H200; did you mean NVIDIA-H200?; or it is not named yet: nodes new-0, new-1: offers " +
				"nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels",
		},
		"only unnamed cards": {
			spec:     []string{"NVIDIA-H200"},
			physical: cards{},
			unnamed:  []card.UnnamedCards{unlabelled},
			want: "no node has NVIDIA-H200; or it is not named yet: nodes new-0, new-1: offers nvidia.com/gpu but no label " +
				"names the card; wait for the discovery of the vendor, or correct the labels",
		},
		"a label has the very name, and the memory label is missing": {
			spec:     []string{"NVIDIA-GB10"},
			physical: cards{"NVIDIA-GB10-Z": 8},
			unnamed:  []card.UnnamedCards{withoutMemory},
			want:     "no new pod gets NVIDIA-GB10: node spark: no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10",
		},
		"withheld cards have the name": {
			spec:     []string{"NVIDIA-A10G"},
			physical: cards{"NVIDIA-A10": 8},
			unnamed:  []card.UnnamedCards{unlabelled, withheld},
			want:     "no new pod gets NVIDIA-A10G: nodes a, b: offers 10 nvidia.com/gpu; no new pod gets one of them",
		},
		"withheld cards have the name, and another name is unknown": {
			spec:     []string{"NVIDIA-A10G", "Tesla-T4"},
			physical: cards{"NVIDIA-A10": 8},
			unnamed:  []card.UnnamedCards{unlabelled, withheld},
			want: "no new pod gets NVIDIA-A10G: nodes a, b: offers 10 nvidia.com/gpu; no new pod gets one of them, no node has " +
				"Tesla-T4; nodes have NVIDIA-A10; or it is not named yet: nodes new-0, new-1: " +
				"offers nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels",
		},
	}) {
		input := newStatusInputOfCards(tc.physical, tc.spec...)
		input.Unnamed = tc.unnamed
		check.Equal(t, "message", tc.want, conditions.Get(NewStatus(input).Conditions, v1alpha1.ConditionCardsKnown).Message)
	}
}

// newStatusInputOfCards is for a team with a quota of 1 for each of these cards, and the cards of all nodes.
func newStatusInputOfCards(physical cards, spec ...string) StatusInput {
	input := newStatusInput(nil, nil)
	input.Physical = physical
	input.Quota.Spec.Cards = nil
	for _, name := range spec {
		input.Quota.Spec.Cards = append(input.Quota.Spec.Cards, v1alpha1.Card{Name: name, Quota: ptr[int64](1)})
	}
	return input
}
