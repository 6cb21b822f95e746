package cardreclaim

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestLaterSessionsEvictNoPodTwice: the API server takes time to delete evicted pods. Until they are gone, every
// new session treats them as evicted, and gives their cards to the pods for which they were evicted. Gang cheap
// has run for one hour, gang costly for 24. "cheap*4" are the pods cheap-0 to cheap-3, "i@n*3" are i-0 to i-2 on
// node n.
func TestLaterSessionsEvictNoPodTwice(t *testing.T) {
	for t, owner := range check.Cases(t, map[string]string{
		"the evicted pods are deleted":   "",
		"the evicted pods are recreated": "owner=vcjob",
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			node n model=A cards=8
			job cheap queue=training min=4 running=n*4 age=1h %[1]s
			job costly queue=training min=4 running=n*4 age=24h %[1]s
			job i queue=inference min=3 pending=3`, owner))
		s.runSession(t).expectEvictedAndPlaced(t, "cheap*4", "i@n*3")
		for range 3 {
			s.openSession().expectEvictedAndPlaced(t, "cheap*4", "") // before any action
			s.runActions()
			s.expectEvictedAndPlaced(t, "cheap*4", "i@n*3")
		}

		// Job late needs 2 cards. One of cheap is left over, for the other one the second gang is evicted.
		s.addToCache("job late queue=inference min=2 pending=2")
		s.runSession(t).expectEvictedAndPlaced(t, "cheap*4 costly*4", "i@n*3 late@n*2")
		s.runSession(t).expectEvictedAndPlaced(t, "cheap*4 costly*4", "i@n*3 late@n*2")
	}
}

// TestAPodWaitsForTerminatingPodsThatKeepItOffItsNode: the gang on node n is evicted for the pod of job i. While
// its pods terminate, they still conflict with the pod, so the next sessions cannot place it there. It must
// wait, and not evict the gang on node m as well. "cheap*4" are the pods cheap-0 to cheap-3.
func TestAPodWaitsForTerminatingPodsThatKeepItOffItsNode(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		podsPerNode         string
		training, reclaimer podChange
	}{
		"the gang and the pod have the same host port":              {"110", withHostPort(80), withHostPort(80)},
		"the pod avoids the gang, and has a host port of its own":   {"110", withLabel("t"), applyAll(avoiding("t"), withHostPort(80))},
		"the gang avoids the pod, which has a host port of its own": {"110", avoiding("i"), applyAll(withLabel("i"), withHostPort(80))},
		"the node accepts 4 pods, and the 4 of the gang terminate":  {"4", nil, nil},
	}) {
		s := newInferenceAndTrainingScene(`
			node n,m model=A cards=4
			job cheap queue=training min=4 running=n*4 age=1h
			job costly queue=training min=4 running=m*4 age=24h
			job i queue=inference min=1 pending=1`,
			onJob("cheap", tc.training), onJob("costly", tc.training), onJob("i", tc.reclaimer))
		s.changeNodes(allocatable("pods", tc.podsPerNode), allocatable("pods", tc.podsPerNode))

		s.runSession(t).expectEvictedAndPlaced(t, "cheap*4", "i-0@n")
		for range 2 {
			s.runSession(t).expectEvicted(t, "cheap*4")
		}
	}
}

// TestANewPodReclaimsBesideOneThatWaitsForItsNode: all pods of the scene have the same host port, so each pod of
// job i needs a node of its own. The gang on node n is evicted for i-1. Then i-2 comes. It cannot share node n
// with i-1, and reclaims node m. Meanwhile the terminating pods still have the port on node n, so i-1 is not
// placed yet. "cheap*4" are the pods cheap-0 to cheap-3.
func TestANewPodReclaimsBesideOneThatWaitsForItsNode(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n,m model=A cards=4
		node o model=A cards=1
		job cheap queue=training min=4 running=n*4 age=1h
		job costly queue=training min=4 running=m*4 age=24h
		job i queue=inference min=1 running=o pending=2 age=24h`, withHostPort(80))
	last := len(s.Pods) - 1
	newPod := s.Pods[last] // i-2 comes later
	s.Pods = s.Pods[:last]
	s.runSession(t).expectEvictedAndPlaced(t, "cheap*4", "i-1@n")

	s.Cache.AddPod(newPod)
	s.runSession(t).expectEvictedAndPlaced(t, "cheap*4 costly*4", "i-2@m")
}

// TestASessionIsReproducible: Go iterates over maps in another order each time, which must not decide who is evicted. 21
// sessions with the same scene of three nodes, six jobs and four waiting jobs have the same outcome.
func TestASessionIsReproducible(t *testing.T) {
	outcome := func() string {
		s := newInferenceAndTrainingScene(`
			queue inference2 quota={"A":3,"B":2} priority=80000 serviceType=inference cpu=1000
			queue training2 quota=1000 priority=20000 serviceType=training cpu=1000
			node n,m model=A cards=8
			node o model=B cards=8
			job a queue=training min=4 running=n*4 age=24h owner=vcjob
			job b queue=training2 min=4 running=n*4 age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3
			job c queue=training min=2 running=m*4 age=24h owner=vcjob
			job d queue=training2 min=4 running=m*4 age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3
			job e queue=training min=4 running=o*4 card=B age=24h owner=vcjob
			job f queue=training2 min=2 running=o*4 card=B age=24h task=ps,pods:1,min:1 task=w,pods:3,min:3
			job i queue=inference min=2 pending=5 card=A|B
			job j queue=inference2 min=3 pending=3 card=B|A
			job k queue=inference2 min=1 pending=3
			job l queue=inference min=1 pending=1 cards=4`).openSession()
		defer s.Close()

		s.reclaim().Execute(s.Ssn)
		evicted, placed := s.Outcome()
		return "evicted: " + evicted + "\nplaced: " + placed
	}

	first := outcome()
	check.That(t, first != "evicted: \nplaced: ", "no pod is evicted, so the test checks nothing")
	for range 20 {
		check.Equal(t, "outcome of the same scene", first, outcome())
	}
}

// TestAFailedSearchOfOneServiceTypeIsNotThatOfAnother: inference reclaims from training, whose pods are
// protected, and urgent reclaims from batch. Within a session the action remembers that no eviction helps the
// pods a-0 and b-0 of inference. The equal pod c-0 of urgent is in the same queue, and gets its card
// nevertheless. "t*4" are the pods t-0 to t-3.
func TestAFailedSearchOfOneServiceTypeIsNotThatOfAnother(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue other quota=1000 priority=20000 serviceType=batch
		queue mixed quota=1000 priority=80000
		node n,m model=A cards=4
		job protected queue=training min=4 running=n*4 age=24h preemptable=false
		job t queue=other min=4 running=m*4 age=24h
		job a queue=mixed min=1 pending=1 serviceType=inference
		job b queue=mixed min=1 pending=1 serviceType=inference
		job c queue=mixed min=1 pending=1 serviceType=urgent`)
	s.arguments = urgentReclaimsFromBatch()

	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "c-0@m")
}

// TestNoPodWaitsForAPodThatDoesNotTerminate: the pod hanging-0 was deleted an hour ago and still has its card. Its node
// may be broken, so job i does not wait for that card. It reclaims a card of training, if there is one. A deleted pod
// counts as evicted, so hanging-0 is in the list of both rows.
func TestNoPodWaitsForAPodThatDoesNotTerminate(t *testing.T) {
	hanging := onPod("hanging-0", terminatingSince(hour))

	runScenes(t, map[string]sceneCase{
		"the other 3 pods of the node are of training: one is evicted": {scene: `
			node n model=A cards=4
			job hanging queue=inference min=1 running=n age=24h
			job t queue=training min=1 running=n*3 age=24h
			job i queue=inference min=1 pending=1`, change: hanging, wantEvicted: "hanging-0 t-0", wantPlaced: "i-0@n"},
		"the other 3 pods are of inference: none is evicted, and job i is not placed": {scene: `
			node n model=A cards=4
			job hanging queue=inference min=1 running=n age=24h
			job t queue=inference min=1 running=n*3 age=24h
			job i queue=inference min=1 pending=1`, change: hanging, wantEvicted: "hanging-0"},
	})
}

// TestReclaimedCardsAreKeptForTheirGang: a gang of 2 pods reclaims all cards of the nodes n and m. Then node m
// is cordoned for a while, so the gang cannot start. The free cards of node n are kept for it: the training job
// waiting-again of 4 pods does not get them. When node m is back, the gang starts. "on-m*4" are the pods on-m-0
// to on-m-3.
func TestReclaimedCardsAreKeptForTheirGang(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n,m model=A cards=4
		job on-n queue=training min=4 running=n*4 age=1h
		job on-m queue=training min=4 running=m*4 age=1h
		job waiting-again queue=training min=4 pending=4
		job gang queue=inference min=2 pending=2 cards=4`)
	s.runSession(t).expectEvictedAndPlaced(t, "on-m*4 on-n*4", "gang-0@n gang-1@m")

	// The evicted pods of node n end, and node m is cordoned.
	for _, pod := range s.podsOf("on-n") {
		s.Cache.DeletePod(pod)
	}
	cordoned := s.Nodes[1].DeepCopy()
	cordoned.Spec.Unschedulable = true
	check.NoError(t, s.Cache.AddOrUpdateNode(cordoned))
	for range 3 { // no pod starts, neither of the gang nor of waiting-again
		s.runSession(t).expectBound(t, "")
	}

	// The evicted pods of node m end, and node m is back.
	for _, pod := range s.podsOf("on-m") {
		s.Cache.DeletePod(pod)
	}
	check.NoError(t, s.Cache.AddOrUpdateNode(s.Nodes[1]))
	s.runSession(t).expectBound(t, "gang-0@n gang-1@m")
}
