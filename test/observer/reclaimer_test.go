package observer

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// pWaits makes a pod p of inference wait for a card.
const pWaits = `write pod p queue=inference cards=1 priority=0 unschedulable=waits;`

// TestEveryVictimHasAPodThatIsPlacedForIt: the observer reports violation "eviction" if a pod is evicted, and no pod
// that waits and may evict it is placed for it. That pod must be placed, on any node, within 20 s after the victim is
// gone or its grace period is over, or be deleted. Until then the eviction is "tolerated". A pod that was placed up
// to 3 s before the observer saw the eviction counts too. One pod justifies no more victims than it needs. Beside
// such a victim preempt may evict the rest of its gang, and cardreclaim the rest of its job, if they existed by then.
// If a pod lacks CPU too, the observer does not count its victims. pWaits: pod p of inference waits for one H200.
// Pods a, b, c of training run with one H200 each; "run g min=2 pods=a,b" is a gang that needs both.
func TestEveryVictimHasAPodThatIsPlacedForIt(t *testing.T) {
	const (
		abRun     = `run g min=1 pods=a,b;`
		pIsPlaced = `write pod p node=h200-0; wait 1m`
	)

	playAndExpectViolations(t, newSceneOfTrainingAndInference, map[string]scriptCase{
		"p is placed 10 s after the eviction": {pWaits + `
			run g min=1 pods=a
			evict a by=reclaim
			wait 10s
		` + pIsPlaced, ""},
		"p is not placed for 19 s": {pWaits + `
			run g min=1 pods=a
			evict a by=reclaim
			wait 19s`, "tolerated"},
		"p is not placed for 21 s": {pWaits + `
			run g min=1 pods=a
			evict a by=reclaim
			wait 21s`, "eviction"},
		"p is not placed for 19 s after the victim was gone, which took 49 s": {pWaits + `
			run g min=1 pods=a
			write pod a gracePeriod=60s evictedBy=reclaim
			wait 49s
			check
			remove pod a
			wait 19s`, "tolerated"},
		"p is not placed for 21 s after the 30 s of grace of the victim": {pWaits + `
			run g min=1 pods=a
			write pod a gracePeriod=30s evictedBy=reclaim
			wait 51s`, "eviction"},
		"p is placed, and its victim with 60 s of grace still runs 5 minutes later": {pWaits + `
			run g min=1 pods=a
			write pod p node=h200-0
			write pod a gracePeriod=60s evictedBy=reclaim
			wait 5m30s`, ""},
		"p is placed on another node": {`load node h200-1;` + pWaits + `
			run g min=1 pods=a
			evict a by=reclaim
			write pod p node=h200-1
			wait 1m`, ""},
		"p is deleted": {pWaits + `
			run g min=1 pods=a
			evict a by=reclaim
			remove pod p
			wait 1m`, ""},
		"p was placed 2 s before the eviction is seen": {`run g min=1 pods=a;` + pWaits + `
			write pod p node=h200-0
			wait 2s
			evict a by=reclaim
			wait 1m`, ""},
		"p was placed 4 s before the eviction is seen": {`run g min=1 pods=a;` + pWaits + `
			write pod p node=h200-0
			wait 4s
			evict a by=reclaim`, "eviction"},
		"two victims, and p needs two cards": {pWaits + `write pod p cards=2;` + abRun + `
			evict a by=reclaim
			evict b by=reclaim
		` + pIsPlaced, ""},
		"two victims, and p needs one card": {pWaits + abRun + `evict a by=reclaim; evict b by=reclaim;` + pIsPlaced, "eviction"},
		"two victims for p and q, and q is not placed": {pWaits + `
			write pod q queue=inference cards=1 priority=0 unschedulable=waits
		` + abRun + `
			evict a by=reclaim
			evict b by=reclaim
		` + pIsPlaced, "eviction"},
		"two victims, and p needs 8 cores, which neither frees": {pWaits + `write pod p cpu=8;` + abRun + `
			evict a by=reclaim
			evict b by=reclaim
		` + pIsPlaced, ""},
		"preempt: two pods of a job that needs one of them, for one card": {`
			write pod p queue=training cards=1 priority=7 unschedulable=waits
		` + abRun + `
			evict a by=preempt
			evict b by=preempt
		` + pIsPlaced, "eviction"},
		"preempt: a gang of three for one card": {`
			write pod p queue=training cards=1 priority=7 unschedulable=waits
			run g min=3 pods=a,b,c
			evict a by=preempt
			evict b by=preempt
			evict c by=preempt
		` + pIsPlaced, ""},
		"preempt: a gang of two and another job for one card": {`
			write pod p queue=training cards=1 priority=7 unschedulable=waits
			run g min=2 pods=a,b
			run h min=1 pods=c
			evict a by=preempt
			evict b by=preempt
			evict c by=preempt
		` + pIsPlaced, "eviction"},
		"cardreclaim: a gang of three for one card": {pWaits + `
			run g min=3 pods=a,b,c
			evict a by=cardreclaim
			evict b by=cardreclaim
			evict c by=cardreclaim
		` + pIsPlaced, ""},
		"cardreclaim: a gang of three, of which two are evicted 6 s later": {pWaits + `
			run g min=3 pods=a,b,c
			evict a by=cardreclaim
			wait 6s
			evict b by=cardreclaim
			evict c by=cardreclaim
		` + pIsPlaced, ""},
		"cardreclaim: a second pod that joined the job only after the first was evicted": {pWaits + `
			run g min=1 pods=a
			evict a by=cardreclaim
			write pod p node=h200-0
			wait 2s
			# the scene began with second 0, in which a was evicted
			place b node=h200-0 group=g queue=training cards=1 priority=0 created=1
			evict b by=cardreclaim
			wait 1m`, "eviction"},
		"cardreclaim: a gang of two and another job for one card": {pWaits + `
			run g min=2 pods=a,b
			run h min=1 pods=c
			evict a by=cardreclaim
			evict b by=cardreclaim
			evict c by=cardreclaim
		` + pIsPlaced, "eviction"},
	})
}

// TestNoGangIsLeftBelowItsMinimum: cardreclaim and preempt evict a gang as a whole, or only what is above its
// minimum. The observer reports a gang that runs below its minimum for 10 s; before, the gang is "tolerated".
// Volcano's own reclaim evicts single pods, and leaves the rest to the policies of the job. Pods a, b and c of
// training run; the evictions are for p, which is placed.
func TestNoGangIsLeftBelowItsMinimum(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ steps, wantAfter9s, wantAfter11s string }{
		"cardreclaim evicts 1 of 3 pods, the gang needs 3": {`run g min=3 pods=a,b,c; evict a by=cardreclaim`, "tolerated", "eviction"},
		"cardreclaim evicts all 3 pods": {`
			run g min=3 pods=a,b,c
			evict a by=cardreclaim
			evict b by=cardreclaim
			evict c by=cardreclaim`, "", ""},
		"cardreclaim evicts 1 of 3 pods, the gang needs 2": {`run g min=2 pods=a,b,c; evict a by=cardreclaim`, "", ""},
		"preempt evicts 1 of 3 pods, the gang needs 3": {`
			write pod p queue=training cards=1 priority=7 unschedulable=waits
			run g min=3 pods=a,b,c
			evict a by=preempt`, "tolerated", "eviction"},
		"preempt evicts all 3 pods": {`
			write pod p queue=training cards=1 priority=7 unschedulable=waits
			run g min=3 pods=a,b,c
			evict a by=preempt
			evict b by=preempt
			evict c by=preempt`, "", ""},
		"Volcano's reclaim evicts 1 of 3 pods, the gang needs 3": {`run g min=3 pods=a,b,c; evict a by=reclaim`, "", ""},
	}) {
		s := newSceneOfTrainingAndInference().playScript(pWaits).playScript(tc.steps).playScript(`
			write pod p node=h200-0
			check
			wait 9s`)
		s.expectViolations(t, tc.wantAfter9s)

		s.playScript(`wait 2s`).expectViolations(t, tc.wantAfter11s)
	}
}

// TestAnExcusedEvictionHasItsWholeTimeAfterwards: a test may excuse an invariant for a while, as when no
// scheduler runs. Time that was excused does not count. Pod a is evicted for p, which is never placed. That
// would be reported after 20 s, so after a minute that was excused it takes 20 s more.
func TestAnExcusedEvictionHasItsWholeTimeAfterwards(t *testing.T) {
	s := newSceneOfTrainingAndInference().playScript(pWaits)
	s.observed.setExcused(Eviction, true, s.clock)
	s.playScript(`
		run g min=1 pods=a
		evict a by=reclaim
		wait 1m
		check`)
	s.observed.setExcused(Eviction, false, s.clock)
	s.playScript(`wait 19s`).expectViolations(t, "tolerated")
	s.playScript(`wait 2s`).expectViolations(t, "eviction")
}

// TestAPodWithoutCardsIsEvictedOnlyWithItsGang: cardreclaim evicts gangs as a whole, so a pod without cards is evicted
// with the pods of its gang. By itself such a pod frees nothing for pod p of inference, which waits for one H200. Pod a
// of gang g has one H200, and pod b has none; both are evicted.
func TestAPodWithoutCardsIsEvictedOnlyWithItsGang(t *testing.T) {
	const pIsPlaced = `
		write pod p node=h200-0
		check
		wait 30s
		check`
	const bIsOfJob = pWaits + `
		run g min=1 pods=a
		load group h queue=training
		load pod b queue=training cards=0 priority=0 node=h200-0 group=`

	playAndExpectViolations(t, newSceneOfTrainingAndInference, map[string]scriptCase{
		"b is of the same gang g": {bIsOfJob + `g; evict b by=cardreclaim; evict a by=cardreclaim;` + pIsPlaced, ""},
		"b is of another job h":   {bIsOfJob + `h; evict b by=cardreclaim; evict a by=cardreclaim;` + pIsPlaced, "eviction"},
	})
}

// TestPodsOfAnEvictedGangMayEndOneByOne: Volcano's job controller deletes the pods that cardreclaim has marked one
// after the other, and each ends at its own time. So a gang that ends is not one that was left below its minimum. The
// observer reports it if its pods outlive the 60 s of grace and 20 s more, and 10 s later still run. Gang g has pods
// a, b and c; a is gone, b and c run on. Pod p, for which they are evicted, is placed.
func TestPodsOfAnEvictedGangMayEndOneByOne(t *testing.T) {
	s := newSceneOfTrainingAndInference().playScript(pWaits + `
		run g min=3 pods=a,b,c
		write pod a gracePeriod=60s evictedBy=cardreclaim
		write pod b gracePeriod=60s evictedBy=cardreclaim
		write pod c gracePeriod=60s evictedBy=cardreclaim
		remove pod a
		write pod p node=h200-0
		check
		wait 79s`)
	s.expectViolations(t, "")

	s.playScript(`
		wait 2s
		check
		wait 11s`).expectViolations(t, "eviction")
}

// TestNoTaskIsLeftBelowItsMinimum: a task of a Volcano job, such as its workers, may have a minimum too. The job has
// a leader and two workers, needs two pods, and its leader is evicted. The observer reports that as "eviction" if the
// job needs a leader. As in Volcano, the minimums of tasks count only if their sum is at most that of the job.
func TestNoTaskIsLeftBelowItsMinimum(t *testing.T) {
	const gang = pWaits + `
		run g min=2 pods=leader,worker-0,worker-1
		write pod leader volcano.sh/task-spec=leader
		write pod worker-0 volcano.sh/task-spec=worker
		write pod worker-1 volcano.sh/task-spec=worker
	`
	const leaderIsEvicted = `
		evict leader by=cardreclaim
		write pod p node=h200-0
		check
		wait 30s`

	playAndExpectViolations(t, newSceneOfTrainingAndInference, map[string]scriptCase{
		"a leader and a worker are needed": {gang + `write group g task=leader,min:1 task=worker,min:1` + leaderIsEvicted, "eviction"},
		"no leader is needed":              {gang + `write group g task=leader,min:0 task=worker,min:1` + leaderIsEvicted, ""},
		"a leader and two workers are needed, which is more than the two of the job": {
			gang + `write group g task=leader,min:1 task=worker,min:2` + leaderIsEvicted, "",
		},
	})
}

// TestMatchFindsAReclaimerForEveryVictim: as many victims as possible must be matched with a placed pod for
// which they were evicted. A pod justifies victims until they free the cards that it needs. "evicted(1, p, q)"
// is a victim of one card that p or q may have evicted; "placed(p, 1)" is a pod that needed one card.
func TestMatchFindsAReclaimerForEveryVictim(t *testing.T) {
	placed := func(name string, cards int64) *servedPod {
		return &servedPod{state: &podState{pod: builder.Pod("test", name).Obj()}, needed: amount{cards: cards}, seen: began}
	}
	evicted := func(cards int64, reclaimers ...string) *eviction {
		e := &eviction{freed: amount{cards: cards}, seen: began, reclaimers: map[types.UID]bool{}}
		for _, name := range reclaimers {
			e.reclaimers[builder.Pod("test", name).Obj().UID] = true
		}
		return e
	}

	for t, tc := range check.Cases(t, map[string]struct {
		victims     []*eviction
		placed      []*servedPod
		wantMatched int
	}{
		"p or q for the first victim, only p for the second": {
			victims:     []*eviction{evicted(1, "p", "q"), evicted(1, "p")},
			placed:      []*servedPod{placed("p", 1), placed("q", 1)},
			wantMatched: 2,
		},
		"four victims of three pods, which need a card each": {
			victims:     []*eviction{evicted(1, "p", "q"), evicted(1, "q", "r"), evicted(1, "p"), evicted(1, "q")},
			placed:      []*servedPod{placed("p", 1), placed("q", 1), placed("r", 1)},
			wantMatched: 3,
		},
		"p needs 4 cards: the second victim frees 3, of which 1 was missing": {
			victims:     []*eviction{evicted(3, "p"), evicted(3, "p")},
			placed:      []*servedPod{placed("p", 4)},
			wantMatched: 2,
		},
		"p needs 4 cards: nothing was missing after the first victim": {
			victims:     []*eviction{evicted(4, "p"), evicted(3, "p")},
			placed:      []*servedPod{placed("p", 4)},
			wantMatched: 1,
		},
		"no pod was placed": {victims: []*eviction{evicted(1, "p")}},
	}) {
		check.Equal(t, "victims with a placed pod", tc.wantMatched, len(matchReclaimers(tc.victims, tc.placed)))
	}
}
