package observer

import "testing"

// aEndsForP evicts pod a of training for pod p, which has priority 7 in the same queue. The other seven cards of
// h200-0 are used.
const aEndsForP = `
	load group full queue=inference
	load pod full queue=inference cards=7 priority=0 node=h200-0 group=full
	run g min=1 pods=a
	write pod p queue=training cards=1 priority=7 unschedulable=waits
	write pod a gracePeriod=30s evictedBy=preempt
	write pod p nominatedNode=h200-0
`

// pIsPlaced places p within the time that it has.
const pIsPlaced = `
	remove pod a
	write pod p node=h200-0
	wait 1m`

// TestFreedCardsAreKeptForThePreemptor: the scheduler keeps a card that an eviction frees for the pod for which
// it evicted, for five minutes. It nominates that pod to the node. What preempt freed, only a job of higher
// priority in the same queue takes. What cardreclaim freed, also jobs take from which the pod may not reclaim.
// The observer must report any other. Scene: node h200-0 has 8 H200, of which pod "full" uses 7. Pod a of queue
// training uses the last one and is evicted for p. Pod q then takes the card, and p is placed later, on node
// h200-1. Queue other is of training too, queue first is of inference and has the highest priority.
func TestFreedCardsAreKeptForThePreemptor(t *testing.T) {
	// The same, but p is a pod of inference, and cardreclaim evicts a.
	const aIsReclaimedForP = `
		load group full queue=inference
		load pod full queue=inference cards=7 priority=0 node=h200-0 group=full
		run g min=1 pods=a
		write pod p queue=inference cards=1 priority=0 unschedulable=waits
		write pod a gracePeriod=30s evictedBy=cardreclaim
		write pod p nominatedNode=h200-0
		remove pod a
		wait 1s
	`
	const aEndedForP = aEndsForP + `remove pod a; wait 1s;`
	const pIsPlacedElsewhereLate = `
		check
		wait 4s
		check
		write pod p node=h200-1
		wait 1m`

	begin := func() *scene {
		return newSceneOfTrainingAndInference().playScript(`
			load node h200-1
			load queue other quota=H200:8 serviceType=training priority=30000 reclaimable=true
			load queue first quota=H200:8 serviceType=inference priority=90000`)
	}

	playAndExpectViolations(t, begin, map[string]scriptCase{
		"p takes the card": {aEndsForP + pIsPlaced, ""},
		"q takes the card, of another queue of training": {
			aEndedForP + `place q node=h200-0 queue=other cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q takes the card, of a queue of higher priority": {
			aEndedForP + `place q node=h200-0 queue=first cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q takes the card, of the same queue and priority 7 as p": {
			aEndedForP + `place q node=h200-0 queue=training cards=1 priority=7;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q takes the card, of the same queue and priority 8": {
			aEndedForP + `place q node=h200-0 queue=training cards=1 priority=8;` + pIsPlacedElsewhereLate, "",
		},
		"q takes the card, and p is nominated to another node meanwhile": {aEndedForP + `
			place q node=h200-0 queue=other cards=1 priority=0
			write pod p nominatedNode=h200-1
			wait 1s
		` + pIsPlacedElsewhereLate, ""},
		"q takes the card, and p is placed elsewhere at once": {aEndedForP + `
			place q node=h200-0 queue=other cards=1 priority=0
			write pod p node=h200-1
			wait 1m`, ""},
		"q takes the card, and p is deleted at once": {aEndedForP + `
			place q node=h200-0 queue=other cards=1 priority=0
			remove pod p
			wait 1m`, ""},
		"q takes a ninth card of the node, and one is left for p": {`
			load node h200-0 cards=9
		` + aEndedForP + `
			place q node=h200-0 queue=other cards=1 priority=0
			write pod p node=h200-0
			wait 1m`, ""},
		"q takes the card after the quota of p's queue was lowered to 0": {aEndedForP + `
			write queue training quota=H200:0
			place q node=h200-0 queue=other cards=1 priority=0
			wait 4s
			remove pod p
			wait 1m`, ""},
		"q takes the card of a node that is cordoned, where p cannot start": {aEndedForP + `
			write node h200-0 cordoned=true
			place q node=h200-0 queue=other cards=1 priority=0
			wait 4s
			remove pod p
			wait 1m`, ""},
		"q takes the card five minutes later": {aEndedForP + `
			wait 5m
			place q node=h200-0 queue=other cards=1 priority=0
			check
			wait 4s
			check
			write pod p node=h200-1
			wait 1m`, ""},
		"cardreclaim: q takes the card, of a queue from which p may reclaim": {
			aIsReclaimedForP + `place q node=h200-0 queue=other cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"cardreclaim: q takes the card, of inference, from which p may not reclaim": {
			aIsReclaimedForP + `place q node=h200-0 queue=first cards=1 priority=0;` + pIsPlacedElsewhereLate, "",
		},
	})
}

// TestNoPodIsEvictedForAPodThatAlreadyHasItsVictim: while the first victim ends, or its card is kept, the
// scheduler evicts no other pod for the same preemptor. Scene: node h200-0 has 9 H200 and 100 cores. Pod "full"
// uses 7 cards, a and b of training use one each. Pod p has priority 7, wants 1 card and 8 cores, and a is
// evicted for it. In most rows b is evicted 5 s later. a and b free no CPU, so the observer cannot excuse b as
// a victim for the cores of p.
func TestNoPodIsEvictedForAPodThatAlreadyHasItsVictim(t *testing.T) {
	const bIsEvictedToo = `
		wait 5s
		write pod b gracePeriod=30s evictedBy=preempt
		wait 1s
		check
		wait 4s
		check
	`
	const aOfTwoEnds = `
		write node h200-0 cards=9 cpu=100
		make pod p cpu=8
	` + aEndsForP + `
		run h min=1 pods=b
	`
	const bEndsAndPIsPlaced = `remove pod b;` + pIsPlaced

	playAndExpectViolations(t, newSceneOfTrainingAndInference, map[string]scriptCase{
		"b is evicted while a still ends":                {aOfTwoEnds + bIsEvictedToo + bEndsAndPIsPlaced, "eviction"},
		"b is evicted while the card of a is kept for p": {aOfTwoEnds + `remove pod a;` + bIsEvictedToo + bEndsAndPIsPlaced, "eviction"},
		"b is not evicted":                               {aOfTwoEnds + pIsPlaced, ""},
		"b is evicted for pod q, which waits too": {aOfTwoEnds + `
			write pod q queue=training cards=1 priority=7 unschedulable=waits
		` + bIsEvictedToo + `
			write pod q node=h200-0
		` + bEndsAndPIsPlaced, ""},
		"b is evicted after the freed card was used by pod full": {
			aOfTwoEnds + `write pod full cards=8;` + bIsEvictedToo + bEndsAndPIsPlaced, "",
		},
		"b is evicted after pod q of priority 9 took the card of a": {aOfTwoEnds + `
			remove pod a
			place q node=h200-0 queue=training cards=1 priority=9
		` + bIsEvictedToo + bEndsAndPIsPlaced, ""},
		"b is evicted after the node was cordoned": {
			aOfTwoEnds + `write node h200-0 cordoned=true;` + bIsEvictedToo + bEndsAndPIsPlaced, "",
		},
		"b is evicted after the quota of the queue was changed": {
			aOfTwoEnds + `write queue training quota=H200:7;` + bIsEvictedToo + bEndsAndPIsPlaced, "",
		},
		"b is evicted after a did not end for 60 s; only the eviction of a is wrong, as p was not placed in time": {aOfTwoEnds + `
			wait 50s
			check
			wait 10s
		` + bIsEvictedToo + bEndsAndPIsPlaced, "eviction"},
		"b is evicted 2 s after a, which may be the same session": {aOfTwoEnds + `
			wait 2s
			write pod b gracePeriod=30s evictedBy=preempt
			wait 9s
			check
		` + bEndsAndPIsPlaced, ""},
		"b is evicted while a still ends, and c of its job stays": {aOfTwoEnds + `load pod c queue=training cards=1 priority=0 node=h200-0 group=h;` +
			`write node h200-0 cards=10;` + bIsEvictedToo + bEndsAndPIsPlaced, "eviction"},
		"b is evicted after a, of whose gang of two it is": {`
			write node h200-0 cards=9 cpu=100
			make pod p cpu=8
			run g min=2 pods=a,b
		` + aEndsForP + bIsEvictedToo + bEndsAndPIsPlaced, ""},
	})
}
