package packing

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestWhichNodeIsPacked compares nodes for one pod, the better one first.
func TestWhichNodeIsPacked(t *testing.T) {
	one, gang := Pod{Cards: 1, RestCards: 1}, Pod{Cards: 2, RestCards: 8}
	for name, tc := range map[string]struct {
		pod           Pod
		better, worse Node
	}{
		"in use before unused":       {one, Node{Total: 8, Idle: 5, FitsRest: true, Pods: 5}, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 8}},
		"the fullest of all in use":  {one, Node{Total: 8, Idle: 1, FitsRest: true, Pods: 1}, Node{Total: 8, Idle: 2, FitsRest: true, Pods: 2}},
		"a small unused node":        {one, Node{Total: 2, Idle: 2, FitsRest: true, Pods: 2}, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 8}},
		"the whole gang fits":        {gang, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 4}, Node{Total: 8, Idle: 4, Pods: 2}},
		"the gang is there":          {gang, Node{Total: 8, Idle: 2, HoldsGang: true, Pods: 1}, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 4}},
		"the larger part fits":       {gang, Node{Total: 8, Idle: 6, Pods: 3}, Node{Total: 8, Idle: 2, Pods: 1}},
		"what the gang fills":        {gang, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 4}, Node{Total: 16, Idle: 16, FitsRest: true, Pods: 8}},
		"not to be avoided":          {one, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 8}, Node{Total: 8, Idle: 1, Avoided: true, HoldsGang: true, FitsRest: true, Pods: 1}},
		"room now":                   {one, Node{Total: 8, Idle: 8, FitsRest: true, Pods: 8}, Node{Total: 8, Idle: 0}},
		"waiting where most is used": {one, Node{Total: 8, Idle: 1}, Node{Total: 8, Idle: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			better, worse := Score(tc.better, tc.pod), Score(tc.worse, tc.pod)
			check.That(t, better > worse, "%v for %+v, want more than %v for %+v", better, tc.better, worse, tc.worse)
		})
	}
}

// TestStepsAreApart: whatever nodes have, a step is between the scores of two steps.
func TestStepsAreApart(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		node := func(label string) Node {
			total := rapid.IntRange(0, 80).Draw(t, label+" total")
			return Node{
				Total: float64(total), Idle: float64(rapid.IntRange(-1, total).Draw(t, label+" idle")),
				HoldsGang: rapid.Bool().Draw(t, label+" holds"), FitsRest: rapid.Bool().Draw(t, label+" fits"),
				Pods: rapid.IntRange(0, 80).Draw(t, label+" pods"),
			}
		}
		pod := Pod{Cards: float64(rapid.IntRange(1, 8).Draw(t, "cards"))}
		pod.RestCards = pod.Cards * float64(rapid.IntRange(1, 8).Draw(t, "pods"))
		a, b := node("a"), node("b")
		scoreA, scoreB := Score(a, pod), Score(b, pod)
		for _, score := range []float64{scoreA, scoreB} {
			if score < 0 || score > 1 {
				t.Fatalf("score %v is not from 0 to 1", score)
			}
		}
		if stepOf(a) > stepOf(b) && scoreA-scoreB < step-1e-9 {
			t.Fatalf("%v and %v are not a step apart: %s, %s", scoreA, scoreB, fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b))
		}
	})
}

func stepOf(n Node) int {
	switch {
	case n.HoldsGang:
		return 2
	case n.FitsRest:
		return 1
	}
	return 0
}
