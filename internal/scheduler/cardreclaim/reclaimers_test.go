package cardreclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAGangReclaimsCardsForAllItsPodsOrNone: a gang cannot work with fewer pods than its minimum, so the
// scheduler evicts no pod for a part of a gang. Node n has 8 cards A, which the training gangs a and b use with
// 4 pods each. They are equal, so a is evicted first, by name. A queue of a row replaces queue inference, which has a
// quota of 1000. Gang i of inference waits; its min is its minMember. "a*4" are the pods a-0 to a-3, "i@n*8" are
// i-0 to i-7 on node n.
func TestAGangReclaimsCardsForAllItsPodsOrNone(t *testing.T) {
	const queue = "queue inference priority=80000 serviceType=inference "

	for t, tc := range check.Cases(t, map[string]struct {
		text                    string
		change                  podChange
		wantEvicted, wantPlaced string
	}{
		"8 pods, 8 cards":       {text: "job i queue=inference min=8 pending=8", wantEvicted: "a*4 b*4", wantPlaced: "i@n*8"},
		"9 pods, 8 cards: none": {text: "job i queue=inference min=9 pending=9"},
		"4 pods of two cards, 8 cards": {
			text: "job i queue=inference min=4 pending=4 cards=2", wantEvicted: "a*4 b*4", wantPlaced: "i@n*4"},
		"5 pods, a quota of 4: none": {text: queue + `quota={"A":4}
			job i queue=inference min=5 pending=5`},
		"4 pods, a quota of 4": {text: queue + `quota={"A":4}
			job i queue=inference min=4 pending=4`, wantEvicted: "a*4", wantPlaced: "i@n*4"},
		"5 pods of one core, a limit of 4 cores: none": {text: queue + `quota=1000 cpu=4
			job i queue=inference min=5 pending=5`},
		"4 pods of one core, a limit of 4 cores": {text: queue + `quota=1000 cpu=4
			job i queue=inference min=4 pending=4`, wantEvicted: "a*4", wantPlaced: "i@n*4"},
		"2 pods exist of a minimum of 3: none":      {text: "job i queue=inference min=3 pending=2"},
		"one of 4 pods never preempts others: none": {text: "job i queue=inference min=4 pending=4", change: onPod("i-2", neverPreempting)},
		"one of 4 pods has a scheduling gate: none": {text: "job i queue=inference min=4 pending=4", change: onPod("i-2", gated)},
		"one of 4 pods has an unbound volume: none": {text: "job i queue=inference min=4 pending=4", change: onPod("i-1", withUnboundVolume)},
		"one of 3 pods requests no card": {
			text: "job i queue=inference min=3 pending=3", change: onPod("i-0", withoutCards), wantEvicted: "a*4", wantPlaced: "i@n*3"},
		"minimum 2 of 4 pods of four cards: one pod of each task, i-3 is the only lead": {
			text:        "job i queue=inference min=2 pending=4 cards=4 task=work,pods:3,min:1 task=lead,pods:1,min:1",
			wantEvicted: "a*4 b*4", wantPlaced: "i-0@n i-3@n"},
		"minimum 2 of 4 pods of two cards: all, as the cards suffice": {
			text:        "job i queue=inference min=2 pending=4 cards=2 task=work,pods:3,min:1 task=lead,pods:1,min:1",
			wantEvicted: "a*4 b*4", wantPlaced: "i@n*4"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=n*4 age=24h
			`+tc.text, tc.change)
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestRunningPodsCountForTheMinimumOfAGang: two pods of gang i run. So it needs cards only for the rest of its
// minimum, and none if it cannot get the whole rest. Pods beyond that use what is left of the cards of a victim. "t*6"
// are the pods t-0 to t-5.
func TestRunningPodsCountForTheMinimumOfAGang(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"2 of 4 run, so 2 of the 3 that wait are needed: all three get cards, as gang t has 6": {scene: `
			node n model=A cards=8
			job i queue=inference min=4 running=n*2 pending=3 age=24h
			job t queue=training min=6 running=n*6`, wantEvicted: "t*6", wantPlaced: "i-2@n i-3@n i-4@n"},
		"2 of 8 run, 6 wait, only 4 cards may be reclaimed: none": {scene: `
			node n model=A cards=8
			job i queue=inference min=8 running=n*2 pending=6 age=24h
			job t queue=training min=4 running=n*4
			job protected queue=training min=1 running=n*2 preemptable=false`},
	})
}

// TestPodsOfAGangMayRequestDifferentCards: two pods of gang i request card A, and i-1 and i-3 card B. Node n has
// 4 cards A, node m 4 cards B. The gang gets both cards or none. "a*4" are the pods a-0 to a-3.
func TestPodsOfAGangMayRequestDifferentCards(t *testing.T) {
	requestingB := applyAll(onPod("i-1", requestingCard("B")), onPod("i-3", requestingCard("B")))

	runScenes(t, map[string]sceneCase{
		"both cards may be reclaimed": {scene: `
			node n model=A cards=4
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=m*4 card=B age=24h
			job i queue=inference min=4 pending=4`,
			change: requestingB, wantEvicted: "a*4 b*4", wantPlaced: "i-0@n i-1@m i-2@n i-3@m"},
		"the pods with card B are protected: none": {scene: `
			node n model=A cards=4
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=24h
			job protected queue=training min=1 running=m*4 card=B preemptable=false
			job i queue=inference min=4 pending=4`, change: requestingB},
	})
}

// TestAJobOfMinimumOneReclaimsForAsManyPodsAsPossible: the pods of a Deployment work alone, so each of them gets
// a card as far as cards, quota and CPU go. Node n has 8 cards, which the training gangs a and b use with 4 pods
// each. They are equal, so a is evicted first, by name. A queue of a row replaces queue inference, which has a quota
// of 1000. "a*4" are the pods a-0 to a-3, "i@n*3" are i-0 to i-2 on node n.
func TestAJobOfMinimumOneReclaimsForAsManyPodsAsPossible(t *testing.T) {
	const queue = "queue inference priority=80000 serviceType=inference "

	for t, tc := range check.Cases(t, map[string]struct {
		text                    string
		change                  podChange
		wantEvicted, wantPlaced string
	}{
		"3 pods wait": {text: "job i queue=inference min=1 pending=3", wantEvicted: "a*4", wantPlaced: "i@n*3"},
		"9 pods wait, 8 cards: 8 pods": {
			text: "job i queue=inference min=1 pending=9", wantEvicted: "a*4 b*4", wantPlaced: "i@n*8"},
		"9 pods wait, a quota of 5: 5 pods": {text: queue + `quota={"A":5}
			job i queue=inference min=1 pending=9`, wantEvicted: "a*4 b*4", wantPlaced: "i@n*5"},
		"9 pods of one core wait, a limit of 3 cores: 3 pods": {text: queue + `quota=1000 cpu=3
			job i queue=inference min=1 pending=9`, wantEvicted: "a*4", wantPlaced: "i@n*3"},
		"one of 4 pods has an unbound volume: the other 3": {text: "job i queue=inference min=1 pending=4",
			change: onPod("i-1", withUnboundVolume), wantEvicted: "a*4", wantPlaced: "i-0@n i-2@n i-3@n"},
		"one of 3 pods has a scheduling gate: the other 2": {text: "job i queue=inference min=1 pending=3",
			change: onPod("i-1", gated), wantEvicted: "a*4", wantPlaced: "i-0@n i-2@n"},
		"no pod preempts others: none": {text: "job i queue=inference min=1 pending=2", change: onJob("i", neverPreempting)},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=n*4 age=24h
			`+tc.text, tc.change)
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestAJobOfMinimumOneUsesWhatCanBeReclaimed: the pods of a Deployment work alone. Each row has another reason
// why only some of them get a card, or why one victim is chosen and not another. One row has gangs of equal
// pods: that the larger gangs get nothing must not stop the smaller one. "a*4" are the pods a-0 to a-3, "i@n*4"
// are i-0 to i-3 on node n.
func TestAJobOfMinimumOneUsesWhatCanBeReclaimed(t *testing.T) {
	lastFiveRequestB := onJob("i", func(p *corev1.Pod) {
		if p.Name > "i-4" {
			requestingCard("B")(p)
		}
	})

	runScenes(t, map[string]sceneCase{
		"6 pods wait, 4 cards may be reclaimed: 4 pods": {scene: `
			node n model=A cards=8
			job a queue=training min=4 running=n*4 age=24h
			job protected queue=training min=4 running=n*4 preemptable=false
			job i queue=inference min=1 pending=6`, wantEvicted: "a*4", wantPlaced: "i@n*4"},
		"4 pods run and 2 wait: the 2": {scene: `
			node n model=A cards=8
			job i queue=inference min=1 running=n*4 pending=2 age=24h
			job a queue=training min=4 running=n*4 age=24h`, wantEvicted: "a*4", wantPlaced: "i-4@n i-5@n"},
		"5 pods request card A and 5 card B, 4 of each may be reclaimed: 4 of each": {scene: `
			node n model=A cards=4
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=m*4 card=B age=24h
			job i queue=inference min=1 pending=10`, change: lastFiveRequestB,
			wantEvicted: "a*4 b*4", wantPlaced: "i@n*4 i-5@m i-6@m i-7@m i-8@m"},
		"4 pods wait: the gang with 4 cards (120 card-seconds), not also the single pod, which alone would be cheaper": {scene: `
			node n model=A cards=5
			job single queue=training min=1 running=n age=100s
			job gang queue=training min=4 running=n*4 age=30s
			job i queue=inference min=1 pending=4`, wantEvicted: "gang*4", wantPlaced: "i@n*4"},
		"gangs of 8 and of 6 pods get nothing of 4 cards, a gang of 3 equal pods does": {scene: `
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=1h
			job eight queue=inference min=8 pending=8
			job six queue=inference min=6 pending=6
			job three queue=inference min=3 pending=3`, wantEvicted: "t*4", wantPlaced: "three@n*3"},
	})
}

// TestAPodGetsOneOfTheCardsThatItAccepts: card=A|B accepts card A, else card B. Node n has 4 cards A and node m
// 4 cards B; the training gangs a and b have used them for 24 hours. So both evictions would lose as much work.
// A queue of a row replaces queue inference, which has a quota of 1000. "b*4" are the pods b-0 to b-3, "i@m*2"
// are i-0 and i-1 on node m.
func TestAPodGetsOneOfTheCardsThatItAccepts(t *testing.T) {
	const queue = "queue inference priority=80000 serviceType=inference "

	for t, tc := range check.Cases(t, map[string]struct{ text, wantEvicted, wantPlaced string }{
		"card A or B, quota for B only: B": {queue + `quota={"B":4}
			job i queue=inference min=2 pending=2 card=A|B`, "b*4", "i@m*2"},
		"4 pods with card A or B, quota for one A and 3 B: both": {queue + `quota={"A":1,"B":3}
			job i queue=inference min=4 pending=4 card=A|B`, "a*4 b*4", "i-0@n i-1@m i-2@m i-3@m"},
		"5 pods with card A or B, quota for one A and 3 B: none": {queue + `quota={"A":1,"B":3}
			job i queue=inference min=5 pending=5 card=A|B`, "", ""},
		"a pod that names no card, quota for B only: B": {queue + `quota={"B":4}
			job i queue=inference min=1 pending=1 card=none`, "b*4", "i-0@m"},
		"card C, which no node has: none": {"job i queue=inference min=1 pending=1 card=C", "", ""},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=m*4 card=B age=24h
			` + tc.text)
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestTheVictimsDecideBetweenCardsThatAPodAccepts: where a pod may get cards of two nodes, the quota of its
// queue and the work that would be lost decide. If both evictions lose the same, the first gang by name is
// evicted. "a*4" are the pods a-0 to a-3, "i@n*2" are i-0 and i-1 on node n.
func TestTheVictimsDecideBetweenCardsThatAPodAccepts(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"card A or B, the gang with A has run for less time: A": {scene: `
			node n model=A cards=4
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=1h
			job b queue=training min=4 running=m*4 card=B age=24h
			job i queue=inference min=2 pending=2 card=A|B`, wantEvicted: "a*4", wantPlaced: "i@n*2"},
		"card A or B, both gangs would lose the same work: gang a, the first by name, although it has card B": {scene: `
			node n model=A cards=4
			node m model=B cards=4
			job b queue=training min=4 running=n*4 age=24h
			job a queue=training min=4 running=m*4 card=B age=24h
			job i queue=inference min=1 pending=1 card=A|B`, wantEvicted: "a*4", wantPlaced: "i-0@m"},
		"cards A are free, but the queue has quota for B only: B": {scene: `
			queue inference quota={"B":4} priority=80000 serviceType=inference
			node n model=A cards=8
			node m model=B cards=4
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=m*4 card=B age=24h
			job i queue=inference min=1 pending=1 card=A|B`, wantEvicted: "b*4", wantPlaced: "i-0@m"},
		"card A of two nodes: the node with the gang that has run for less time": {scene: `
			node n,m model=A cards=4
			job old queue=training min=4 running=n*4 age=24h
			job young queue=training min=4 running=m*4 age=1h
			job i queue=inference min=1 pending=1`, wantEvicted: "young*4", wantPlaced: "i-0@m"},
	})
}

// TestAPodGetsTheFirstOfItsCardsThatIsFree: of the free cards that a pod accepts, it gets the one that it names first.
// A card A of node n and a card B of node m are free. The action cardreclaim runs without allocate before it, and
// places the pod itself.
func TestAPodGetsTheFirstOfItsCardsThatIsFree(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ card, wantPlaced string }{
		"card A or B: A": {"A|B", "i-0@n"},
		"card B or A: B": {"B|A", "i-0@m"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=1
			node m model=B cards=1
			job i queue=inference min=1 pending=1 card=` + tc.card)
		s.withoutAllocate = true
		s.runSession(t).expectEvictedAndPlaced(t, "", tc.wantPlaced)
	}
}

// TestFreeCardsAreUsedBeforeOthersAreReclaimed: node n is full, node m has 8 cards of which 4 are free. The
// action cardreclaim runs without allocate before it, and still evicts no pod while free cards suffice. Gang c
// on node m is the cheapest victim. "c*4" are the pods c-0 to c-3, "i@m*4" are i-0 to i-3 on node m.
func TestFreeCardsAreUsedBeforeOthersAreReclaimed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ waiting, wantEvicted, wantPlaced string }{
		"a gang of 4":                      {"job i queue=inference min=4 pending=4", "", "i@m*4"},
		"4 pods of minimum one":            {"job i queue=inference min=1 pending=4", "", "i@m*4"},
		"two gangs of 2":                   {"job i queue=inference min=2 pending=2; job j queue=inference min=2 pending=2", "", "i@m*2 j@m*2"},
		"a gang of 6: 4 free, 2 reclaimed": {"job i queue=inference min=6 pending=6", "c*4", "i@m*6"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n,m model=A cards=8
			job a queue=training min=4 running=n*4 age=24h
			job b queue=training min=4 running=n*4 age=24h
			job c queue=training min=4 running=m*4 age=1h
			` + tc.waiting)
		s.withoutAllocate = true

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestReclaimedCardsServeJobsInTheOrderOfPriority: an eviction of a gang may free more cards than one job needs.
// Jobs of a queue of higher priority, and of higher priority in a queue, choose first. What is left serves the
// next job. "t*8" are the pods t-0 to t-7, "i@n*3" are i-0 to i-2 on node n.
func TestReclaimedCardsServeJobsInTheOrderOfPriority(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"8 cards of one gang serve three jobs with 3, 4 and 1 pods": {scene: `
			node n,m model=A cards=8
			job t queue=training min=8 running=n*8 age=1h
			job u queue=training min=8 running=m*8 age=24h
			job i queue=inference min=3 pending=3
			job j queue=inference min=4 pending=4
			job k queue=inference min=1 pending=1`, wantEvicted: "t*8", wantPlaced: "i@n*3 j@n*4 k-0@n"},
		"4 cards for two gangs of 3: the queue of priority 90000 gets them, not that of 80000": {scene: `
			queue first quota=1000 priority=90000 serviceType=inference
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=24h
			job low queue=inference min=3 pending=3
			job high queue=first min=3 pending=3`, wantEvicted: "t*4", wantPlaced: "high@n*3"},
		"4 cards for 3 pods of the first queue and one of the second: both": {scene: `
			queue first quota=1000 priority=90000 serviceType=inference
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=24h
			job low queue=inference min=1 pending=1
			job high queue=first min=3 pending=3`, wantEvicted: "t*4", wantPlaced: "low-0@n high@n*3"},
		"4 cards for two gangs of 3 in one queue: the one of the higher PriorityClass": {scene: `
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=24h
			job low queue=inference min=3 pending=3 priorityClass=low
			job high queue=inference min=3 pending=3 priorityClass=high`, wantEvicted: "t*4", wantPlaced: "high@n*3"},
	})
}

// TestOnlyPodsOfInferenceReclaim: queue mixed has no service type, so its pods name their own. Pod i-1 is of
// training and reclaims nothing, the other pods of job i are of inference. Node n has 4 cards, which a training
// gang uses. "t*4" are the pods t-0 to t-3.
func TestOnlyPodsOfInferenceReclaim(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ waiting, wantEvicted, wantPlaced string }{
		"a gang of 2, one of them training: none":            {"min=2 pending=2", "", ""},
		"3 pods of minimum one, one training: the other two": {"min=1 pending=3", "t*4", "i-0@n i-2@n"},
	}) {
		s := newInferenceAndTrainingScene(`
			queue mixed quota=1000 priority=80000
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=24h
			job i queue=mixed serviceType=inference `+tc.waiting, onPod("i-1", ofServiceType("training")))
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestWhichJobsReclaimNothing: each row has a reason for which no cards are reclaimed for a job of inference. Node n
// has 4 cards, which a training gang uses.
func TestWhichJobsReclaimNothing(t *testing.T) {
	hardTopology := v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: ptr.To(1)}
	for t, tc := range check.Cases(t, map[string]struct {
		waiting   string
		change    podChange
		topology  *v1beta1.NetworkTopologySpec
		arguments map[string]any
	}{
		"Volcano has not enqueued the job, its phase is Pending": {waiting: "job i queue=inference min=2 pending=2 phase=Pending"},
		"the queue of the job does not exist":                    {waiting: "job i queue=none min=1 pending=1"},
		"the pod requests CPU and no card": {
			waiting: "job i queue=inference min=1 pending=1 cards=0", change: requesting("cpu", "64")},
		"one of two card names is invalid": {waiting: "job i queue=inference min=1 pending=1 card=A|not_a_name"},
		"Volcano places the job by a hard network topology, which the action does not know": {
			waiting: "job i queue=inference min=2 pending=2", topology: &hardTopology},
		"the plugin refused its arguments, so the session has no rules": {
			waiting: "job i queue=inference min=2 pending=2", arguments: map[string]any{"overCommitFactor": 0.5}},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n model=A cards=4
			job t queue=training min=4 running=n*4 age=24h
			%s`, tc.waiting), onJob("i", tc.change))
		s.Groups[1].Spec.NetworkTopology = tc.topology // of job i
		s.arguments = tc.arguments

		s.runSession(t).expectEvictedAndPlaced(t, "", "")
		check.Equal(t, "running pods", 4, len(s.In(api.Running)))
	}
}

// TestShardingLimitsTheNodesOfAScheduler: with Volcano's sharding several schedulers share a cluster, and each
// has a shard of the nodes. With hard sharding a scheduler uses no other nodes. With soft sharding it prefers
// free cards of its shard, and reclaims wherever the least work is lost. The gang on node n has run for one
// hour, that on m for 24 hours, so n is the cheaper node. "t*4" are the pods t-0 to t-3.
func TestShardingLimitsTheNodesOfAScheduler(t *testing.T) {
	before := options.ServerOpts.ShardingMode
	t.Cleanup(func() { options.ServerOpts.ShardingMode = before })

	for t, tc := range check.Cases(t, map[string]struct {
		mode, shard             string
		cards                   int // of each node, of which 4 are in use
		wantEvicted, wantPlaced string
	}{
		"no sharding, the shard has m: n, the cheaper node":      {util.NoneShardingMode, "m", 4, "t*4", "i-0@n"},
		"hard, the shard has m: m":                               {util.HardShardingMode, "m", 4, "u*4", "i-0@m"},
		"hard, the shard has no node: none":                      {util.HardShardingMode, "", 4, "", ""},
		"soft, the shard has n: n, the cheaper node":             {util.SoftShardingMode, "n", 4, "t*4", "i-0@n"},
		"soft, the shard has m: n, the cheaper node":             {util.SoftShardingMode, "m", 4, "t*4", "i-0@n"},
		"soft, the shard has n, a card is free on both nodes: n": {util.SoftShardingMode, "n", 5, "", "i-0@n"},
		"soft, the shard has m, a card is free on both nodes: m": {util.SoftShardingMode, "m", 5, "", "i-0@m"},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n,m model=A cards=%d
			job t queue=training min=4 running=n*4 age=1h
			job u queue=training min=4 running=m*4 age=24h
			job i queue=inference min=1 pending=1`, tc.cards))
		options.ServerOpts.ShardingMode = tc.mode
		s.withoutAllocate = true // cardreclaim itself places pods that need no eviction
		s.openSession()
		t.Cleanup(s.Close)

		s.Ssn.NodesInShard = sets.New(tc.shard)
		s.runActions()
		s.expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}
