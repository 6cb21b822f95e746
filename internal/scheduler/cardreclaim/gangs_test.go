package cardreclaim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAJobLosesItsElasticPodsOrAllPods: min is the minMember of a job. Without so many pods it cannot work, so
// the scheduler evicts either pods above the minimum (elastic pods), or the whole job. It chooses what destroys
// the least work: cards × time since the start. Elastic pods always come before whole jobs, equal pods in the
// order of their names. A job without age has just started. Each pod requests one card. "gang*8" are the pods
// gang-0 to gang-7, "waiting@n*4" are waiting-0 to waiting-3 on node n.
func TestAJobLosesItsElasticPodsOrAllPods(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"8 pods of minimum 8, one card is needed: all 8 pods": {scene: `
			node n model=A cards=8
			job gang queue=training min=8 running=n*8
			job waiting queue=inference min=1 pending=1`, wantEvicted: "gang*8", wantPlaced: "waiting-0@n"},
		"a gang over two nodes, four cards are needed, which the first node has: all 8 pods": {scene: `
			node n,m model=A cards=4
			job gang queue=training min=8 running=n*4,m*4
			job waiting queue=inference min=4 pending=4`, wantEvicted: "gang*8", wantPlaced: "waiting@n*4"},
		"two gangs of 4 pods: the one that runs for 24 hours, not for 48": {scene: `
			node n model=A cards=8
			job old queue=training min=4 running=n*4 age=48h
			job new queue=training min=4 running=n*4 age=24h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "new*4", wantPlaced: "waiting-0@n"},
		"two gangs of the same age: the one with 2 cards, not with 6": {scene: `
			node n model=A cards=8
			job large queue=training min=6 running=n*6 age=24h
			job small queue=training min=2 running=n*2 age=24h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "small*2", wantPlaced: "waiting-0@n"},
		"three cards are needed: the gang with 6 cards, as 2 are not enough": {scene: `
			node n model=A cards=8
			job large queue=training min=6 running=n*6 age=24h
			job small queue=training min=2 running=n*2 age=24h
			job waiting queue=inference min=3 pending=3`, wantEvicted: "large*6", wantPlaced: "waiting@n*3"},
		"four cards are needed: one gang of 4 × 48 hours, not two of 2 × 72 hours": {scene: `
			node n model=A cards=8
			job a queue=training min=2 running=n*2 age=72h
			job b queue=training min=2 running=n*2 age=72h
			job c queue=training min=4 running=n*4 age=48h
			job waiting queue=inference min=4 pending=4`, wantEvicted: "c*4", wantPlaced: "waiting@n*4"},
		"an elastic pod of 216 hours comes before a gang of one hour": {scene: `
			node n model=A cards=8
			job elastic queue=training min=1 running=n*4 age=216h
			job gang queue=training min=4 running=n*4 age=1h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "elastic-0", wantPlaced: "waiting-0@n"},
		"an elastic pod of 216 hours comes before a gang that has just started": {scene: `
			node n model=A cards=8
			job elastic queue=training min=1 running=n*4 age=216h
			job gang queue=training min=4 running=n*4
			job waiting queue=inference min=1 pending=1`, wantEvicted: "elastic-0", wantPlaced: "waiting-0@n"},
		"8 pods of minimum 6, two cards are needed: the two elastic pods": {scene: `
			node n model=A cards=8
			job t queue=training min=6 running=n*8
			job waiting queue=inference min=2 pending=2`, wantEvicted: "t-0 t-1", wantPlaced: "waiting@n*2"},
		"8 pods of minimum 6, three cards are needed: all 8 pods": {scene: `
			node n model=A cards=8
			job t queue=training min=6 running=n*8
			job waiting queue=inference min=3 pending=3`, wantEvicted: "t*8", wantPlaced: "waiting@n*3"},
		"a job of 2 pods is below its minimum of 4, so it has no elastic pods: both": {scene: `
			node n model=A cards=8
			job incomplete queue=training min=4 running=n*2
			job gang queue=training min=6 running=n*6 age=24h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "incomplete*2", wantPlaced: "waiting-0@n"},
	})
}

// TestAVolcanoJobWithAPolicyOnEvictedPodsIsEvictedWhole: a Volcano job (vcjob) may have a policy that restarts
// or terminates all of it when one pod is evicted. Then no pod is elastic, although the minimum is 1 of 8 pods.
// "t*8" are the pods t-0 to t-7.
func TestAVolcanoJobWithAPolicyOnEvictedPodsIsEvictedWhole(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ evictionPolicy, wantEvicted string }{
		"no policy: one pod":              {"", "t-0"},
		"policy RestartJob: all 8 pods":   {"evictionPolicy=RestartJob", "t*8"},
		"policy TerminateJob: all 8 pods": {"evictionPolicy=TerminateJob", "t*8"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job waiting queue=inference min=1 pending=1
			job t queue=training min=1 running=n*8 owner=vcjob ` + tc.evictionPolicy)
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "waiting-0@n")
	}
}

// TestPodsThatFreeNoCardAreEvictedOnlyWithTheirGang: the pod t-0 requests no card, the eight others one each.
// Its eviction alone helps no pod that waits for a card. "t*9" are the pods t-0 to t-8.
func TestPodsThatFreeNoCardAreEvictedOnlyWithTheirGang(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		minimum     int
		wantEvicted string
	}{
		"all 9 pods are needed: all are evicted":  {9, "t*9"},
		"8 pods are elastic: one that has a card": {1, "t-1"},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n model=A cards=8
			job t queue=training min=%d running=n*9
			job waiting queue=inference min=1 pending=1`, tc.minimum), onPod("t-0", withoutCards))

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "waiting-0@n")
	}
}

// TestElasticPodsAreCountedForEachTask: a Volcano job has tasks, each with a minimum of its own. A pod is
// elastic if both its task and the job as a whole have more pods than their minimum. The job has the pods t-0 to
// t-3 of task ps, and t-4 to t-7 of task worker. Of equal pods the first by name are evicted. "t*8" are the pods t-0 to
// t-7, "waiting@n*3" are waiting-0 to waiting-2 on node n.
func TestElasticPodsAreCountedForEachTask(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"ps has 2 elastic pods, worker 3, the job 5": {scene: `
			node n model=A cards=8
			job t queue=training min=3 running=n*8 task=ps,pods:4,min:2 task=worker,pods:4,min:1
			job waiting queue=inference min=3 pending=3`, wantEvicted: "t-0 t-1 t-4", wantPlaced: "waiting@n*3"},
		"the minimum of the job leaves 1 elastic pod, 2 cards are needed: all pods": {scene: `
			node n model=A cards=8
			job t queue=training min=7 running=n*8 task=ps,pods:4,min:2 task=worker,pods:4,min:1
			job waiting queue=inference min=2 pending=2`, wantEvicted: "t*8", wantPlaced: "waiting@n*2"},
		"the minimums of the tasks, 4 + 4, are above the job's 2: Volcano ignores them, so 6 pods are elastic": {scene: `
			node n model=A cards=8
			job t queue=training min=2 running=n*8 task=ps,pods:4,min:4 task=worker,pods:4,min:4
			job waiting queue=inference min=6 pending=6`, wantEvicted: "t*6", wantPlaced: "waiting@n*6"},
	})
}

// TestPodsThatSucceededCountForTheMinimum: the pod t-0 has succeeded and 7 pods of t run. So 7 + 1 - 5 = 3 pods
// are above the minimum of 5, and the 3 waiting pods of inference replace them. If t-0 did not count, only 2 would
// be above the minimum. Job other fills the card of t-0. It has run for 24 hours, so it is the dearer victim.
// "waiting@n*3" are the pods waiting-0 to waiting-2 on node n.
func TestPodsThatSucceededCountForTheMinimum(t *testing.T) {
	succeeded := onPod("t-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	s := newInferenceAndTrainingScene(`
		node n model=A cards=8
		job t queue=training min=5 running=n*8
		job other queue=training min=1 running=n age=24h
		job waiting queue=inference min=3 pending=3`, succeeded)

	s.runSession(t).expectEvictedAndPlaced(t, "t-1 t-2 t-3", "waiting@n*3")
}

// TestOnlyCardsThatThePodRequestsAreReclaimed: the pod requests card A. The gang with card B has run for less
// time, and its eviction would not help. "a*4" are the pods a-0 to a-3.
func TestOnlyCardsThatThePodRequestsAreReclaimed(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		node m model=B cards=4
		job a queue=training min=4 running=n*4 age=216h
		job b queue=training min=4 running=m*4 card=B
		job waiting queue=inference min=1 pending=1`)

	s.runSession(t).expectEvictedAndPlaced(t, "a*4", "waiting-0@n")
}

// TestACardOfADeletedNodeHelpsNoPod: node "deleted" is not in the cluster any more, but pods are still on it.
// They are evicted with their gang, and their cards do not become free for other pods. "t*4" are the pods t-0 to
// t-3, "waiting@n*2" are waiting-0 and waiting-1 on node n.
func TestACardOfADeletedNodeHelpsNoPod(t *testing.T) {
	runScenes(t, map[string]sceneCase{
		"the cluster has no node at all": {scene: `
			job waiting queue=inference min=1 pending=1`},
		"one card of node n is needed: the whole gang": {scene: `
			node n model=A cards=2
			job t queue=training min=4 running=n*2,deleted*2 age=24h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "t*4", wantPlaced: "waiting-0@n"},
		"both cards of node n are needed: the whole gang": {scene: `
			node n model=A cards=2
			job t queue=training min=4 running=n*2,deleted*2 age=24h
			job waiting queue=inference min=2 pending=2`, wantEvicted: "t*4", wantPlaced: "waiting@n*2"},
		"three cards are needed, of which node n has two: none": {scene: `
			node n model=A cards=2
			job t queue=training min=4 running=n*2,deleted*2 age=24h
			job waiting queue=inference min=3 pending=3`},
		"4 pods of minimum 3: the elastic pod on node n, not t-0 on the deleted node": {scene: `
			node n model=A cards=2
			job t queue=training min=3 running=deleted,n*2,deleted age=24h
			job waiting queue=inference min=1 pending=1`, wantEvicted: "t-1", wantPlaced: "waiting-0@n"},
	})
}

// TestPodsWithoutAPodGroupStay: Volcano does not know the minimum of a job without PodGroup, so none of its pods is
// evicted.
func TestPodsWithoutAPodGroupStay(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=8
		job t queue=training min=1 running=n*8
		job waiting queue=inference min=1 pending=1`)
	s.Groups = s.Groups[1:] // without that of t

	s.runSession(t).expectEvictedAndPlaced(t, "", "")
}

// TestWorkIsLostSinceTheLastCheckpoint: an eviction destroys the work since the last checkpoint, or since the
// start if there is none. Both gangs have 4 pods. Job "second" runs for 24 hours and has no checkpoint. Job
// "first" runs for 48 hours, so it is evicted only if its checkpoint is younger than 24 hours. A row has up to
// two checkpoints of job "first": one of its PodGroup and one of its pod first-2. "second*4" are the pods
// second-0 to second-3.
func TestWorkIsLostSinceTheLastCheckpoint(t *testing.T) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }

	for t, tc := range check.Cases(t, map[string]struct{ ofPodGroup, ofPod, wantEvicted string }{
		"no checkpoint":                                                    {"", "", "second*4"},
		"the PodGroup's is one hour old":                                   {at(hour), "", "first*4"},
		"the pod's is one hour old, and counts for all pods":               {"", at(hour), "first*4"},
		"the PodGroup's is 30 hours old, the pod's one hour: later counts": {at(30 * hour), at(hour), "first*4"},
		"the PodGroup's is one hour old, the pod's 30: the later counts":   {at(hour), at(30 * hour), "first*4"},
		"the PodGroup's is 30 hours old":                                   {at(30 * hour), "", "second*4"},
		"the PodGroup's is 90 days old, before the start: counts as start": {at(90 * day), "", "second*4"},
		"the PodGroup's is 90 days in the future: counts as now":           {at(-90 * day), "", "first*4"},
		"both are texts that are no time: count as no checkpoint":          {"yesterday", "12:00", "second*4"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job first queue=training min=4 running=n*4 age=48h
			job second queue=training min=4 running=n*4 age=24h
			job waiting queue=inference min=1 pending=1`, onPod("first-2", annotated("volcano.sh/checkpoint-time", tc.ofPod)))
		s.Groups[0].Annotations["volcano.sh/checkpoint-time"] = tc.ofPodGroup // of job first

		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "waiting-0@n")
	}
}

// TestOfEqualLossTheLowerQueueThenTheYoungerJobIsEvicted: all gangs have 4 pods and have just saved their work,
// so no eviction destroys any. Queue low has priority 10000, queue training 20000. In each row job "victim" is
// evicted. "victim*4" are the pods victim-0 to victim-3.
func TestOfEqualLossTheLowerQueueThenTheYoungerJobIsEvicted(t *testing.T) {
	for t, gangs := range check.Cases(t, map[string]string{
		"the queue of lower priority, although the job is older and its class is high": `
			job victim queue=low min=4 running=n*4 age=48h priorityClass=high
			job other queue=training min=4 running=n*4 age=24h priorityClass=low`,
		"in one queue the younger job": `
			job other queue=training min=4 running=n*4 age=48h priorityClass=low
			job victim queue=training min=4 running=n*4 age=24h priorityClass=low`,
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			queue low quota=1000 priority=10000 serviceType=training
			job waiting queue=inference min=1 pending=1` + gangs)
		for _, group := range s.Groups { // a checkpoint in the future counts as now
			group.Annotations["volcano.sh/checkpoint-time"] = time.Now().Add(hour).UTC().Format(time.RFC3339)
		}

		s.runSession(t).expectEvictedAndPlaced(t, "victim*4", "waiting-0@n")
	}
}
