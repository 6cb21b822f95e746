package solver

import (
	"math"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestSolveEvictsElasticPods: a job needs its minimum of pods; those above it are elastic. elastic= is how
// many pods it can lose. It may also be evicted as a whole, unless it has whole=false. Of two plans the one
// in which whole jobs lose less is better, so elastic pods are evicted first. What elastic pods lose decides
// last. Here all pods run on one full node unless a row says otherwise. running=n*3 are three pods of one
// card on node n, and loss= is that of each pod. The pods of a role have a minimum of their own. roleElastic=
// is by role how many it can lose, roles= is the role of each pod. A protected pod is never evicted. Each row
// wants the victims: "gang" is a whole job, "elastic-0" is pod 0 of job elastic.
func TestSolveEvictsElasticPods(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"2 pods, one elastic pod: that one and a gang, because a whole gang loses 90, the whole elastic job 120": {want: "elastic-0 gang", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=1 loss=40
			job gang running=n loss=90`},
		"2 pods, one elastic pod: the elastic job as a whole, because it loses 6, and the gang 90": {want: "elastic", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=1 loss=2
			job gang running=n loss=90`},
		"3 pods, one of 3 pods is elastic: the job as a whole": {want: "elastic", scene: `
			node n
			pending pods=3 cards=1
			job elastic running=n*3 elastic=1 loss=2`},
		"3 pods, 2 elastic pods of a job that must not be evicted as a whole": {want: "no plan", scene: `
			node n
			pending pods=3 cards=1
			job elastic running=n*3 elastic=2 whole=false loss=2`},
		"2 pods, 2 elastic pods of a job that must not be evicted as a whole": {want: "elastic-0 elastic-1", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=2 whole=false loss=2`},
		"two of three pods are protected: the third": {want: "elastic-2", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*3 elastic=2 whole=false loss=2
			pod elastic 0 protected=true
			pod elastic 1 protected=true`},
		"the only pod is protected": {want: "no plan", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n elastic=1 whole=false loss=2
			pod elastic 0 protected=true`},
		"2 pods, each role has one elastic pod: one of each": {want: "elastic-0 elastic-2", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*4 elastic=2 roleElastic=1,1 roles=0,0,1,1 loss=2`},
		"role 0 has no elastic pod: the pod of role 1": {want: "elastic-1", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*2 elastic=2 roleElastic=0,1 roles=0,1 loss=2`},
		"2 pods, each role could lose 2, the job only one: the job as a whole": {want: "elastic", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=1 roleElastic=2,2 roles=0,1,1 loss=2`},
		"the pod can run on b only: the elastic pod of role 1, which runs there": {want: "elastic-1", scene: `
			node a
			node b
			pending pods=1 cards=1 nodes=b
			job elastic running=a,b elastic=1 roleElastic=1,1 roles=0,1 loss=2`},
	})
}

// TestSolveBreaksTiesByOrder: where several choices lose as much, the plan evicts the fewest jobs, and among
// those the ones that its caller lists first. If a pod needs several victims on one node, it gets the first
// of equal nodes. So equal scenes have equal plans. All nodes are full. running=n*3 are three pods of one
// card on node n, and loss= is that of each pod. Each row wants the victims: "large" is a whole job,
// "elastic-0" is pod 0 of job elastic.
func TestSolveBreaksTiesByOrder(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"the first of equal jobs": {want: "first", scene: `
			node n
			pending pods=1 cards=1
			job first running=n loss=3
			job second running=n loss=3
			job third running=n loss=3`},
		"the first of equal elastic pods": {want: "elastic-0", scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*2 elastic=2 loss=3`},
		"the first of equal jobs, although it runs on the second node": {want: "first", scene: `
			node a; node b
			pending pods=1 cards=1
			job first running=b loss=3
			job second running=a loss=3`},
		"a pod of 2 cards on equal nodes: the first node, although b1 is listed first": {want: "a1 a2", scene: `
			node a; node b
			pending pods=1 cards=2
			job b1 running=b loss=3
			job a1 running=a loss=3
			job b2 running=b loss=3
			job a2 running=a loss=3`},
		"3 pods, no job loses anything: one large job": {want: "large", scene: `
			node n
			pending pods=3 cards=1
			job first running=n
			job second running=n
			job third running=n
			job large running=n*3`},
		"3 pods, three jobs lose 6 and one large job too: the large one": {want: "large", scene: `
			node n
			pending pods=3 cards=1
			job first running=n loss=2
			job second running=n loss=2
			job third running=n loss=2
			job large running=n*3 loss=2`},
		"2 pods, 4 elastic pods that lose nothing: the first two": {want: "elastic-0 elastic-1", scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*4 elastic=4`},
	})
}

// TestPlanStatesItsLoss: the loss of a plan is the sum of its victims' card-seconds. JobSeconds is that of
// jobs that are evicted as a whole, which Jobs counts, and PodSeconds that of elastic pods. loss= is that of
// each pod, wholeLoss= what a job loses beside it if it is evicted as a whole. running=n*3 are three pods of
// one card on node n, of which a job can lose elastic= pods alone. A node is full, but for the free cards
// that cards= states. Each row wants the loss.
func TestPlanStatesItsLoss(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene string
		want  Loss
	}{
		"no victims": {want: Loss{}, scene: `
			node n cards=1
			pending pods=1 cards=1`},
		"a gang of 3 pods for one pending pod": {want: Loss{JobSeconds: 3 * 7, Jobs: 1}, scene: `
			node n
			pending pods=1 cards=1
			job gang running=n*3 loss=7`},
		"2 elastic pods": {want: Loss{PodSeconds: 2 * 7}, scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=2 loss=7`},
		"an elastic pod and a gang": {want: Loss{JobSeconds: 5, PodSeconds: 7, Jobs: 1}, scene: `
			node n
			pending pods=2 cards=1
			job elastic running=n*3 elastic=1 loss=7
			job gang running=n loss=5`},
		"a whole job counts its elastic pod once, among JobSeconds": {want: Loss{JobSeconds: 3 * 7, Jobs: 1}, scene: `
			node n
			pending pods=3 cards=1
			job elastic running=n*3 elastic=1 loss=7`},
		"a gang with a loss of its own": {want: Loss{JobSeconds: 100 + 2*7, Jobs: 1}, scene: `
			node n
			pending pods=1 cards=1
			job gang running=n*2 loss=7 wholeLoss=100`},
		"an elastic pod of a job with a loss of its own: only that of the pod": {want: Loss{PodSeconds: 7}, scene: `
			node n
			pending pods=1 cards=1
			job elastic running=n*2 elastic=1 loss=7 wholeLoss=100`},
		"a gang that loses 107 with a loss of its own, and one that loses 99": {want: Loss{JobSeconds: 99, Jobs: 1}, scene: `
			node n
			pending pods=1 cards=1
			job gang running=n loss=7 wholeLoss=100
			job cheaper running=n loss=99`},
		"3 times 2^62 card-seconds: the largest int64": {want: Loss{JobSeconds: math.MaxInt64, Jobs: 1}, scene: `
			node n
			pending pods=1 cards=1
			job gang running=n*3 loss=4611686018427387904`},
		"2^62 card-seconds each of a gang and an elastic pod": {want: Loss{JobSeconds: 1 << 62, PodSeconds: 1 << 62, Jobs: 1}, scene: `
			node n
			pending pods=2 cards=1
			job gang running=n loss=4611686018427387904
			job elastic running=n*2 elastic=1 loss=4611686018427387904`},
	}) {
		plan, isSolved := solveAll(newScene(tc.scene).Problem)
		check.Must(t, isSolved, "no plan")

		check.Equal(t, "loss", tc.want, plan.Loss)
	}
}
