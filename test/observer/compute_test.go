package observer

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// newTreeOf64Cores has a node h200-0 with 64 cores and 8 H200, and reclaimResources: All. Tenant top (deserves
// 32 cores) has the leaves a and b, which deserve 16; other and inf deserve 32. Each queue has a limit of 64.
func newTreeOf64Cores() *scene {
	s := newSceneWithTree()
	s.observed.options.ReclaimsAll = true

	return s.playScript(`
		load node h200-0 cpu=64
		load node rtx4090-0 cpu=
		load node unnamed-0 cpu=
		load queue top cpu=64 deservedCPU=32
		load queue a cpu=64 deservedCPU=16
		load queue b cpu=64 deservedCPU=16
		load queue other cpu=64 deservedCPU=32
		load queue inf cpu=64 deservedCPU=32
		wait 1m`)
}

// TestPlacementsOfCPUInATreeRespectGuaranteesAndDeserved: with reclaimResources All the observer checks the rules of
// a tree for CPU as for cards. It reports violation "quota" if a placement breaks one of three rules. What is free on
// usable nodes must cover the unused guarantees of other queues, 10 s after they were written. Pods that are not
// preemptable stay within what their queue deserves. A queue on hold places nothing. Scene: one node has 64 cores;
// leaves a and b deserve 16 cores each, queue other deserves 32.
func TestPlacementsOfCPUInATreeRespectGuaranteesAndDeserved(t *testing.T) {
	// Queue a uses 32 of 64 cores, and other is guaranteed the rest.
	const guarantee = `
		load queue other guaranteedCPU=32
		wait 1m
		place x node=h200-0 cpu=32 queue=a
	`

	playAndExpectViolations(t, newTreeOf64Cores, map[string]scriptCase{
		"a uses 32 of 64 cores, and other is guaranteed 32":  {guarantee, ""},
		"b takes 1 of the 32 cores that other is guaranteed": {guarantee + `place y node=h200-0 cpu=1 queue=b`, "quota"},
		"other takes the 32 cores that it is guaranteed":     {guarantee + `place y node=h200-0 cpu=32 queue=other`, ""},
		"a guarantee of other that was written 9 s ago": {`
			place x node=h200-0 cpu=33 queue=a
			wait 1m
			write queue other guaranteedCPU=32
			wait 9s
			place y node=h200-0 cpu=1 queue=b`, ""},
		"a cordoned node does not cover the guarantee": {guarantee + `
			load node h200-1 cpu=64
			write node h200-1 cordoned=true
			wait 1m
			place y node=h200-0 cpu=1 queue=b`, "quota"},
		"another node of 64 cores covers the guarantee": {guarantee + `
			load node h200-1 cpu=64
			wait 1m
			place y node=h200-0 cpu=8 queue=b`, ""},
		"a pod that is not preemptable uses 16 cores, a deserves 16": {
			`place x node=h200-0 cpu=16 queue=a volcano.sh/preemptable=false`, "",
		},
		"a pod that is not preemptable uses 17 cores, a deserves 16": {
			`place x node=h200-0 cpu=17 queue=a volcano.sh/preemptable=false`, "quota",
		},
		"a preemptable pod uses 17 cores, a deserves 16": {`place x node=h200-0 cpu=17 queue=a`, ""},
		"a pod is placed in queue a, which is on hold": {`
			write queue a stopPolicy=Hold
			wait 1m
			place x node=h200-0 cpu=1 queue=a`, "quota"},
		"top, a and b do not write what they deserve of CPU, so they have a limit only": {`
			load queue top deservedCPU=
			load queue a deservedCPU=
			load queue b deservedCPU=
			wait 1m
			place x node=h200-0 cpu=60 queue=a volcano.sh/preemptable=false`, ""},
	})
}

// TestAQueueOfATreeReclaimsCPU: with reclaimResources All the observer allows evictions for CPU by the rules of
// reclaiming, and reports violation "eviction" for others. With Cards no pod may be evicted for CPU, so each row has
// a violation then. By the tree a queue takes what others borrow: the victim's queue, and its ancestors below the one
// that both queues share, must borrow of each resource that the victim has. By the service types ("by type")
// inference takes from training down to the guarantee. In both cases the taking queue stays within what it deserves.
// Scene: 64 cores and 8 H200. Tenant top deserves 32 cores, its leaves a and b deserve 16 cores and 2 H200 each.
// Queues other and inf deserve 32 cores and 4 H200. Pod n waits; its victims have 8 cores each where a row says
// nothing else.
func TestAQueueOfATreeReclaimsCPU(t *testing.T) {
	// Queue b uses 24 cores and deserves 16, so it borrows 8.
	const bBorrows = `
		place b1 node=h200-0 cpu=8 queue=b
		place b2 node=h200-0 cpu=8 queue=b
		place b3 node=h200-0 cpu=8 queue=b
		wait 1m
	`
	// Queue other uses 8 cores of training, and deserves 32.
	const otherTrains = `place o1 node=h200-0 cpu=8 queue=other; wait 1m;`
	for t, tc := range check.Cases(t, map[string]scriptCase{
		"a takes back 8 cores that its sibling b borrows": {bBorrows + `
			write pod n cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"other takes from b, whose parent uses 24 cores and deserves 16": {bBorrows + `
			load queue top deservedCPU=16
			wait 1m
			write pod n cpu=8 queue=other
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"other takes from b, whose parent uses 24 cores and deserves 32": {bBorrows + `
			write pod n cpu=8 queue=other
			evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"a takes 16 cores from b, which borrows 8": {bBorrows + `
			write pod n cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0
			wait 1m
			write pod m cpu=8 queue=a
			evict b2 by=cardreclaim
			place m node=h200-0`, "eviction"},
		"a takes 8 cores beside its 16, and deserves 16": {bBorrows + `
			place x node=h200-0 cpu=16 queue=a
			wait 1m
			write pod n cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"by type: inf takes from other, which borrows nothing": {otherTrains + `
			write pod n cpu=8 queue=inf
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"by type: inf leaves other with 0 of 8 guaranteed cores": {`
			load queue other guaranteedCPU=8
			wait 1m
		` + otherTrains + `
			write pod n cpu=8 queue=inf
			evict o1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"by type: inf needs 4 cores beside its 1, and deserves 4": {`
			load queue inf deservedCPU=4
			wait 1m
		` + otherTrains + `
			write pod n cpu=4 queue=inf
			place x node=h200-0 cpu=1 queue=inf
			wait 1m
			evict o1 by=cardreclaim
			remove pod n`, "eviction"},
		"by type: a pod with a card also lacks 8 cores": {otherTrains + `
			write pod n cards=1 cpu=8 queue=inf
			evict o1 by=cardreclaim
			place n node=h200-0`, ""},
		"a pod of a with a card also lacks 8 cores": {bBorrows + `
			write pod n cards=1 cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"a pod of a with a card lacks 8 cores, and a deserves no card": {`
			load queue a deserved=H200:0
			wait 1m
		` + bBorrows + `
			write pod n cards=1 cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"by type: a pod needs a card and no CPU, and the victim has only CPU": {otherTrains + `
			write pod n cards=1 queue=inf
			evict o1 by=cardreclaim
			place n node=h200-0
			wait 1m`, "eviction"},
		"the victim has 24 cores and 3 cards, and b borrows of both": {`
			place b1 node=h200-0 cpu=24 cards=3 queue=b
			wait 1m
			write pod n cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, ""},
		"the victim has 24 cores and 2 cards, and b borrows only cores": {`
			place b1 node=h200-0 cpu=24 cards=2 queue=b
			wait 1m
			write pod n cpu=8 queue=a
			evict b1 by=cardreclaim
			place n node=h200-0`, "eviction"},
		"two victims of 8 cores for a pod of 16": {bBorrows + `
			place b4 node=h200-0 cpu=8 queue=b
			wait 1m
			write pod n cpu=16 queue=a
			evict b1 by=cardreclaim
			evict b2 by=cardreclaim
			place n node=h200-0`, ""},
		"three victims of 8 cores for a pod of 16": {bBorrows + `
			# b4 and b5 are jobs of their own, so cardreclaim did not evict them together with b1
			write group g queue=b
			write group h queue=b
			place b4 node=h200-0 cpu=8 queue=b group=g
			place b5 node=h200-0 cpu=8 queue=b group=h
			wait 1m
			write pod n cpu=16 queue=a
			evict b1 by=cardreclaim
			evict b4 by=cardreclaim
			evict b5 by=cardreclaim
			place n node=h200-0
			wait 1m`, "eviction"},
	}) {
		newTreeOf64Cores().playScript(tc.text).expectViolations(t, tc.wantViolations)

		withCards := newTreeOf64Cores()
		withCards.observed.options.ReclaimsAll = false // reclaimResources: Cards
		withCards.playScript(tc.text + `; wait 1m; check`)
		check.That(t, len(withCards.observed.violations) > 0, "with reclaimResources Cards there is no violation")
	}
}

// TestAPodIsEvictedForCPUOnANodeWithTheCard: the observer reports an eviction that frees CPU on the wrong node. A
// Volcano without limits of CPU does not count the CPU of pods with cards in their queues, but the node still lacks
// it. Pod n of inference wants 1 H200 and 60 cores. Node h200-0 has 64 cores, of which o1 uses 8. Node rtx4090-0 has
// 64 cores too, of which o2 uses 8, but no H200. So only the eviction of o1 helps.
func TestAPodIsEvictedForCPUOnANodeWithTheCard(t *testing.T) {
	begin := func() *scene {
		s := newTreeOf64Cores()
		s.observed.options.UnlimitedCPUMemory = true

		return s.playScript(`
			load node rtx4090-0 cpu=64
			place o1 node=h200-0 cpu=8 queue=other
			place o2 node=rtx4090-0 cpu=8 queue=other
			wait 1m
			write pod n cards=1 cpu=60 queue=inf`)
	}

	playAndExpectViolations(t, begin, map[string]scriptCase{
		"o1 is evicted, on a node with the card": {`evict o1 by=cardreclaim; place n node=h200-0`, ""},
		"o2 is evicted, on a node without the card": {`
			evict o2 by=cardreclaim
			place n node=h200-0
			wait 1m`, "eviction"},
	})
}

// TestInferenceReclaimsCPUFromTrainingWithReclaimResourcesAll: with reclaimResources All, inference may take CPU back
// from training, also for pods without cards. With Cards it takes only cards. Training never takes from training. The
// observer reports violation "eviction" for other evictions. The victim of training uses 8 cores, and pod n waits for
// as many.
func TestInferenceReclaimsCPUFromTrainingWithReclaimResourcesAll(t *testing.T) {
	const evictVictimForN = `
		evict victim by=cardreclaim
		write pod n node=h200-0
		wait 1m`

	for t, tc := range check.Cases(t, map[string]struct{ waiting, wantWithAll, wantWithCards string }{
		"inference without cards": {`write pod n queue=inference cpu=8 priority=0 unschedulable=waits`, "", "eviction"},
		"inference with a card":   {`write pod n queue=inference cards=1 cpu=8 priority=0 unschedulable=waits`, "", "eviction"},
		"training without cards":  {`write pod n queue=training cpu=8 priority=0 unschedulable=waits`, "eviction", "eviction"},
	}) {
		for reclaimsAll, wantViolation := range map[bool]string{true: tc.wantWithAll, false: tc.wantWithCards} {
			s := newSceneOfTrainingAndInference()
			s.observed.options.ReclaimsAll = reclaimsAll
			s.playScript(`load pod victim queue=training cpu=8 priority=0 node=h200-0; wait 1m`)

			s.playScript(tc.waiting).playScript(evictVictimForN).expectViolations(t, wantViolation)
		}
	}
}
