package capacitycard

import (
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestPackingPrefersFullerNodes compares nodes for one pod, the better one first.
func TestPackingPrefersFullerNodes(t *testing.T) {
	one := [2]float64{1, 1}
	gang := [2]float64{2, 8}

	for t, tc := range check.Cases(t, map[string]struct {
		pod           [2]float64 // cards of the pod, and of the rest of its gang
		better, worse placement
	}{
		"in use before unused":       {one, placement{total: 8, idle: 5, fitsRest: true, pods: 5}, placement{total: 8, idle: 8, fitsRest: true, pods: 8}},
		"the fullest of all in use":  {one, placement{total: 8, idle: 1, fitsRest: true, pods: 1}, placement{total: 8, idle: 2, fitsRest: true, pods: 2}},
		"a small unused node":        {one, placement{total: 2, idle: 2, fitsRest: true, pods: 2}, placement{total: 8, idle: 8, fitsRest: true, pods: 8}},
		"the whole gang fits":        {gang, placement{total: 8, idle: 8, fitsRest: true, pods: 4}, placement{total: 8, idle: 4, pods: 2}},
		"the gang is there":          {gang, placement{total: 8, idle: 2, holdsGang: true, pods: 1}, placement{total: 8, idle: 8, fitsRest: true, pods: 4}},
		"the larger part fits":       {gang, placement{total: 8, idle: 6, pods: 3}, placement{total: 8, idle: 2, pods: 1}},
		"what the gang fills":        {gang, placement{total: 8, idle: 8, fitsRest: true, pods: 4}, placement{total: 16, idle: 16, fitsRest: true, pods: 8}},
		"not to be avoided":          {one, placement{total: 8, idle: 8, fitsRest: true, pods: 8}, placement{total: 8, idle: 1, avoided: true, holdsGang: true, fitsRest: true, pods: 1}},
		"room now":                   {one, placement{total: 8, idle: 8, fitsRest: true, pods: 8}, placement{total: 8, idle: 0}},
		"waiting where most is used": {one, placement{total: 8, idle: 1}, placement{total: 8, idle: 4}},
	}) {
		better := scoreWith(tc.better, tc.pod)
		worse := scoreWith(tc.worse, tc.pod)
		check.That(t, better > worse, "%v for %+v, want more than %v for %+v", better, tc.better, worse, tc.worse)
	}
}

// TestScoreStepsDoNotOverlap: whatever nodes have, a step is between the scores of two steps.
func TestScoreStepsDoNotOverlap(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		node := func(label string) placement {
			total := rapid.IntRange(0, 80).Draw(t, label+" total")
			return placement{
				total: float64(total), idle: float64(rapid.IntRange(-1, total).Draw(t, label+" idle")),
				holdsGang: rapid.Bool().Draw(t, label+" holds"), fitsRest: rapid.Bool().Draw(t, label+" fits"),
				pods: rapid.IntRange(0, 80).Draw(t, label+" pods"),
			}
		}

		cards := float64(rapid.IntRange(1, 8).Draw(t, "cards"))
		pod := [2]float64{cards, cards * float64(rapid.IntRange(1, 8).Draw(t, "pods"))}
		a := node("a")
		b := node("b")
		scoreA := scoreWith(a, pod)
		scoreB := scoreWith(b, pod)
		check.Must(t, min(scoreA, scoreB) >= 0 && max(scoreA, scoreB) <= 1, "scores %v and %v are not from 0 to 1", scoreA, scoreB)

		check.Must(t, stepOf(a) <= stepOf(b) || scoreA-scoreB >= scoreStep-1e-9, "%v and %v are not a step apart: %+v, %+v", scoreA, scoreB, a, b)
	})
}

func stepOf(n placement) int {
	switch {
	case n.holdsGang:
		return 2
	case n.fitsRest:
		return 1
	}
	return 0
}

func scoreWith(p placement, cards [2]float64) float64 {
	p.cards = cards[0]
	p.restCards = cards[1]
	return p.score()
}
