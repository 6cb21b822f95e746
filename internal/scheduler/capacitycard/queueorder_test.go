package capacitycard

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWeightsDivideCardsAmongFlatQueues: of queues of equal priority that wait, the one comes first
// whose used part of its quota is smaller for its weight.
func TestWeightsDivideCardsAmongFlatQueues(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, light, heavy string }{
		"one to two":                     {`queue x {"A":16}; queue y {"A":16} weight=2; j x 1: -*9; k y 1: -*9`, "a:3", "a:6"},
		"one to two beside what runs":    {`queue x {"A":16}; queue y {"A":16} weight=2; x x 1: a*2; y y 1: a; j x 1: -*9; k y 1: -*9`, "a:1", "a:5"},
		"parts of different quotas":      {`queue x {"A":16}; queue y {"A":8} weight=2; j x 1: -*8; k y 1: -*8`, "a:5", "a:4"},
		"what the other one leaves":      {`queue x {"A":16}; queue y {"A":16} weight=2; j x 1: -*9; k y 1: -*2`, "a:7", "a:2"},
		"a weight of 0 counts as 1":      {`queue x {"A":16}; queue y {"A":16} weight=0; y y 1: a; j x 1: -*9; k y 1: -*9`, "a:5", "a:3"},
		"the priority comes first":       {`queue x {"A":16} 1; queue y {"A":16} weight=9; j x 1: -*9; k y 1: -*9`, "a:9", ""},
		"only the ratio matters":         {`queue x {"A":16} weight=7; queue y {"A":16} weight=14; j x 1: -*9; k y 1: -*9`, "a:3", "a:6"},
		"a full queue waits in any case": {`queue x {"A":16}; queue y {"A":2} weight=9; j x 1: -*9; k y 1: -*9`, "a:7", "a:2"},
	}) {
		s := newScene(t, "node a A 9;"+tc.text, requests("cpu", "0"), requests("memory", "0")).enqueueAndAllocate()

		check.Equal(t, "placed of the light and the heavy queue", tc.light+" "+tc.heavy, s.podsByNode("j")+" "+s.podsByNode("k"))
	}
}

// TestWeightsComeAfterPriority: queueOrder is asked for both orders of a pair.
func TestWeightsComeAfterPriority(t *testing.T) {
	s := newScene(t, `node a A 9; queue x {"A":4} 1; queue y {"A":4} weight=2; i x 1: a; j y 1: a`).openSession()
	x := s.Ssn.Queues[api.QueueID("x")]
	y := s.Ssn.Queues[api.QueueID("y")]
	check.That(t, s.p.queueOrder(x, y) < 0 && s.p.queueOrder(y, x) > 0, "a heavier queue comes before one of higher priority")
}
