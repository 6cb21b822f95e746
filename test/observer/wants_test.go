package observer

import "testing"

// aEndsForP: preempt evicts pod a of queue training for pod p, of priority 7 in the same queue, and nominates p to
// node h200-0. Pod "full" uses the other seven cards of the node.
const aEndsForP = `
	load group full queue=inference
	load pod full queue=inference cards=7 priority=0 node=h200-0 group=full
	run g min=1 pods=a
	write pod p queue=training cards=1 priority=7 unschedulable=waits
	write pod a gracePeriod=30s evictedBy=preempt
	write pod p nominatedNode=h200-0
`

// pIsPlaced: a ends and p is placed, within the 20 s that the observer gives it.
const pIsPlaced = `
	remove pod a
	write pod p node=h200-0
	wait 1m`

// TestFreedCardsAreKeptForThePreemptor: the observer reports violation "eviction" if pod q takes a card that the
// scheduler freed for pod p by an eviction. The scheduler keeps such a card for p for five minutes. A pod of p's own
// job may take it nevertheless. So may a pod of higher priority in p's queue, after an eviction by preempt. After one
// by cardreclaim, a pod of a queue from which p may not reclaim may take it, too. Nor does the observer report q if a
// card is left for p, or p cannot use the card any more. It does not report q either if p needs the card no longer: p
// is placed, deleted or nominated to another node within 3 s after q. Scene: node h200-0 has 8 H200, of which pod
// "full" uses 7. Pod a of queue training uses the last one. aEndsForP evicts a by preempt for p, of queue training
// and priority 7, and nominates p to h200-0. After a has ended, q takes its card. Queue other is of training too.
// Queue first is of inference and has the highest priority.
func TestFreedCardsAreKeptForThePreemptor(t *testing.T) {
	// Here p is a pod of queue inference. Cardreclaim evicts a for p, and a ends.
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
	// The first check only suspects q. The second one, more than 3 s later, reports q, as p still waits.
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
		"q of another queue of training takes the card": {
			aEndedForP + `place q node=h200-0 queue=other cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q of a queue of higher priority takes the card": {
			aEndedForP + `place q node=h200-0 queue=first cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q of p's queue takes the card, with the same priority 7": {
			aEndedForP + `place q node=h200-0 queue=training cards=1 priority=7;` + pIsPlacedElsewhereLate, "eviction",
		},
		"q of p's queue takes the card, with the higher priority 8": {
			aEndedForP + `place q node=h200-0 queue=training cards=1 priority=8;` + pIsPlacedElsewhereLate, "",
		},
		"q of p's job takes the card": {
			aEndedForP + `write pod p group=job; place q node=h200-0 queue=training cards=1 priority=7 group=job;` + pIsPlacedElsewhereLate, "",
		},
		"q takes the card, and p is nominated to another node within 3 s": {aEndedForP + `
			place q node=h200-0 queue=other cards=1 priority=0
			write pod p nominatedNode=h200-1
			wait 1s
		` + pIsPlacedElsewhereLate, ""},
		"q takes the card, and p is placed on another node at once": {aEndedForP + `
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
		"cardreclaim: q of training takes the card, from whose queue p may reclaim": {
			aIsReclaimedForP + `place q node=h200-0 queue=other cards=1 priority=0;` + pIsPlacedElsewhereLate, "eviction",
		},
		"cardreclaim: q of inference takes the card, from whose queue p may not reclaim": {
			aIsReclaimedForP + `place q node=h200-0 queue=first cards=1 priority=0;` + pIsPlacedElsewhereLate, "",
		},
	})
}

// TestNoPodIsEvictedForAPodThatAlreadyHasItsVictim: the scheduler evicts pod a for pod p. While a ends, or its card
// is kept for p, the observer reports a further eviction for p, here of pod b, as violation "eviction". It does not
// report b if another pod needs b's card, or if p cannot get the card of a any more. That is so when another pod uses
// it, the node is cordoned, or the quota of p's queue changed. Nor does it report b within 3 s after a, as one
// session may have evicted both, or if both are of one job, of which no pod stays. Scene: node h200-0 has 9 H200 and
// 100 cores. Pod "full" uses 7 cards, a and b of queue training use one each. Pod p of training has priority 7 and
// wants 1 card and 8 cores. aEndsForP evicts a for p by preempt. a and b have no CPU, so the observer cannot excuse b
// as a victim for the cores of p. In most rows b is evicted 5 s after what the row says.
func TestNoPodIsEvictedForAPodThatAlreadyHasItsVictim(t *testing.T) {
	// The first check only suspects b, the second one, 4 s later, reports it.
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
		"a does not end for 60 s, so b may be evicted; only a's eviction is wrong, as p is not placed in time": {aOfTwoEnds + `
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
		"b is evicted after a, and c, the third pod of their job, stays": {`
			write node h200-0 cards=10 cpu=100
			make pod p cpu=8
			run g min=1 pods=a,b,c
		` + aEndsForP + bIsEvictedToo + bEndsAndPIsPlaced, "eviction"},
		"b is evicted after a, and both are all pods of one job": {`
			write node h200-0 cards=9 cpu=100
			make pod p cpu=8
			run g min=1 pods=a,b
		` + aEndsForP + bIsEvictedToo + bEndsAndPIsPlaced, ""},
	})
}
