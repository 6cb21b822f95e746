package quota

import (
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// newGuaranteedTree returns a ledger with queues x, which is guaranteed 4 A, and y under root,
// and an inventory of 8 A.
func newGuaranteedTree() *Ledger {
	quota := card.Quota{"A": 8}
	return newTreeLedger(map[string]Position{"x": {}, "y": {}}, map[string]Limits{
		"x": {Cards: quota, Deserved: Amounts{"A": 8}, Guarantee: Amounts{"A": 4}},
		"y": {Cards: quota, Deserved: Amounts{"A": 8}},
	}, quota)
}

func TestHoldOfADeletedQueueEnds(t *testing.T) {
	l := newGuaranteedTree()
	l.Hold("pod", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 4}}})
	l.Retain(func(name string) bool { return name == "y" })
	l.EndKeeping("pod")
	check.That(t, l.FitsCard("y", "A", 8, false), "nothing is held for a pod of a queue that is gone")
}

func TestRequestBeyondTheGuaranteesOfOthersNeverFits(t *testing.T) {
	l := newGuaranteedTree()
	check.That(t, l.CouldFit("y", "A", 4) && !l.CouldFit("y", "A", 5), "y could use 4 of 8 A beside the guarantee of x")
	check.That(t, l.CouldFit("x", "A", 8), "x could use all A, because its own guarantee is no limit for it")
	l.SetTree(nil)
	l.SetLimits("y", Limits{Cards: card.Quota{"A": 5}})
	check.That(t, l.CouldFit("y", "A", 5) && !l.CouldFit("y", "A", 6), "a flat queue could use its quota")
}

// What is already used beyond the guarantees of others must be released as well.
func TestGuaranteeThatIsNotFreeMustBeReleased(t *testing.T) {
	l := newGuaranteedTree()
	l.Charge("borrower", &Charge{Queue: "y", Cards: []card.Amount{{Name: "A", Count: 8}}})
	m := l.MayUseByLevel("y", "A")
	check.That(t, m.Limit(1, 1, 1) == -4, "y may use %d A more, want 4 less than none", m.Limit(1, 1, 1))
	m = l.MayUseByLevel("x", "A")
	check.That(t, m.Limit(1, 4, 1) == 4 && m.Limit(1, 5, 1) == 0, "x may use its guarantee of 4 A, and nothing beyond without evictions: %v", m)
}

func TestWhatAQueueDeservesBesideItsUse(t *testing.T) {
	l := newGuaranteedTree()
	l.Charge("running", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 3}}})
	check.That(t, l.Deserves("x", "A", 5) && !l.Deserves("x", "A", 6), "x deserves 5 A more beside 3 in use")
	l.SetTree(nil)
	l.SetLimits("x", Limits{Cards: card.Quota{"A": 5}})
	check.That(t, l.Deserves("x", "A", 2) && !l.Deserves("x", "A", 3), "a flat queue deserves its quota of 5 A, of which 3 are in use")
}

// TestHoldKeepsOtherQueuesOut: the queue itself may use what is held for its pods, up to what it
// deserves.
func TestHoldKeepsOtherQueuesOut(t *testing.T) {
	quota := card.Quota{"A": 7}
	l := newTreeLedger(map[string]Position{"p": {}, "x": {Parent: "p"}, "y": {Parent: "p"}}, map[string]Limits{
		"p": {Cards: quota, Deserved: Amounts{"A": 7}},
		"x": {Cards: quota, Deserved: Amounts{"A": 4}},
		"y": {Cards: quota, Deserved: Amounts{"A": 3}},
	}, card.Quota{"A": 20})
	l.Hold("pod", &Charge{Queue: "x", Cards: []card.Amount{{Name: "A", Count: 4}}})
	check.That(t, l.FitsCard("y", "A", 3, false) && !l.FitsCard("y", "A", 4, false), "y may use 3 of 7 A beside the 4 that are held for x")
	check.That(t, l.FitsCard("x", "A", 4, false) && !l.FitsCard("x", "A", 5, false), "x may use the 4 A that are held and that it deserves, and borrow none of them")

	l.EndKeeping("pod")
	check.That(t, l.FitsCard("y", "A", 7, false) && l.FitsCard("x", "A", 7, false), "each may use all 7 A once the hold has ended")
}
