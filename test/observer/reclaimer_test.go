package observer

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// comes makes a pod p of inference wait for a card.
const comes = `write pod p queue=inference cards=1 priority=0 unschedulable=waits;`

func TestEveryVictimHasAReclaimer(t *testing.T) {
	const (
		two    = `run g min=1 pods=a,b;`
		placed = `write pod p node=h200-0; wait 1m`
	)

	runScripts(t, reclaimScene, map[string]scriptCase{
		"the reclaimer is placed":    {comes + `run g min=1 pods=a; evict a by=reclaim; wait 10s;` + placed, ""},
		"it may take twenty seconds": {comes + `run g min=1 pods=a; evict a by=reclaim; wait 19s`, "open"},
		"and no longer":              {comes + `run g min=1 pods=a; evict a by=reclaim; wait 21s`, "eviction"},
		"the time begins when the victim has gone": {comes + `run g min=1 pods=a; write pod a gracePeriod=60s evictedBy=reclaim; wait 49s; check
			remove pod a; wait 19s`, "open"},
		"a victim that stays beyond its grace period is no excuse": {comes + `run g min=1 pods=a
			write pod a gracePeriod=30s evictedBy=reclaim; wait 51s`, "eviction"},
		"a reclaimer is not forgotten before its victim": {comes + `run g min=1 pods=a; write pod p node=h200-0
			write pod a gracePeriod=60s evictedBy=reclaim; wait 5m30s`, ""},
		"another node will do": {`load node h200-1;` + comes + `run g min=1 pods=a
			evict a by=reclaim; write pod p node=h200-1; wait 1m`, ""},
		"a reclaimer that was deleted need not be placed": {comes + `run g min=1 pods=a; evict a by=reclaim; remove pod p; wait 1m`, ""},
		"nor one that found a place while the eviction was on its way": {`run g min=1 pods=a;` + comes + `write pod p node=h200-0
			wait 2s; evict a by=reclaim; wait 1m`, ""},
		"one that found a place long before is no reason": {`run g min=1 pods=a;` + comes + `write pod p node=h200-0
			wait 4s; evict a by=reclaim`, "eviction"},
		"two victims for two cards": {comes + `write pod p cards=2;` + two + `evict a by=reclaim
			evict b by=reclaim;` + placed, ""},
		"two victims for one card are one too many": {comes + two + `evict a by=reclaim; evict b by=reclaim;` + placed, "eviction"},
		"of two reclaimers one is not placed": {comes + `write pod q queue=inference cards=1 priority=0 unschedulable=waits;` + two + `evict a by=reclaim
			evict b by=reclaim;` + placed, "eviction"},
		"two victims for the CPU of one": {comes + `write pod p cpu=8;` + two + `evict a by=reclaim
			evict b by=reclaim;` + placed, ""},
		"preempt takes no more than it needs either": {`write pod p queue=training cards=1 priority=7 unschedulable=waits;` + two + `evict a by=preempt
			evict b by=preempt;` + placed, "eviction"},
		"preempt takes gangs as a whole": {`write pod p queue=training cards=1 priority=7 unschedulable=waits; run g min=3 pods=a,b,c
			evict a by=preempt; evict b by=preempt; evict c by=preempt;` + placed, ""},
		"and no second one": {`write pod p queue=training cards=1 priority=7 unschedulable=waits; run g min=2 pods=a,b; run h min=1 pods=c
			evict a by=preempt; evict b by=preempt; evict c by=preempt;` + placed, "eviction"},
		"cardreclaim takes gangs as a whole": {comes + `run g min=3 pods=a,b,c
			evict a by=cardreclaim; evict b by=cardreclaim; evict c by=cardreclaim;` + placed, ""},
		"its marks may come seconds apart": {comes + `run g min=3 pods=a,b,c
			evict a by=cardreclaim; wait 6s; evict b by=cardreclaim; evict c by=cardreclaim;` + placed, ""},
		"a pod that came afterwards is of another gang": {comes + `run g min=1 pods=a; evict a by=cardreclaim; write pod p node=h200-0; wait 2s
			place b node=h200-0 group=g queue=training cards=1 priority=0 created=1; evict b by=cardreclaim; wait 1m`, "eviction"},
		"but no second gang for the same card": {comes + `run g min=2 pods=a,b; run h min=1 pods=c
			evict a by=cardreclaim; evict b by=cardreclaim; evict c by=cardreclaim;` + placed, "eviction"},
	})
}

func TestNoGangIsLeftInPieces(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, soon, later string }{
		"cardreclaim leaves a gang in pieces":          {`run g min=3 pods=a,b,c; evict a by=cardreclaim`, "open", "eviction"},
		"cardreclaim takes it as a whole":              {`run g min=3 pods=a,b,c; evict a by=cardreclaim; evict b by=cardreclaim; evict c by=cardreclaim`, "", ""},
		"cardreclaim takes what is above minAvailable": {`run g min=2 pods=a,b,c; evict a by=cardreclaim`, "", ""},
		"preempt leaves a gang in pieces":              {`write pod p queue=training cards=1 priority=7 unschedulable=waits; run g min=3 pods=a,b,c; evict a by=preempt`, "open", "eviction"},
		"preempt takes it as a whole": {`write pod p queue=training cards=1 priority=7 unschedulable=waits; run g min=3 pods=a,b,c
			evict a by=preempt; evict b by=preempt; evict c by=preempt`, "", ""},
		"reclaim leaves it to the policies of the job": {`run g min=3 pods=a,b,c; evict a by=reclaim`, "", ""},
	}) {
		w := reclaimScene().playScript(comes).playScript(tc.text).playScript(`write pod p node=h200-0; check; wait 9s`)
		w.expectViolations(t, tc.soon)

		w.playScript(`wait 2s`).expectViolations(t, tc.later)
	}
}

func TestAnExcusedEvictionHasItsWholeTimeAfterwards(t *testing.T) {
	w := reclaimScene().playScript(comes)
	w.machine.setExcused(Eviction, true, w.clock)
	w.playScript(`run g min=1 pods=a; evict a by=reclaim; wait 1m; check`)
	w.machine.setExcused(Eviction, false, w.clock)
	w.playScript(`wait 19s`).expectViolations(t, "open")
	w.playScript(`wait 2s`).expectViolations(t, "eviction")
}

// A gang has three pods, a, b and c, or as many as its text says.
func TestTheRestOfAGangIsEvictedToo(t *testing.T) {
	const served = `write pod p node=h200-0; check; wait 30s; check`
	const victims = comes + `run g min=1 pods=a; load group h queue=training; load pod b queue=training cards=0 priority=0 node=h200-0 group=`
	runScripts(t, reclaimScene, map[string]scriptCase{
		"a pod without cards goes with its gang":    {victims + `g; evict b by=cardreclaim; evict a by=cardreclaim;` + served, ""},
		"a job without cards is evicted for no pod": {victims + `h; evict b by=cardreclaim; evict a by=cardreclaim;` + served, "eviction"},
	})
}

// Volcano's job controller deletes the pods that cardreclaim has marked, one after the other,
// and each ends at its own time.
func TestAGangThatLeavesIsNotInPieces(t *testing.T) {
	w := reclaimScene().playScript(comes + `run g min=3 pods=a,b,c; write pod a gracePeriod=60s evictedBy=cardreclaim; write pod b gracePeriod=60s evictedBy=cardreclaim
		write pod c gracePeriod=60s evictedBy=cardreclaim; remove pod a; write pod p node=h200-0; check; wait 30s`)
	w.expectViolations(t, "")
	w.playScript(`wait 1m; check; wait 11s`).expectViolations(t, "eviction") // b and c have had their time and run on
}

// The minimum of the job is two pods.
func TestNoTaskIsLeftBelowItsMinimum(t *testing.T) {
	const gang = comes + `run g min=2 pods=leader,worker-0,worker-1; write pod leader volcano.sh/task-spec=leader
		write pod worker-0 volcano.sh/task-spec=worker; write pod worker-1 volcano.sh/task-spec=worker;`
	const evicted = `; evict leader by=cardreclaim; write pod p node=h200-0; check; wait 30s`
	runScripts(t, reclaimScene, map[string]scriptCase{
		"the leader is needed":   {gang + `write group g task=leader,min:1 task=worker,min:1` + evicted, "eviction"},
		"two workers are enough": {gang + `write group g task=leader,min:0 task=worker,min:1` + evicted, ""},
		"the tasks' minima do not count when they exceed the job's": {gang + `write group g task=leader,min:1 task=worker,min:2` + evicted, ""},
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
