package quota

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// newTreeWithGuaranteeOfX returns the ledger of queues x and y under root. The nodes have 8 A. Each queue has a
// quota of 8 A and deserves them all, and x is guaranteed 4 A.
func newTreeWithGuaranteeOfX() *Ledger {
	quota := card.Quota{"A": 8}
	return newTreeLedger(map[string]position{"x": {}, "y": {}}, map[string]Limits{
		"x": {Cards: quota, Deserved: Amounts{"A": 8}, Guarantee: Amounts{"A": 4}},
		"y": {Cards: quota, Deserved: Amounts{"A": 8}},
	}, quota)
}

// mostA returns the largest count of A, up to 20, that fits a queue within a bound.
func mostA(l *Ledger, queue string, bound Bound) (most card.Count) {
	for most < 20 && l.Fits(queue, Request{Names: []card.Name{"A"}, Count: most + 1}, Within{Bound: bound}) {
		most++
	}
	return most
}

// TestKeepingForADeletedQueueEnds: Keep keeps free cards for a pod that has reclaimed them and is not placed yet. Here it
// keeps 4 of the 8 A of the nodes for a pod of queue x, which is guaranteed 4. Both end when x is
// deleted, so all 8 fit y. A later EndKeeping of the pod changes nothing.
func TestKeepingForADeletedQueueEnds(t *testing.T) {
	l := newTreeWithGuaranteeOfX()
	l.Keep("pod", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 4}}})
	l.SetTree(&Tree{queues: map[string]*Resolved{"y": {Limits: l.queues["y"].limits}}})
	l.EndKeeping("pod")

	check.Equal(t, "A that fit queue y", 8, mostA(l, "y", QuotaLeft))
}

// TestRequestBeyondTheGuaranteesOfOthersNeverFits: a queue waits in vain for cards that are guaranteed to others,
// because no eviction frees them. Its own guarantee does not limit a queue. The nodes have 8 A, and queue x is
// guaranteed 4 of them. Without a tree nothing is guaranteed.
func TestRequestBeyondTheGuaranteesOfOthersNeverFits(t *testing.T) {
	l := newTreeWithGuaranteeOfX()
	check.Equal(t, "A that could fit queue y", 8-4, mostA(l, "y", QuotaIfIdle))
	check.Equal(t, "A that could fit queue x, which has the guarantee", 8, mostA(l, "x", QuotaIfIdle))

	l.SetTree(Flat.WithFlat(map[string]Limits{"y": {Cards: card.Quota{"A": 5}}}))
	check.Equal(t, "A that could fit queue y without a tree: its quota", 5, mostA(l, "y", QuotaIfIdle))
}

// TestGuaranteeThatIsNotFreeMustBeReleased: MayUseByLevel says how many more cards a queue may use at each level, here at
// root (level 1). Limit(root, 4, root) is that for a request of 4 cards, with victims at root: what they release adds
// to it. Queue y uses all 8 A of the nodes, and 4 of them are guaranteed to x. So y may use more only when over 4 are
// released. x may use its guarantee in full, because each node checks its own free cards. A larger request of x is
// limited by what is free.
func TestGuaranteeThatIsNotFreeMustBeReleased(t *testing.T) {
	const root = 1

	l := newTreeWithGuaranteeOfX()
	l.Charge("borrower", &Charge{Queue: "y", Cards: []card.Amount{{Name: "A", Count: 8}}})

	ofY := l.MayUseByLevel("y", "A")
	check.Equal(t, "y, of 8 A less 8 used and 4 guaranteed to x", int64(-4), ofY.Limit(root, 1, root))
	ofX := l.MayUseByLevel("x", "A")
	check.Equal(t, "x for a request of 4 A, which its guarantee covers", int64(4), ofX.Limit(root, 4, root))
	check.Equal(t, "x for a request of 5 A, beyond its guarantee: no A is free", int64(0), ofX.Limit(root, 5, root))
}

// TestUsageCountsAgainstWhatAQueueDeserves: cards are kept for a queue up to what it deserves and does not use yet. Queue x
// uses 3 A. In a tree it deserves 8 A, so 5 more. Without a tree a queue deserves its quota, here 5 A, so 2 more.
func TestUsageCountsAgainstWhatAQueueDeserves(t *testing.T) {
	l := newTreeWithGuaranteeOfX()
	l.Charge("running", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 3}}})
	check.Equal(t, "further A that x deserves", 8-3, mostA(l, "x", DeservedLeft))

	l.SetTree(Flat.WithFlat(map[string]Limits{"x": {Cards: card.Quota{"A": 5}}}))
	check.Equal(t, "further A that x deserves with a quota of 5 and no tree", 5-3, mostA(l, "x", DeservedLeft))
}

// TestKeptCardsAreNotForOtherQueues: Keep keeps free cards for a pod that has reclaimed them and is not placed yet. Here
// it keeps 4 of the parent's 7 A for a pod of x. Other queues cannot use them. x itself can, up to the 4 A that it
// deserves: otherwise it would borrow what was reclaimed for another of its pods.
func TestKeptCardsAreNotForOtherQueues(t *testing.T) {
	quota := card.Quota{"A": 7}
	l := newTreeLedger(map[string]position{"parent": {}, "x": {parent: "parent"}, "y": {parent: "parent"}}, map[string]Limits{
		"parent": {Cards: quota, Deserved: Amounts{"A": 7}},
		"x":      {Cards: quota, Deserved: Amounts{"A": 4}},
		"y":      {Cards: quota, Deserved: Amounts{"A": 3}},
	}, card.Quota{"A": 20})

	l.Keep("pod", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 4}}})
	check.Equal(t, "A that fit y beside the kept ones", 7-4, mostA(l, "y", QuotaLeft))
	check.Equal(t, "A that fit x: what it deserves", 4, mostA(l, "x", QuotaLeft))

	l.EndKeeping("pod")
	check.Equal(t, "A that fit y when none are kept", 7, mostA(l, "y", QuotaLeft))
	check.Equal(t, "A that fit x when none are kept", 7, mostA(l, "x", QuotaLeft))
}
