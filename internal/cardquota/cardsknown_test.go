package cardquota

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
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
		"several": {cards{"NVIDIA-H200": 1}, []string{"Tesla-T4", "NVIDIA-H200", "NVIDIA-H20O", "X", "Y", "Z"},
			"False/UnknownCard: no node has Tesla-T4, no node has NVIDIA-H20O; did you mean NVIDIA-H200?, no node has X, and 2 more cards; nodes have NVIDIA-H200"},
		"not counted": {nil, []string{"NVIDIA-H200"}, "Unknown/NotCounted: the cards of the nodes have not been counted yet"},
	}) {
		b := builder.CardQuota("team")
		for _, name := range tc.spec {
			b.Card(name, 1)
		}
		f := facts(nil, nil)
		f.Quota, f.Physical = b.Obj(), tc.physical
		status := NewStatus(f)
		got := conditions.Get(status.Conditions, v1alpha1.ConditionCardsKnown)
		check.Equal(t, "condition", tc.want, string(got.Status)+"/"+got.Reason+": "+got.Message)
		check.Equal(t, "Ready does not depend on it", metav1.ConditionTrue, conditions.Get(status.Conditions, v1alpha1.ConditionReady).Status)
		f.Quota.Status, f.Physical = status, nil
		check.Equal(t, "after a restart", got, conditions.Get(NewStatus(f).Conditions, v1alpha1.ConditionCardsKnown))
		isWarned := false
		for _, event := range Events(v1alpha1.CardQuotaStatus{}, status) {
			isWarned = isWarned || event.Reason == v1alpha1.ReasonUnknownCard && event.Type == "Warning" && event.Message == got.Message
		}
		check.Equal(t, "an event warns", got.Status == metav1.ConditionFalse, isWarned)
	}
}

// plainDistance is the edit distance by its definition.
func plainDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	case a[0] == b[0]:
		return plainDistance(a[1:], b[1:])
	}
	return 1 + min(plainDistance(a[1:], b), plainDistance(a, b[1:]), plainDistance(a[1:], b[1:]))
}

func TestEditDistance(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{0,6}`)
		a, b, limit := text.Draw(t, "a"), text.Draw(t, "b"), rapid.IntRange(1, 8).Draw(t, "limit")
		check.Equal(t, a+" and "+b, min(plainDistance(a, b), limit), editDistance(a, b, limit))
	})
}

func TestNearestNameIsWithinAThird(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[abc]{1,7}`)
		known := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "known")
		wanted := name.Draw(t, "wanted")
		names := make([]card.Name, len(known))
		best := len(wanted)/3 + 1
		for i, other := range known {
			names[i] = card.Name(other)
			best = min(best, plainDistance(wanted, other))
		}
		got, found := nearestName(card.Name(wanted), names)
		check.Equal(t, "found", best <= len(wanted)/3, found)
		check.Must(t, !found || plainDistance(wanted, string(got)) == best, "%s is not the nearest of %v to %s", got, known, wanted)
	})
}
