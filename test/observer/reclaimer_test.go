package observer

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// comes makes a pod p of inference wait for a card.
const comes = `write pod p in=inference cards=1 priority=0 says=waits;`

func TestEveryVictimHasAReclaimer(t *testing.T) {
	const (
		two    = `runs g 1 a b;`
		placed = `write pod p on=h200-0; wait 1m`
	)

	runScripts(t, reclaimWorld, map[string]scriptCase{
		"the reclaimer is placed":    {comes + `runs g 1 a; evict a reclaim; wait 10s;` + placed, ""},
		"it may take twenty seconds": {comes + `runs g 1 a; evict a reclaim; wait 19s`, "open"},
		"and no longer":              {comes + `runs g 1 a; evict a reclaim; wait 21s`, "eviction"},
		"the time begins when the victim has gone": {comes + `runs g 1 a; write pod a grace=60 evicted=reclaim; wait 49s; judge
			remove pod a; wait 19s`, "open"},
		"a victim that stays beyond its grace period is no excuse": {comes + `runs g 1 a
			write pod a grace=30 evicted=reclaim; wait 51s`, "eviction"},
		"a reclaimer is not forgotten before its victim": {comes + `runs g 1 a; write pod p on=h200-0
			write pod a grace=60 evicted=reclaim; wait 5m30s`, ""},
		"another node will do": {`load node h200-1;` + comes + `runs g 1 a
			evict a reclaim; write pod p on=h200-1; wait 1m`, ""},
		"a reclaimer that was deleted need not be placed": {comes + `runs g 1 a; evict a reclaim; remove pod p; wait 1m`, ""},
		"nor one that found a place while the eviction was on its way": {`runs g 1 a;` + comes + `write pod p on=h200-0
			wait 2s; evict a reclaim; wait 1m`, ""},
		"one that found a place long before is no reason": {`runs g 1 a;` + comes + `write pod p on=h200-0
			wait 4s; evict a reclaim`, "eviction"},
		"two victims for two cards": {comes + `write pod p cards=2;` + two + `evict a reclaim
			evict b reclaim;` + placed, ""},
		"two victims for one card are one too many": {comes + two + `evict a reclaim; evict b reclaim;` + placed, "eviction"},
		"of two reclaimers one is not placed": {comes + `write pod q in=inference cards=1 priority=0 says=waits;` + two + `evict a reclaim
			evict b reclaim;` + placed, "eviction"},
		"two victims for the CPU of one": {comes + `write pod p cpu=8;` + two + `evict a reclaim
			evict b reclaim;` + placed, ""},
		"preempt takes no more than it needs either": {`write pod p in=training cards=1 priority=7 says=waits;` + two + `evict a preempt
			evict b preempt;` + placed, "eviction"},
		"preempt takes gangs as a whole": {`write pod p in=training cards=1 priority=7 says=waits; runs g 3 a b c
			evict a preempt; evict b preempt; evict c preempt;` + placed, ""},
		"and no second one": {`write pod p in=training cards=1 priority=7 says=waits; runs g 2 a b; runs h 1 c
			evict a preempt; evict b preempt; evict c preempt;` + placed, "eviction"},
		"cardreclaim takes gangs as a whole": {comes + `runs g 3 a b c
			evict a cardreclaim; evict b cardreclaim; evict c cardreclaim;` + placed, ""},
		"its marks may come seconds apart": {comes + `runs g 3 a b c
			evict a cardreclaim; wait 6s; evict b cardreclaim; evict c cardreclaim;` + placed, ""},
		"a pod that came afterwards is of another gang": {comes + `runs g 1 a; evict a cardreclaim; write pod p on=h200-0; wait 2s
			place b h200-0 group=g in=training cards=1 priority=0 created=1; evict b cardreclaim; wait 1m`, "eviction"},
		"but no second gang for the same card": {comes + `runs g 2 a b; runs h 1 c
			evict a cardreclaim; evict b cardreclaim; evict c cardreclaim;` + placed, "eviction"},
	})
}

func TestNoGangIsLeftInPieces(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, soon, later string }{
		"cardreclaim leaves a gang in pieces":          {`runs g 3 a b c; evict a cardreclaim`, "open", "eviction"},
		"cardreclaim takes it as a whole":              {`runs g 3 a b c; evict a cardreclaim; evict b cardreclaim; evict c cardreclaim`, "", ""},
		"cardreclaim takes what is above minAvailable": {`runs g 2 a b c; evict a cardreclaim`, "", ""},
		"preempt leaves a gang in pieces":              {`write pod p in=training cards=1 priority=7 says=waits; runs g 3 a b c; evict a preempt`, "open", "eviction"},
		"preempt takes it as a whole": {`write pod p in=training cards=1 priority=7 says=waits; runs g 3 a b c
			evict a preempt; evict b preempt; evict c preempt`, "", ""},
		"reclaim leaves it to the policies of the job": {`runs g 3 a b c; evict a reclaim`, "", ""},
	}) {
		w := reclaimWorld().playScript(comes).playScript(tc.text).playScript(`write pod p on=h200-0; judge; wait 9s`)
		w.expectViolations(t, tc.soon)

		w.playScript(`wait 2s`).expectViolations(t, tc.later)
	}
}

func TestAnExcusedEvictionHasItsWholeTimeAfterwards(t *testing.T) {
	w := reclaimWorld().playScript(comes)
	w.machine.setExcused(Eviction, true, w.clock)
	w.playScript(`runs g 1 a; evict a reclaim; wait 1m; judge`)
	w.machine.setExcused(Eviction, false, w.clock)
	w.playScript(`wait 19s`).expectViolations(t, "open")
	w.playScript(`wait 2s`).expectViolations(t, "eviction")
}

// A gang has three pods, a, b and c, or as many as its text says.
func TestTheRestOfAGangIsEvictedToo(t *testing.T) {
	const served = `write pod p on=h200-0; judge; wait 30s; judge`
	const victims = comes + `runs g 1 a; load group h queue=training; load pod b in=training cards=0 priority=0 on=h200-0 group=`
	runScripts(t, reclaimWorld, map[string]scriptCase{
		"a pod without cards goes with its gang":    {victims + `g; evict b cardreclaim; evict a cardreclaim;` + served, ""},
		"a job without cards is evicted for no pod": {victims + `h; evict b cardreclaim; evict a cardreclaim;` + served, "eviction"},
	})
}

// Volcano's job controller deletes the pods that cardreclaim has marked, one after the other,
// and each ends at its own time.
func TestAGangThatLeavesIsNotInPieces(t *testing.T) {
	w := reclaimWorld().playScript(comes + `runs g 3 a b c; write pod a grace=60 evicted=cardreclaim; write pod b grace=60 evicted=cardreclaim
		write pod c grace=60 evicted=cardreclaim; remove pod a; write pod p on=h200-0; judge; wait 30s`)
	w.expectViolations(t, "")
	w.playScript(`wait 1m; judge; wait 11s`).expectViolations(t, "eviction") // b and c have had their time and run on
}

// The minimum of the job is two pods.
func TestNoTaskIsLeftBelowItsMinimum(t *testing.T) {
	const gang = comes + `runs g 2 leader worker-0 worker-1; write pod leader volcano.sh/task-spec=leader
		write pod worker-0 volcano.sh/task-spec=worker; write pod worker-1 volcano.sh/task-spec=worker;`
	const evicted = `; evict leader cardreclaim; write pod p on=h200-0; judge; wait 30s`
	runScripts(t, reclaimWorld, map[string]scriptCase{
		"the leader is needed":   {gang + `write group g tasks=leader:1,worker:1` + evicted, "eviction"},
		"two workers are enough": {gang + `write group g tasks=leader:0,worker:1` + evicted, ""},
		"the tasks' minima do not count when they exceed the job's": {gang + `write group g tasks=leader:1,worker:2` + evicted, ""},
	})
}

// Whichever is placed first, every victim that has a reclaimer keeps one.
func TestMatchFindsAReclaimerForEveryVictim(t *testing.T) {
	relieved := func(name string, cards int64) *servedPod {
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
		evictions []*eviction
		reliefs   []*servedPod
		want      int
	}{
		"the picky one comes last": {[]*eviction{evicted(1, "p", "q"), evicted(1, "p")}, []*servedPod{relieved("p", 1), relieved("q", 1)}, 2},
		"a chain of them": {[]*eviction{evicted(1, "p", "q"), evicted(1, "q", "r"), evicted(1, "p"), evicted(1, "q")},
			[]*servedPod{relieved("p", 1), relieved("q", 1), relieved("r", 1)}, 3},
		"the last victim may be larger than what is missing": {[]*eviction{evicted(3, "p"), evicted(3, "p")}, []*servedPod{relieved("p", 4)}, 2},
		"not when nothing is missing":                        {[]*eviction{evicted(4, "p"), evicted(3, "p")}, []*servedPod{relieved("p", 4)}, 1},
		"no reclaimer":                                       {[]*eviction{evicted(1, "p")}, nil, 0},
	}) {
		check.Equal(t, "victims that are served", tc.want, len(matchReclaimers(tc.evictions, tc.reliefs)))
	}
}
