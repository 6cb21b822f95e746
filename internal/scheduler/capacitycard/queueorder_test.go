package capacitycard

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWeightsDivideCardsAmongFlatQueues: of queues of equal priority, Volcano serves the one first that uses the
// smaller part of its quota, divided by its weight. Of two equal queues, x comes first. So the 9 cards of the node
// are divided about as the weights are. Queue x has a weight of 1 unless the row says more, and job j; queue y has
// job k. Pods request no CPU and memory, so that only cards count.
func TestWeightsDivideCardsAmongFlatQueues(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ queues, jobs, wantOfX, wantOfY string }{
		"weights 1 and 2: 3 and 6 cards": {
			queues: `queue x quota={"A":16}; queue y quota={"A":16} weight=2`,
			jobs:   "job j queue=x min=1 pending=9; job k queue=y min=1 pending=9", wantOfX: "a:3", wantOfY: "a:6",
		},
		"weights 1 and 2, x uses 2 cards and y 1: with 1 and 5 more both are at 3 and 6": {
			queues: `queue x quota={"A":16}; queue y quota={"A":16} weight=2`,
			jobs: `job x queue=x min=1 running=a*2; job y queue=y min=1 running=a
				job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, wantOfX: "a:1", wantOfY: "a:5",
		},
		"weights 1 and 2, quotas 16 and 8: a card counts 1/16 for x and 1/8 ÷ 2 for y, so 5 and 4 cards": {
			queues: `queue x quota={"A":16}; queue y quota={"A":8} weight=2`,
			jobs:   "job j queue=x min=1 pending=8; job k queue=y min=1 pending=8", wantOfX: "a:5", wantOfY: "a:4",
		},
		"weights 1 and 2, and y needs only 2 cards: x gets the other 7": {
			queues: `queue x quota={"A":16}; queue y quota={"A":16} weight=2`,
			jobs:   "job j queue=x min=1 pending=9; job k queue=y min=1 pending=2", wantOfX: "a:7", wantOfY: "a:2",
		},
		"weight 0 counts as 1, and y uses 1 card: 5 for x, 3 more for y": {
			queues: `queue x quota={"A":16}; queue y quota={"A":16} weight=0`,
			jobs: `job y queue=y min=1 running=a
				job j queue=x min=1 pending=9; job k queue=y min=1 pending=9`, wantOfX: "a:5", wantOfY: "a:3",
		},
		"x has the higher priority, y a weight of 9: all for x": {
			queues: `queue x quota={"A":16} priority=1; queue y quota={"A":16} weight=9`,
			jobs:   "job j queue=x min=1 pending=9; job k queue=y min=1 pending=9", wantOfX: "a:9", wantOfY: "",
		},
		"weights 7 and 14 are as 1 and 2: 3 and 6 cards": {
			queues: `queue x quota={"A":16} weight=7; queue y quota={"A":16} weight=14`,
			jobs:   "job j queue=x min=1 pending=9; job k queue=y min=1 pending=9", wantOfX: "a:3", wantOfY: "a:6",
		},
		"y has a weight of 9 and a quota of 2: 2 for y, 7 for x": {
			queues: `queue x quota={"A":16}; queue y quota={"A":2} weight=9`,
			jobs:   "job j queue=x min=1 pending=9; job k queue=y min=1 pending=9", wantOfX: "a:7", wantOfY: "a:2",
		},
	}) {
		s := newScene(t, "node a model=A cards=9;"+tc.queues+";"+tc.jobs, requests("cpu", "0"), requests("memory", "0")).enqueueAndAllocate()

		check.Equal(t, "placed pods of x", tc.wantOfX, s.podsByNode("j"))
		check.Equal(t, "placed pods of y", tc.wantOfY, s.podsByNode("k"))
	}
}

// TestWeightsComeAfterPriority: queue x has the higher priority, y the higher weight, and each uses 1 of 4 cards. x
// comes first, in whichever order Volcano names the two.
func TestWeightsComeAfterPriority(t *testing.T) {
	s := newScene(t, `node a model=A cards=9
		queue x quota={"A":4} priority=1
		queue y quota={"A":4} weight=2
		job i queue=x min=1 running=a
		job j queue=y min=1 running=a`).openSession()
	x := s.Ssn.Queues["x"]
	y := s.Ssn.Queues["y"]

	check.That(t, s.p.allocation.queueOrder(x, y) < 0, "the queue of higher priority does not come before the heavier one")
	check.That(t, s.p.allocation.queueOrder(y, x) > 0, "the heavier queue does not come after the one of higher priority")
}
