package cardreclaim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestProtectedPodsStay: the annotation preemptable=false protects a pod or a PodGroup, and Kubernetes protects
// its critical pods. A gang with one protected pod stays as a whole. An elastic job loses its other pods. A
// Volcano job also stays while its policies are not read. Node n has 4 cards, all used by job t, and one pod of
// inference waits. "t*4" are the pods t-0 to t-3.
func TestProtectedPodsStay(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		job         string
		change      podChange
		wantEvicted string
	}{
		"one pod of a gang is protected: none":                {"min=4 running=n*4", onPod("t-2", protect), ""},
		"one pod of an elastic job is protected: another one": {"min=1 running=n*4", onPod("t-0", protect), "t-1"},
		"the only elastic pod, of task ps, is protected: none": {
			"min=3 running=n*4 task=ps,pods:1,min:0 task=w,pods:3,min:3", onPod("t-0", protect), ""},
		"the PodGroup is protected: none":                          {"min=4 running=n*4 groupPreemptable=false", nil, ""},
		"the pods are critical to the node: none":                  {"min=4 running=n*4", withPriorityClass("system-node-critical"), ""},
		"the policies of the Volcano job are not read yet: none":   {"min=4 running=n*4 owner=vcjob evictionPolicy=Unknown", nil, ""},
		"the pods belong to a Kubernetes Job, not to Volcano: all": {"min=4 running=n*4", ownedBy("batch/v1", "Job"), "t*4"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job waiting queue=inference min=1 pending=1
			job t queue=training age=24h `+tc.job, onJob("t", tc.change)).runSession(t)

		s.expectEvicted(t, tc.wantEvicted)
	}
}

// TestAGangWithAPodOnItsWayStays: allocate binds the fourth pod of the gang to node m in the same session. That pod is
// on its way to node m and cannot be evicted yet, so the gang would be evicted in part only. So job waiting, which
// needs all 4 cards of node n, gets none.
func TestAGangWithAPodOnItsWayStays(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		node m model=A cards=1
		job t queue=training min=4 running=n*3 pending=1 age=24h
		job waiting queue=inference min=1 pending=1 cards=4`).runSession(t)
	s.expectBound(t, "t-3@m")
	s.expectEvictedAndPlaced(t, "", "")
}

// TestWhichQueuesReclaimFromWhich: by the default reclaim matrix only inference reclaims, and only from
// training, in queues that are reclaimable and have a lower priority. Queue "victim" fills node n with a gang of
// 4 pods, and one pod waits in queue "reclaimer". What a row adds to a queue replaces the earlier word of the
// same key. "t*4" are the pods t-0 to t-3.
func TestWhichQueuesReclaimFromWhich(t *testing.T) {
	const (
		reclaimer = "queue reclaimer quota=1000 priority=80000 serviceType=inference"
		victim    = "queue victim quota=1000 priority=20000 serviceType=training"
		untyped   = "queue victim quota=1000 priority=100"
	)

	allButOne := func(p *corev1.Pod) {
		if p.Name != "t-3" {
			ofServiceType("training")(p)
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		reclaimer, victim string
		change            podChange
		wantEvicted       string
	}{
		"inference of priority 80000 from training of priority 20000":   {reclaimer, victim, nil, "t*4"},
		"not from a queue that is not reclaimable":                      {reclaimer, victim + " reclaimable=false", nil, ""},
		"not from a queue of equal priority":                            {reclaimer, victim + " priority=80000", nil, ""},
		"not from a queue of higher priority":                           {reclaimer, victim + " priority=90000", nil, ""},
		"inference not from inference":                                  {reclaimer, victim + " serviceType=inference reclaimable=true", nil, ""},
		"not from a service type that the matrix does not have":         {reclaimer, victim + " serviceType=batch", nil, ""},
		"training not from training":                                    {reclaimer + " serviceType=training", victim, nil, ""},
		"a service type that the matrix does not have reclaims nothing": {reclaimer + " serviceType=batch", victim, nil, ""},
		"a closed queue reclaims nothing":                               {reclaimer + " state=Closed", victim, nil, ""},

		// In a queue without service type each pod names its own.
		"queue without type, pods without type: none":           {reclaimer, untyped, nil, ""},
		"queue without type, pods of training":                  {reclaimer, untyped, ofServiceType("training"), "t*4"},
		"queue without type, 3 of 4 pods are of training: none": {reclaimer, untyped, allButOne, ""},
	}) {
		s := newInferenceAndTrainingScene(fmt.Sprintf(`
			%s
			%s
			node n model=A cards=4
			job waiting queue=reclaimer min=1 pending=1
			job t queue=victim min=4 running=n*4 age=24h`, tc.reclaimer, tc.victim), onJob("t", tc.change)).runSession(t)
		s.expectEvicted(t, tc.wantEvicted)
	}
}

// TestNoJobReclaimsFromItsOwnQueue: cardreclaim takes cards from other queues only. Both jobs are in queue mixed, which
// has no service type, so that their pods name one: inference, which may reclaim, and training. In its own queue a job
// may get cards by the action preempt, which does not run here.
func TestNoJobReclaimsFromItsOwnQueue(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue mixed quota=1000 priority=80000
		node n model=A cards=4
		job waiting queue=mixed min=1 pending=1 serviceType=inference
		job running queue=mixed min=4 running=n*4 age=24h serviceType=training`).runSession(t)
	s.expectEvictedAndPlaced(t, "", "")
}

// TestNoJobIsEvictedBeforeItsMinimumRuntime: training has a minimumRuntime of one hour, so that it does some
// work between evictions. A job counts from its oldest pod, and a pod from when it started or got its node. Job
// b has run for 30 minutes and stays in every row. "a*4" are the pods a-0 to a-3.
func TestNoJobIsEvictedBeforeItsMinimumRuntime(t *testing.T) {
	notStarted := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.StartTime = nil
	}
	inInitContainers := func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
	boundFor := func(d time.Duration) podChange {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)}}}
		}
	}
	startedEarlier := func(p *corev1.Pod) { p.Status.StartTime.Time = p.Status.StartTime.Add(-2 * hour) }

	for t, tc := range check.Cases(t, map[string]struct {
		job         string
		change      podChange
		wantEvicted string
	}{
		"a gang of 59 minutes stays":                           {job: "min=4 age=59m"},
		"elastic pods of 59 minutes stay":                      {job: "min=1 age=59m"},
		"a gang of 61 minutes is evicted":                      {job: "min=4 age=61m", wantEvicted: "a*4"},
		"pods of 5 minutes, one of them of 125: evicted":       {job: "min=4 age=5m", change: onPod("a-2", startedEarlier), wantEvicted: "a*4"},
		"no pod says when it started or got its node: stays":   {job: "min=4 age=9h", change: onJob("a", notStarted)},
		"init containers run for 2 hours: evicted":             {job: "min=4 age=2h", change: onJob("a", inInitContainers), wantEvicted: "a*4"},
		"init containers run for 59 minutes: stays":            {job: "min=4 age=59m", change: onJob("a", inInitContainers)},
		"the pods have had their node for 61 minutes: evicted": {job: "min=4 age=9h", change: onJob("a", boundFor(61*time.Minute)), wantEvicted: "a*4"},
		"the pods have had their node for one minute: stays":   {job: "min=4 age=9h", change: onJob("a", boundFor(time.Minute))},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job waiting queue=inference min=1 pending=1
			job b queue=training min=4 running=n*4 age=30m
			job a queue=training running=n*4 `+tc.job, tc.change)

		s.arguments = minimumRuntimeOfTraining("1h")
		s.runSession(t).expectEvicted(t, tc.wantEvicted)
	}
}

// TestAJobMayBeEvictedBeforeItStarts: here training has no minimumRuntime. Job a has its nodes and has not
// started, so its eviction destroys no work. "a*4" are the pods a-0 to a-3.
func TestAJobMayBeEvictedBeforeItStarts(t *testing.T) {
	notStarted := onJob("a", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.StartTime = nil
	})
	s := newInferenceAndTrainingScene(`
		node n model=A cards=8
		job waiting queue=inference min=1 pending=1
		job b queue=training min=4 running=n*4 age=30m
		job a queue=training min=4 running=n*4 age=9h`, notStarted)

	s.runSession(t).expectEvictedAndPlaced(t, "a*4", "waiting-0@n")
}
