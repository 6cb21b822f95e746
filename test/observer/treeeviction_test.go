package observer

import "testing"

// TestAQueueOfATreeReclaimsWhatIsBorrowed: by the tree a queue takes back cards that others borrow, and stays within
// what it deserves. The victim's queue, and each of its ancestors below the one that both queues share, must use more
// than it deserves. By the service types ("by type") inference takes cards from training, even such that are not
// borrowed, and stays within what it deserves too. A gang is evicted as a whole, even if that leaves its queue below
// what it deserves. No eviction leaves a queue or its ancestor below its guarantee. The observer must report every
// other eviction, as "eviction", and one for a pod that is not placed in 20 s. The scheduler may not know a change of
// the last 10 s, so what was right before it counts too. "quota" is a placement beyond what a queue deserves that
// cannot be reclaimed, so may not borrow. Scene: node h200-0 has 8 H200. Tenant top deserves 4, and its leaves a and
// b deserve 2 each. Tenant other deserves 4; a, b and other are of training, and reclaimable. Queue inf is of
// inference, is not reclaimable, and deserves 4. Pod n waits, and victims are evicted for n.
func TestAQueueOfATreeReclaimsWhatIsBorrowed(t *testing.T) {
	// Queue b uses 4 and deserves 2, so it borrows 2.
	const bBorrowsTwo = `
		place b1 node=h200-0 cards=1 queue=b
		place b2 node=h200-0 cards=1 queue=b
		place b3 node=h200-0 cards=1 queue=b
		place b4 node=h200-0 cards=1 queue=b
		wait 1m
	`
	// Queue other uses 6 and deserves 4, so it borrows 2.
	const otherBorrowsTwo = `
		place o1 node=h200-0 cards=2 queue=other
		place o2 node=h200-0 cards=2 queue=other
		place o3 node=h200-0 cards=2 queue=other
		wait 1m
	`
	// Queue b uses 3 with a gang that needs all of its 3 pods, so it borrows 1.
	const gangBorrowsOne = `
		write group g queue=b min=3
		place g1 node=h200-0 cards=1 queue=b group=g
		place g2 node=h200-0 cards=1 queue=b group=g
		place g3 node=h200-0 cards=1 queue=b group=g
		wait 1m
	`

	playAndExpectViolations(t, newSceneWithTree, map[string]scriptCase{
		"a takes back what its sibling b borrows": {bBorrowsTwo + `
			write pod n cards=1 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"other takes from b, whose parent uses the 4 that it deserves": {bBorrowsTwo + `
			write pod n cards=1 queue=other
			evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"other takes from b, whose parent uses 4 and deserves 3": {`
			load queue top deserved=H200:3
			wait 1m
		` + bBorrowsTwo + `
			write pod n cards=1 queue=other
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"a takes back what other borrows": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"a and b take 4 from other, which borrows 2": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			write pod m cards=2 queue=b
			evict o1 by=cardreclaim
			place n node=h200-0
			evict o2 by=cardreclaim
			place m node=h200-0`, "eviction"},
		"a takes 2 beside its 1, and deserves 2": {otherBorrowsTwo + `
			place x node=h200-0 cards=1 queue=a
			wait 1m
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"a gang is evicted as a whole, and leaves b with 0 of 2 deserved": {gangBorrowsOne + `
			write pod n cards=1 queue=a
			write pod g1 evictedBy=cardreclaim
			write pod g2 evictedBy=cardreclaim
			write pod g3 evictedBy=cardreclaim
			remove pod g1
			remove pod g2
			remove pod g3
			place n node=h200-0`, ""},
		"a gang is evicted as a whole, and leaves b with 0 of 1 guaranteed": {`
			load queue top guarantee=H200:1
			load queue b guarantee=H200:1
			wait 1m
		` + gangBorrowsOne + `
			write pod n cards=1 queue=a
			write pod g1 evictedBy=cardreclaim
			write pod g2 evictedBy=cardreclaim
			write pod g3 evictedBy=cardreclaim
			remove pod g1
			remove pod g2
			remove pod g3
			place n node=h200-0`, "eviction"},
		"by type: inf takes from other, which borrows nothing": {`
			place o node=h200-0 cards=1 queue=other
			wait 1m
			write pod n cards=1 queue=inf
			evict o by=cardreclaim
			place n node=h200-0`, ""},
		"by type: inf leaves other with 0 of 1 guaranteed": {`
			load queue other guarantee=H200:1
			wait 1m
			place o node=h200-0 cards=1 queue=other
			wait 1m
			write pod n cards=1 queue=inf
			evict o by=cardreclaim
			place n node=h200-0`, "eviction"},
		"by type: inf leaves the parent of a with 0 of 1 guaranteed": {`
			load queue top guarantee=H200:1
			wait 1m
			place o node=h200-0 cards=1 queue=a
			wait 1m
			write pod n cards=1 queue=inf
			evict o by=cardreclaim
			place n node=h200-0`, "eviction"},
		"by type: inf takes a card and places n, and deserves none": {`
			load queue inf deserved=H200:0
			wait 1m
			place o node=h200-0 cards=1 queue=other
			wait 1m
			write pod n cards=1 queue=inf
			evict o by=cardreclaim
			place n node=h200-0`, "eviction quota"},
		"a takes from other, which is not reclaimable and so may not borrow either": {`
			load queue other reclaimable=false
			wait 1m
		` + otherBorrowsTwo + `
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			place n node=h200-0`, "quota eviction"},
		"a takes from other, which is of an unknown service type and so may not borrow either": {`
			load queue other serviceType=notebook
			wait 1m
		` + otherBorrowsTwo + `
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			place n node=h200-0`, "quota eviction"},
		"a takes from other, which is of the same type and borrows nothing": {`
			place o node=h200-0 cards=1 queue=other
			wait 1m
			write pod n cards=1 queue=a
			evict o by=cardreclaim
			place n node=h200-0`, "eviction"},
		"other borrowed nothing until a moment ago, and borrows 2 now": {`
			load queue other deserved=H200:6
			wait 1m
		` + otherBorrowsTwo + `
			write pod n cards=2 queue=a
			write queue other deserved=H200:4
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"other borrowed 2 until 9 s ago, and nothing now": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			write queue other deserved=H200:8
			wait 9s
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"other borrowed 2 until 11 s ago, and nothing now": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			write queue other deserved=H200:8
			wait 11s
			evict o1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"other takes from b, whose parent uses the 4 that it deserves, but was no parent of b until 9 s ago": {bBorrowsTwo + `
			write pod n cards=1 queue=other
			write queue b parent=
			wait 1m
			write queue b parent=top
			wait 9s
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"other borrowed 2 until one of its pods ended a moment ago": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			write pod o2 phase=Succeeded
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"o1 is evicted for n, and n is not placed for a minute": {otherBorrowsTwo + `
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			write pod n unschedulable=full
			wait 1m`, "eviction"},
		"a takes from other, and is on hold": {`
			load queue a stopPolicy=Hold
			wait 1m
		` + otherBorrowsTwo + `
			write pod n cards=2 queue=a
			evict o1 by=cardreclaim
			remove pod n`, "eviction"},
	})
}

// TestFlatQueuesReclaimNothingByTheTree: with flat queues nothing is borrowed, so a queue of training takes
// nothing from another one of training. Queue other uses 6 H200; in a tree it would deserve 4 and borrow 2.
func TestFlatQueuesReclaimNothingByTheTree(t *testing.T) {
	s := newSceneWithTree()
	s.observed.setTree(false, s.clock)
	s.playScript(`
		wait 1m
		place o1 node=h200-0 cards=2 queue=other
		place o2 node=h200-0 cards=4 queue=other
		wait 1m
		write pod n cards=2 queue=a
		evict o1 by=cardreclaim
		place n node=h200-0`)
	s.expectViolations(t, "eviction")
}

// TestADrainEvictsWholeGangsOfStoppedQueues: stopPolicy HoldAndDrain evicts all pods of a queue and of those below
// it, also pods that are not preemptable, but none that are critical to the system. Hold evicts none. Queue a, below
// top, has a gang of g1 and g2, which needs both. The observer reports violation "eviction" for a wrong eviction. It
// also reports a part of a gang that is left running for 10 s while the drain goes on; until then that is
// "tolerated". The observer checks at each step "check", and at the end.
func TestADrainEvictsWholeGangsOfStoppedQueues(t *testing.T) {
	const gangRuns = `
		write group g queue=a min=2
		place g1 node=h200-0 cards=1 queue=a group=g
		place g2 node=h200-0 cards=1 queue=a group=g
		wait 1m
	`
	const gangDrains = gangRuns + `write queue a stopPolicy=HoldAndDrain;`

	playAndExpectViolations(t, newSceneWithTree, map[string]scriptCase{
		"the gang of a queue that is drained": {gangDrains + `
			evict g1 by=drain
			evict g2 by=drain
			wait 2m`, ""},
		"the gang of a queue whose parent is drained": {gangRuns + `
			write queue top stopPolicy=HoldAndDrain
			evict g1 by=drain
			evict g2 by=drain
			wait 2m`, ""},
		"the gang of a queue that is only on hold": {gangRuns + `
			write queue a stopPolicy=Hold
			wait 1m
			evict g1 by=drain
			evict g2 by=drain`, "eviction eviction"},
		"the gang of a queue that is open": {gangRuns + `evict g1 by=drain; evict g2 by=drain`, "eviction eviction"},
		"one pod of a gang of two, for 9 s": {gangDrains + `
			evict g1 by=drain
			check
			wait 9s`, "tolerated"},
		"one pod of a gang of two, for 11 s": {gangDrains + `
			evict g1 by=drain
			check
			wait 11s`, "eviction"},
		"one pod of a gang of two, and then the drain ends": {gangDrains + `
			evict g1 by=drain
			write queue a stopPolicy=
			wait 11s
			check
			wait 30s`, ""},
		"a pod that is not preemptable": {`
			place x node=h200-0 cards=1 queue=a volcano.sh/preemptable=false
			wait 1m
			write queue a stopPolicy=HoldAndDrain
			evict x by=drain
			wait 2m`, ""},
		"a pod that is critical to the system": {`
			place x node=h200-0 cards=1 queue=a priorityClass=system-node-critical
			wait 1m
			write queue a stopPolicy=HoldAndDrain
			evict x by=drain`, "eviction"},
	})
}
