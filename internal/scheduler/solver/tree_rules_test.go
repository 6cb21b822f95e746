package solver

import "testing"

// TestSolveForQuotasByLevel: in a tree of queues the pending pods need quota in their own queue, in its parent, and
// so on up to root: "left" has what is left at each level. A victim releases quota from its level upward: a job of
// level 1 is a sibling's, which counts in the parent; a job of level 2 counts in root only. "left=5,0,0" is 5 in the
// own queue and none in its parent and root. Each pod of a job with releases=A*2 releases 2 of quota A, and loses
// loss=. The pending pods run on node "free"; the jobs run on node "full", so they are evicted only for their quota.
// Each row wants the victims: "gang" is a whole job, "elastic-0" is pod 0 of job elastic.
func TestSolveForQuotasByLevel(t *testing.T) {
	const nodes = "node free cards=100; node full\n"

	checkVictims(t, map[string]victimsCase{
		"2 cards, all levels have enough": {want: "", scene: nodes + `
			quota A left=2,3,2
			pending pods=2 cards=1 nodes=free
			job gang running=full*2 level=1 releases=A loss=1`},
		"root has no quota left: the cheaper job, that of level 2": {want: "other", scene: nodes + `
			quota A left=5,5,0
			pending pods=1 cards=1 nodes=free
			job sibling running=full level=1 releases=A loss=9
			job other running=full level=2 releases=A loss=5`},
		"the parent has no quota left either: the sibling, although it loses more": {want: "sibling", scene: nodes + `
			quota A left=5,0,0
			pending pods=1 cards=1 nodes=free
			job sibling running=full level=1 releases=A loss=9
			job other running=full level=2 releases=A loss=5`},
		"the parent has no quota left, and the only job releases it in root": {want: "no plan", scene: nodes + `
			quota A left=5,0,0
			pending pods=1 cards=1 nodes=free
			job other running=full level=2 releases=A loss=5`},
		"the own queue has no quota left, which no job of other queues releases": {want: "no plan", scene: nodes + `
			quota A left=0,5,5
			pending pods=1 cards=1 nodes=free
			job sibling running=full level=1 releases=A loss=5
			job other running=full level=2 releases=A loss=5`},
		"3 cards: the parent has 1 too few, root 3": {want: "sibling other1 other2", scene: nodes + `
			quota A left=5,2,0
			pending pods=3 cards=1 nodes=free
			job costlySibling running=full level=1 releases=A loss=9
			job sibling running=full level=1 releases=A loss=7
			job other1 running=full level=2 releases=A loss=1
			job other2 running=full level=2 releases=A loss=2`},
		"the parent exceeds its quota by 2: 3 victims for one card": {want: "first second third", scene: nodes + `
			quota A left=5,-2
			pending pods=1 cards=1 nodes=free
			job first running=full level=1 releases=A loss=1
			job second running=full level=1 releases=A loss=2
			job third running=full level=1 releases=A loss=3
			job fourth running=full level=1 releases=A loss=4`},
		"a pod of 4 cards, the parent has 3 too few: 1 + 2 cards for a loss of 6": {want: "one two", scene: nodes + `
			quota A left=9,1
			pending pods=1 cards=4 nodes=free
			job one running=full level=1 releases=A loss=1
			job two running=full level=1 releases=A*2 loss=5
			job another running=full level=1 releases=A loss=2
			job costly running=full level=1 releases=A loss=9`},
		"an elastic pod before a gang that loses less": {want: "elastic-0", scene: nodes + `
			quota A left=5,0
			pending pods=1 cards=1 nodes=free
			job gang running=full level=1 releases=A loss=1
			job elastic running=full*2 elastic=1 level=1 releases=A loss=90`},
		"the lower rank, although it loses more": {want: "low", scene: nodes + `
			quota A left=5,0
			pending pods=1 cards=1 nodes=free
			job high running=full level=1 releases=A loss=1 rank=1
			job low running=full level=1 releases=A loss=90`},
		"the node is full too: one job that releases both loses 4, two jobs 5": {want: "both", scene: `
			node n; node full
			quota A left=5,0
			pending pods=1 cards=1 nodes=n
			job onlyQuota running=full level=1 releases=A loss=3
			job onlyNode running=n loss=2
			job both running=n level=1 releases=A loss=4`},
		"the node is full too: one job that releases both loses 6, two jobs 5": {want: "onlyQuota onlyNode", scene: `
			node n; node full
			quota A left=5,0
			pending pods=1 cards=1 nodes=n
			job onlyQuota running=full level=1 releases=A loss=3
			job onlyNode running=n loss=2
			job both running=n level=1 releases=A loss=6`},
		"the quota of a card that the pods do not use is exceeded: no victims": {want: "", scene: nodes + `
			quota A left=1; quota B left=-9
			pending pods=1 cards=1 nodes=free`},
	})
}

// TestSolveForQuotasOfAllNodes: quotas of CPU count a pod on whichever node it runs. Each pending pod uses 3 CPU. The
// jobs run on node "full", so they are evicted only for their quotas, which they release in the parent (level 1).
// "left=5,0" is 5 in the own queue and none in its parent. Each row wants the jobs that are evicted.
func TestSolveForQuotasOfAllNodes(t *testing.T) {
	const nodes = "node free cards=100; node full\n"

	checkVictims(t, map[string]victimsCase{
		"6 CPU are left for 2 pods": {want: "", scene: nodes + `
			quota A left=5; quota cpu left=6
			pending pods=2 cards=1 nodes=free uses=cpu*3
			job gang running=full level=1 releases=cpu loss=1`},
		"the parent has 3 CPU too few: the cheaper of two jobs that each release enough": {want: "cheaper", scene: nodes + `
			quota A left=5,5; quota cpu left=6,3
			pending pods=2 cards=1 nodes=free uses=cpu*3
			job cheaper running=full level=1 releases=cpu*4 loss=4
			job costlier running=full level=1 releases=cpu*3 loss=5`},
		"the parent has no card and no CPU left: one job that releases both loses 5, two jobs 6": {want: "both", scene: nodes + `
			quota A left=5,0; quota cpu left=5,0
			pending pods=1 cards=1 nodes=free uses=cpu*3
			job onlyCard running=full level=1 releases=A loss=3
			job onlyCPU running=full level=1 releases=cpu*3 loss=3
			job both running=full level=1 releases=A,cpu*3 loss=5`},
		"the parent has 3 CPU too few, and all jobs together release 2": {want: "no plan", scene: nodes + `
			quota A left=5,5; quota cpu left=6,3
			pending pods=2 cards=1 nodes=free uses=cpu*3
			job first running=full level=1 releases=cpu loss=4
			job second running=full level=1 releases=cpu loss=5`},
	})
}

// TestSolveTakesNoGuaranteedCards: a queue of a tree keeps its guarantee, so only cards above it may be
// taken. Of the queue and all below it that is at most most= cards of a limit "guarantee…", which is strict.
// "counts" has the limits against which each pod of a job counts, one card each. Node n is full, and all jobs
// run on it; n*3 are three pods. Each row wants the jobs that are evicted.
func TestSolveTakesNoGuaranteedCards(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"2 cards above the guarantee: a gang of 2": {want: "gang", scene: `
			node n
			limit guarantee most=2
			pending pods=2 cards=1
			job gang running=n*2 counts=guarantee loss=1`},
		"1 card above the guarantee: no gang of 2": {want: "other", scene: `
			node n
			limit guarantee most=1
			pending pods=1 cards=1
			job gang running=n*2 counts=guarantee loss=1
			job other running=n loss=9`},
		"2 cards above the guarantee: 2 elastic pods would fit, the whole job of 3 does not": {want: "no plan", scene: `
			node n
			limit guarantee most=2
			pending pods=3 cards=1
			job elastic running=n*3 elastic=2 counts=guarantee loss=1`},
		"two queues with 1 card each: one gang of each": {want: "x1 y1", scene: `
			node n
			limit guaranteeOfX most=1
			limit guaranteeOfY most=1
			pending pods=2 cards=1
			job x1 running=n counts=guaranteeOfX loss=1
			job x2 running=n counts=guaranteeOfX loss=2
			job y1 running=n counts=guaranteeOfY loss=8`},
		"two queues with 5 cards each, their parent with 1: the gang of either queue, not both": {want: "x other", scene: `
			node n
			limit guaranteeOfX most=5
			limit guaranteeOfY most=5
			limit guaranteeOfParent most=1
			pending pods=2 cards=1
			job x running=n counts=guaranteeOfX,guaranteeOfParent loss=1
			job y running=n counts=guaranteeOfY,guaranteeOfParent loss=2
			job other running=n loss=9`},
		"1 card above the guarantee: a job of a higher rank instead of a second one of the queue": {want: "first high", scene: `
			node n
			limit guarantee most=1
			pending pods=2 cards=1
			job first running=n counts=guarantee loss=1
			job second running=n counts=guarantee loss=2
			job high running=n rank=1 loss=9`},
	})
}

// TestSolveTakesBorrowedCards: a queue of a tree gives back what it and all below it have borrowed. That is
// most= cards of a limit "borrowed…". The last victim that counts against it may exceed it, so that a gang
// larger than the rest can be evicted. Before that victim, less than the limit must be taken. "counts" has
// the limits against which each pod of a job counts, one card each. Node n is full, and all jobs run on it;
// n*3 are three pods. Each row wants the victims: "gang" is a whole job, "elastic-0" a pod.
func TestSolveTakesBorrowedCards(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"1 borrowed card: a gang of 2, which exceeds it as the last victim": {want: "gang", scene: `
			node n
			limit borrowed most=1 borrowed=true
			pending pods=1 cards=1
			job gang running=n*2 counts=borrowed loss=1
			job other running=n loss=9`},
		"2 borrowed cards: a gang of 1, then one of 3 as the last": {want: "three one", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=4 cards=1
			job three running=n*3 counts=borrowed loss=1
			job one running=n counts=borrowed loss=1`},
		"2 borrowed cards: no second gang when they are taken": {want: "first other", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=4 cards=1
			job first running=n*2 counts=borrowed loss=1
			job second running=n*2 counts=borrowed loss=1
			job other running=n*2 loss=9`},
		"nothing is borrowed": {want: "no plan", scene: `
			node n
			limit borrowed most=0 borrowed=true
			pending pods=1 cards=1
			job gang running=n counts=borrowed loss=1`},
		"limits of 0, against which the job does not count": {want: "gang", scene: `
			node n
			limit borrowed most=3 borrowed=true
			limit borrowedByOther most=0 borrowed=true
			limit guaranteeOfOther most=0
			pending pods=1 cards=1
			job gang running=n counts=borrowed loss=1`},
		"2 borrowed cards: 2 of 3 elastic pods": {want: "elastic-0 elastic-1 other", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=3 cards=1
			job elastic running=n*3 elastic=3 whole=false counts=borrowed loss=1
			job other running=n loss=9`},
		"2 borrowed cards: a whole job, of which the elastic pod counts 2 and the other nothing": {want: "elastic", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=2 cards=1
			job elastic running=n*2 elastic=1 loss=1
			pod elastic 0 counts=borrowed*2`},
		"the parent has borrowed 3: y's gang of 2 leaves 1, so x's gang of 3 may be the last": {want: "x y", scene: `
			node n
			limit borrowedByX most=1 borrowed=true
			limit borrowedByY most=1 borrowed=true
			limit borrowedByParent most=3 borrowed=true
			pending pods=5 cards=1
			job x running=n*3 counts=borrowedByX,borrowedByParent loss=1
			job y running=n*2 counts=borrowedByY,borrowedByParent loss=1`},
		"the parent has borrowed 2: after either gang nothing is left for the other": {want: "no plan", scene: `
			node n
			limit borrowedByX most=1 borrowed=true
			limit borrowedByY most=1 borrowed=true
			limit borrowedByParent most=2 borrowed=true
			pending pods=5 cards=1
			job x running=n*3 counts=borrowedByX,borrowedByParent loss=1
			job y running=n*2 counts=borrowedByY,borrowedByParent loss=1`},
	})
}

// TestSolveCountsWhatAnotherRuleTakes: a job with onlyCounts=true is taken by another rule than "take what is
// borrowed", and before other jobs. So the limit "borrowed" does not refuse it, but the job uses the limit
// up. Another job needs some of the limit left, and may exceed it as the last victim. The limit "guarantee"
// refuses jobs with onlyCounts=true, too. "counts" has the limits against which each pod of a job counts, one
// card each. Node n is full, and all jobs run on it; n*3 are three pods. Each row wants the jobs that are
// evicted.
func TestSolveCountsWhatAnotherRuleTakes(t *testing.T) {
	checkVictims(t, map[string]victimsCase{
		"1 borrowed card, two jobs that another rule takes and that only count: both": {want: "first second", scene: `
			node n
			limit borrowed most=1 borrowed=true
			pending pods=2 cards=1
			job first running=n counts=borrowed onlyCounts=true loss=1
			job second running=n counts=borrowed onlyCounts=true loss=2
			job other running=n loss=9`},
		"1 borrowed card, used up by a job that only counts": {want: "onlyCounts other", scene: `
			node n
			limit borrowed most=1 borrowed=true
			pending pods=2 cards=1
			job onlyCounts running=n counts=borrowed onlyCounts=true loss=1
			job limited running=n counts=borrowed loss=2
			job other running=n loss=9`},
		"2 borrowed cards, of which a job that only counts leaves 1": {want: "onlyCounts limited", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=2 cards=1
			job onlyCounts running=n counts=borrowed onlyCounts=true loss=1
			job limited running=n counts=borrowed loss=2
			job other running=n loss=9`},
		"2 borrowed cards, of which a job that only counts leaves 1: a gang of 2 as the last": {want: "onlyCounts limited", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=3 cards=1
			job onlyCounts running=n counts=borrowed onlyCounts=true loss=1
			job limited running=n*2 counts=borrowed loss=2
			job other running=n*2 loss=99`},
		"2 borrowed cards: a job that only counts would use up both before the limited one, so never both": {want: "limited other", scene: `
			node n
			limit borrowed most=2 borrowed=true
			pending pods=2 cards=1
			job limited running=n counts=borrowed loss=1
			job onlyCounts running=n counts=borrowed*2 onlyCounts=true loss=2
			job other running=n loss=9`},
		"a job that only counts against what is borrowed, and a guarantee that forbids it": {want: "other", scene: `
			node n
			limit borrowed most=1 borrowed=true
			limit guarantee most=0
			pending pods=1 cards=1
			job onlyCounts running=n counts=borrowed,guarantee onlyCounts=true loss=1
			job other running=n loss=9`},
	})
}

// withReleases gives a job a level, and lets each of its pods release so much of the first quota.
func withReleases(level int, amount int64, job Job) Job {
	job.Level = level
	for i := range job.Pods {
		job.Pods[i].Releases = []QuotaAmount{{0, amount}}
	}
	return job
}
