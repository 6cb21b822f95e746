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
		"one to two":                     {`queue x quota={"A":16}; queue y quota={"A":16} weight=2; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:3", "a:6"},
		"one to two beside what runs":    {`queue x quota={"A":16}; queue y quota={"A":16} weight=2; job x queue=x min=1 running=a*2; job y queue=y min=1 running=a; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:1", "a:5"},
		"parts of different quotas":      {`queue x quota={"A":16}; queue y quota={"A":8} weight=2; job j queue=x min=1 pending=8; job k queue=y min=1 pending=8`, "a:5", "a:4"},
		"what the other one leaves":      {`queue x quota={"A":16}; queue y quota={"A":16} weight=2; job j queue=x min=1 pending=9; job k queue=y min=1 pending=2`, "a:7", "a:2"},
		"a weight of 0 counts as 1":      {`queue x quota={"A":16}; queue y quota={"A":16} weight=0; job y queue=y min=1 running=a; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:5", "a:3"},
		"the priority comes first":       {`queue x quota={"A":16} priority=1; queue y quota={"A":16} weight=9; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:9", ""},
		"only the ratio matters":         {`queue x quota={"A":16} weight=7; queue y quota={"A":16} weight=14; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:3", "a:6"},
		"a full queue waits in any case": {`queue x quota={"A":16}; queue y quota={"A":2} weight=9; job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, "a:7", "a:2"},
	}) {
		s := newScene(t, "node a model=A cards=9;"+tc.text, requests("cpu", "0"), requests("memory", "0")).enqueueAndAllocate()

		check.Equal(t, "placed of the light and the heavy queue", tc.light+" "+tc.heavy, s.podsByNode("j")+" "+s.podsByNode("k"))
	}
}

// TestWeightsComeAfterPriority: queueOrder is asked for both orders of a pair.
func TestWeightsComeAfterPriority(t *testing.T) {
	s := newScene(t, `node a model=A cards=9; queue x quota={"A":4} priority=1; queue y quota={"A":4} weight=2; job i queue=x min=1 running=a; job j queue=y min=1 running=a`).openSession()
	x := s.Ssn.Queues[api.QueueID("x")]
	y := s.Ssn.Queues[api.QueueID("y")]
	check.That(t, s.p.queueOrder(x, y) < 0 && s.p.queueOrder(y, x) > 0, "a heavier queue comes before one of higher priority")
}
