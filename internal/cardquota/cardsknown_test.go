package cardquota

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
)

func TestCardsKnown(t *testing.T) {
	fleet := cards{"NVIDIA-H200": 8, "NVIDIA-H800": 0, "Ascend-910B": 8, "NVIDIA-H20": 8, "MXC550": 8, "PPU-ZW810E": 16}
	for t, tc := range check.Cases(t, map[string]struct {
		physical cards
		spec     []string
		want     string
	}{
		"known":             {fleet, []string{"NVIDIA-H200", "Ascend-910B"}, "True/CardsKnown: every card of the spec exists on some node"},
		"all of it broken":  {fleet, []string{"NVIDIA-H800"}, "True/CardsKnown: every card of the spec exists on some node"},
		"no card":           {fleet, nil, "True/CardsKnown: every card of the spec exists on some node"},
		"a digit too many":  {fleet, []string{"NVIDIA-H2000"}, "False/UnknownCard: no node has NVIDIA-H2000; did you mean NVIDIA-H200?"},
		"other letters":     {fleet, []string{"nvidia-h200"}, "False/UnknownCard: no node has nvidia-h200; did you mean NVIDIA-H200?"},
		"two are near":      {cards{"A-22": 1, "A-21": 1}, []string{"A-2"}, "False/UnknownCard: no node has A-2; did you mean A-21?"},
		"a third is enough": {cards{"abcdef": 1}, []string{"xxcdef"}, "False/UnknownCard: no node has xxcdef; did you mean abcdef?"},
		"more is too much":  {cards{"abcdef": 1}, []string{"xxxdef"}, "False/UnknownCard: no node has xxxdef; nodes have abcdef"},
		"none is near": {fleet, []string{"Tesla-T4"},
			"False/UnknownCard: no node has Tesla-T4; nodes have Ascend-910B, MXC550, NVIDIA-H20, NVIDIA-H200, NVIDIA-H800 and 1 more"},
		"no node": {cards{}, []string{"NVIDIA-H200"}, "False/UnknownCard: no node has NVIDIA-H200; no node offers a card yet"},
		"a near one that the node shares now": {cards{"NVIDIA-H100": 0, "NVIDIA-H100/mps-80g*1/4": 4}, []string{"NVIDIA-H100-SHARED"},
			"False/UnknownCard: no node has NVIDIA-H100-SHARED; did you mean NVIDIA-H100, of which no node has a card now?; nodes have NVIDIA-H100, NVIDIA-H100/mps-80g*1/4"},
		"without the vendor": {fleet, []string{"H200"}, "False/UnknownCard: no node has H200; did you mean NVIDIA-H200?"},
		"several": {cards{"NVIDIA-H200": 1}, []string{"Tesla-T4", "NVIDIA-H200", "NVIDIA-H20O", "X", "Y", "Z"},
			"False/UnknownCard: no node has Tesla-T4, no node has NVIDIA-H20O; did you mean NVIDIA-H200?, no node has X, and 2 more cards; nodes have NVIDIA-H200"},
		"not counted": {nil, []string{"NVIDIA-H200"}, "Unknown/NotCounted: the cards of the nodes have not been counted yet"},
	}) {
		f := factsOfCards(tc.physical, tc.spec...)
		status := NewStatus(f)
		got := conditions.Get(status.Conditions, v1alpha1.ConditionCardsKnown)
		check.Equal(t, "condition", tc.want, string(got.Status)+"/"+got.Reason+": "+got.Message)
		check.Equal(t, "Ready does not depend on it", metav1.ConditionTrue, conditions.Get(status.Conditions, v1alpha1.ConditionReady).Status)

		f.Quota.Status = status
		f.Physical = nil
		check.Equal(t, "after a restart", got, conditions.Get(NewStatus(f).Conditions, v1alpha1.ConditionCardsKnown))

		isWarned := false
		for _, event := range Events(v1alpha1.CardQuotaStatus{}, status) {
			isWarned = isWarned || (event.Reason == v1alpha1.ReasonUnknownCard && event.Type == "Warning" && event.Message == got.Message)
		}

		check.Equal(t, "an event warns", got.Status == metav1.ConditionFalse, isWarned)
	}
}

// TestACardMayHaveNoNameYet: the device plugin of a new node reports before its labels are there, a label may name
// the card of the spec whose memory label lacks, and cards may be withheld. No other name is suggested then.
func TestACardMayHaveNoNameYet(t *testing.T) {
	unlabelled := card.UnnamedCards{Resource: "nvidia.com/gpu", Message: "offers nvidia.com/gpu but no label names the card", Nodes: []string{"new-0", "new-1"}}
	withoutMemory := card.UnnamedCards{Resource: "nvidia.com/gpu", Message: "no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10", Nodes: []string{"spark"}}
	withheld := card.UnnamedCards{Resource: "nvidia.com/gpu", Card: "NVIDIA-A10G", Message: "offers 10 nvidia.com/gpu; no new pod gets one of them", Nodes: []string{"a", "b"}}

	for t, tc := range check.Cases(t, map[string]struct {
		spec     []string
		physical cards
		unnamed  []card.UnnamedCards
		want     string
	}{
		"another name": {[]string{"Tesla-T4"}, cards{"NVIDIA-H200": 8}, []card.UnnamedCards{unlabelled},
			"no node has Tesla-T4; nodes have NVIDIA-H200; or it is not named yet: nodes new-0, new-1: offers nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels"},
		"a near name": {[]string{"H200"}, cards{"NVIDIA-H200": 8}, []card.UnnamedCards{unlabelled},
			"no node has H200; did you mean NVIDIA-H200?; or it is not named yet: nodes new-0, new-1: offers nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels"},
		"a fleet without names": {[]string{"NVIDIA-H200"}, cards{}, []card.UnnamedCards{unlabelled},
			"no node has NVIDIA-H200; or it is not named yet: nodes new-0, new-1: offers nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels"},
		"a label has the name": {[]string{"NVIDIA-GB10"}, cards{"NVIDIA-GB10-Z": 8}, []card.UnnamedCards{withoutMemory},
			"no new pod gets NVIDIA-GB10: node spark: no label nvidia.com/gpu.memory beside nvidia.com/gpu.product=NVIDIA-GB10"},
		"withheld cards": {[]string{"NVIDIA-A10G"}, cards{"NVIDIA-A10": 8}, []card.UnnamedCards{unlabelled, withheld},
			"no new pod gets NVIDIA-A10G: nodes a, b: offers 10 nvidia.com/gpu; no new pod gets one of them"},
		"withheld cards beside an unknown one": {[]string{"NVIDIA-A10G", "Tesla-T4"}, cards{"NVIDIA-A10": 8}, []card.UnnamedCards{unlabelled, withheld},
			"no new pod gets NVIDIA-A10G: nodes a, b: offers 10 nvidia.com/gpu; no new pod gets one of them, no node has Tesla-T4; nodes have NVIDIA-A10; or it is not named yet: nodes new-0, new-1: " +
				"offers nvidia.com/gpu but no label names the card; wait for the discovery of the vendor, or correct the labels"},
	}) {
		f := factsOfCards(tc.physical, tc.spec...)
		f.Unnamed = tc.unnamed
		check.Equal(t, "message", tc.want, conditions.Get(NewStatus(f).Conditions, v1alpha1.ConditionCardsKnown).Message)
	}
}

// factsOfCards are those of a team with quota of these cards, and of the cards of all nodes.
func factsOfCards(physical cards, spec ...string) StatusInput {
	f := facts(nil, nil)
	f.Physical = physical
	f.Quota.Spec.Cards = nil
	for _, name := range spec {
		f.Quota.Spec.Cards = append(f.Quota.Spec.Cards, v1alpha1.Card{Name: name, Quota: ptr[int64](1)})
	}
	return f
}
