package liveness

import "testing"

// TestWhatFitsStartsInATree: random sequences of scheduling sessions with trees of queues. There the quotas of all
// ancestors count, and queues borrow from each other and take cards back. After the last change of a sequence, every
// gang or pod that fits must start. All other checks of the package comment must pass too.
func TestWhatFitsStartsInATree(t *testing.T) { playRandomSequences(t, *treeSequences, generateTree) }

// TestWhatFitsStartsInATreeBesidePreemption: random sequences of scheduling sessions in which jobs of several queues
// of a tree preempt others of their queue. After the last change of a sequence, every gang or pod that fits must
// start. All other checks of the package comment must pass too.
func TestWhatFitsStartsInATreeBesidePreemption(t *testing.T) {
	playRandomSequences(t, *treeSequences/4, generatePreemptingTree)
}

// TestWhatFitsStartsInATreeWhenOtherPodsEnd: random sequences of scheduling sessions in which a gang gets its cards
// one by one, as pods of other queues end. These queues of the tree borrow. The gang must start after a bounded number
// of such ends. All other checks of the package comment must pass too.
func TestWhatFitsStartsInATreeWhenOtherPodsEnd(t *testing.T) {
	playRandomSequences(t, *treeSequences/10, generateTreeTurns)
}

// TestASchedulerThatDoesNotKnowTheTreeIsFound: the checks of the random sequences must find a scheduler that breaks
// the rules of a tree. "flat" is one that schedules flat queues, while the checks know the tree. Node n has 4 cards
// A. Queue top has a quota of 3 and deserves 2. Its leaves a and b have quota 4 and deserve 1 each. Queue c has quota
// 4 and deserves 2. "job x queue=a min=3 pending=3" is a gang of three pods that waits, with a card each;
// "running=n*4" are four pods that run on n. "policy without=cardreclaim" is a scheduler that takes nothing back.
// Each row wants the failure that the checks find. A "closed queue" is any that takes no pods, also a parent.
func TestASchedulerThatDoesNotKnowTheTreeIsFound(t *testing.T) {
	const queues = `
		node n model=A cards=4
		queue top quota={"A":3} reclaimable=false parentOnly=true deserved={"A":2}
		queue a quota={"A":4} priority=20000 serviceType=training parent=top deserved={"A":1}
		queue b quota={"A":4} priority=20000 serviceType=training parent=top deserved={"A":1}
		queue c quota={"A":4} priority=20000 serviceType=training deserved={"A":2}
	`
	const tree = "policy queueHierarchy=Tree\n" + queues
	const flat = "policy check=Tree\n" + queues
	const cBorrows = "job r queue=c min=4 running=n*4 age=1h\n"

	playAndExpectFailures(t, map[string]sequenceCase{
		"a uses 3, which is the quota of top":      {tree + "job x queue=a min=3 pending=3", ""},
		"flat: a uses 4, and top has a quota of 3": {flat + "job x queue=a min=4 pending=4", "placed above a quota"},
		"flat: a uses 3 of 4 cards, and c is guaranteed 2": {`
			policy check=Tree
			node n model=A cards=4
			queue top quota={"A":3} reclaimable=false parentOnly=true deserved={"A":2} guarantee={"A":2}
			queue a quota={"A":4} priority=20000 serviceType=training parent=top deserved={"A":1}
			queue b quota={"A":4} priority=20000 serviceType=training parent=top deserved={"A":1}
			queue c quota={"A":4} priority=20000 serviceType=training deserved={"A":2} guarantee={"A":2}
			job x queue=a min=3 pending=3`, "took a guarantee"},
		"flat: a job starts in top, which is a parent": {flat + "job x queue=top min=1 pending=1", "placed in a closed queue"},
		"flat: c borrows 1 with a job that is not preemptable, so no queue gets it back": {
			flat + "job x queue=c min=3 pending=3 preemptable=false", "borrowed for good",
		},
		"c borrows 2, and a gets its card back": {tree + cBorrows + "job x queue=a min=1 pending=1", ""},
		"c borrows 2, and nothing is reclaimed": {tree + cBorrows + `
			job x queue=a min=1 pending=1
			policy without=cardreclaim`, "below what it deserves and waits for ever"},
		"all cards are used by queues within what they deserve, and nothing is reclaimed": {tree + `
			job r queue=c min=1 running=n*2 age=1h
			job s queue=b min=1 running=n age=1h
			job q queue=a min=1 running=n age=1h
			job x queue=a min=1 pending=1
			policy without=cardreclaim`, ""},
		"flat: a, of inference, evicts training for 2 cards, and deserves 1": {`
			policy check=Tree
			node n model=A cards=4
			queue top quota={"A":3} reclaimable=false parentOnly=true deserved={"A":2}
			queue a quota={"A":4} priority=80000 serviceType=inference parent=top deserved={"A":1}
			queue b quota={"A":4} priority=20000 serviceType=training parent=top deserved={"A":1}
			queue c quota={"A":4} priority=20000 serviceType=training deserved={"A":2}
			job r queue=c min=4 running=n*4 age=1h
			job x queue=a min=2 pending=2`, "evicted in order to borrow"},
	})
}
