package cardreclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestDrainEvictsAllPodsOfTheQueue: stopPolicy HoldAndDrain evicts every job of a queue as a whole, also pods
// that are protected from reclaim. Pods that are critical to the system stay. The pods of a Volcano job (vcjob)
// get an annotation with which Volcano's job controller recreates them. All others are deleted, also those of a vcjob
// that a policy of its own ends on an eviction. "t*4" are the pods t-0 to t-3.
func TestDrainEvictsAllPodsOfTheQueue(t *testing.T) {
	critical := onPod("t-3", withPriorityClass("system-node-critical"))

	for t, tc := range check.Cases(t, map[string]struct {
		job                        string
		change                     podChange
		wantDeleted, wantRecreated string
	}{
		"a vcjob without policies: recreated":         {job: "min=4 running=n*4 owner=vcjob", wantRecreated: "t*4"},
		"a vcjob whose policy terminates it: deleted": {job: "min=4 running=n*4 owner=vcjob evictionPolicy=TerminateJob", wantDeleted: "t*4"},
		"an elastic job: all its pods":                {job: "min=1 running=n*4", wantDeleted: "t*4"},
		"protected pods":                              {job: "min=4 running=n*4 preemptable=false", wantDeleted: "t*4"},
		"a protected PodGroup":                        {job: "min=4 running=n*4 groupPreemptable=false", wantDeleted: "t*4"},
		"pods without cards":                          {job: "min=4 running=n*4 cards=0", wantDeleted: "t*4"},
		"one of 4 pods is critical: the other 3":      {job: "min=4 running=n*4", change: critical, wantDeleted: "t*3"},
	}) {
		s := newInferenceAndTrainingScene(`
			queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain
			node n model=A cards=8
			job t queue=drained age=24h `+tc.job, tc.change).addToAPI(t).runSession(t)
		s.expectEvicted(t, tc.wantDeleted+" "+tc.wantRecreated)
		s.expectDeletedAndRecreated(t, tc.wantDeleted, tc.wantRecreated)
	}
}

// TestDrainReachesAllQueuesBelowTheStopPolicy: a stop policy holds for its queue and all queues below it, and
// for no other. Tenant x has the queues xa and xb, with 4 running pods each. "a*4" are the pods a-0 to a-3.
func TestDrainReachesAllQueuesBelowTheStopPolicy(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ stopPolicyOfX, stopPolicyOfXA, wantEvicted string }{
		"xa drains: the job of xa":                 {"None", "HoldAndDrain", "a*4"},
		"x drains: the jobs of both queues":        {"HoldAndDrain", "None", "a*4 b*4"},
		"xa is on hold, which lets jobs run: none": {"None", "Hold", ""},
	}) {
		s := newTree(fmt.Sprintf(`
			queue x quota=8 deserved=8 stopPolicy=%s
			queue xa parent=x quota=8 deserved=4 serviceType=training stopPolicy=%s
			queue xb parent=x quota=8 deserved=4 serviceType=training
			node n model=A cards=8
			job a queue=xa min=4 running=n*4 age=24h
			job b queue=xb min=4 running=n*4 age=24h`, tc.stopPolicyOfX, tc.stopPolicyOfXA)).addToAPI(t).runSession(t)
		s.expectEvicted(t, tc.wantEvicted)

		s.expectDeletedAndRecreated(t, tc.wantEvicted, "")
	}
}

// TestDrainBeginsNoJobAfter256Pods: a session drains whole jobs. So that it does not flood the API server, it
// begins no other job once it has evicted 256 pods (maxDrainedPods). Five jobs of 100 pods run. The first session
// drains three of them, the second the other two, and the third finds none. Evicted pods do not end meanwhile.
func TestDrainBeginsNoJobAfter256Pods(t *testing.T) {
	text := "queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain cpu=10000\n"
	for i := range 5 {
		text += fmt.Sprintf("node n%[1]d model=A cards=100; job t%[1]d queue=drained min=100 running=n%[1]d*100 age=1h owner=vcjob\n", i)
	}

	s := newInferenceAndTrainingScene(text)
	for _, node := range s.Nodes {
		allocatable("pods", "200")(node)
		allocatable("cpu", "200")(node)
	}

	for i, want := range []int{300, 500, 500} {
		s.runSession(t)
		check.Equal(t, fmt.Sprintf("evicted pods after session %d", i+1), want, len(s.In(api.Releasing)))
	}
}

// TestDrainWaitsForAPodOnItsWay: Volcano is binding t-1 to its node. The job is evicted as a whole, so the drain
// waits until t-1 has arrived. "t*2" are the pods t-0 and t-1.
func TestDrainWaitsForAPodOnItsWay(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain
		node n model=A cards=8
		job t queue=drained min=2 running=n*2 age=1h`).openSession()
	t.Cleanup(s.Close)

	check.NoError(t, s.Job("t").UpdateTaskStatus(s.Task("t-1"), api.Binding))
	s.runActions()
	s.expectEvictedAndPlaced(t, "", "")

	check.NoError(t, s.Job("t").UpdateTaskStatus(s.Task("t-1"), api.Running))
	s.runActions()
	s.expectEvictedAndPlaced(t, "t*2", "")
}

// TestDrainGoesOnAfterARestart: the scheduler ended after it had written the condition of an eviction to t-0.
// The next scheduler evicts all three pods, and each condition that it writes names the action "drain". The pods
// are of a Volcano job, so an annotation lets Volcano recreate them. "t*3" are the pods t-0 to t-2.
func TestDrainGoesOnAfterARestart(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain
		node n model=A cards=8
		job t queue=drained min=3 running=n*3 age=1h owner=vcjob`,
		onPod("t-0", withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, time.Second))).addToAPI(t).runSession(t)
	s.expectDeletedAndRecreated(t, "", "t*3")

	conditions := 0
	for _, patch := range podPatches(s.Cache.Client().(*fake.Clientset)) {
		if patchPurpose(patch) == "condition" {
			conditions++
			check.Contains(t, "condition", string(patch.GetPatch()), "because of drain")
		}
	}
	check.Equal(t, "written conditions", 3, conditions)
}

// TestDrainNeedsNoActionThatEvicts: the configuration has only allocate, neither preempt nor cardreclaim. The
// stop policy still evicts the Volcano job of its queue, by an annotation with which Volcano recreates the pods.
// The scheduler deletes those that are not recreated in time. Job other is in a queue without stop policy. "t*2"
// are the pods t-0 and t-1.
func TestDrainNeedsNoActionThatEvicts(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain
		node n model=A cards=8
		job t queue=drained min=2 running=n*2 age=1h owner=vcjob
		job other queue=training min=2 running=n*2 age=1h`).addToAPI(t)
	s.runAllocate(t).expectEvictedAndPlaced(t, "t*2", "")
	s.expectDeletedAndRecreated(t, "", "t*2")

	s.search.evictions.pods.deletion = -time.Second // the time is over at once
	s.search.evictions.pods.mark = -time.Second
	eventually(t, "the pods of t are deleted", func() bool {
		s.openSession().Run(s.allocate())
		return strings.Join(s.deletedPods(t), " ") == "t-0 t-1"
	})
}

// unreadPolicies are policies of Volcano jobs that are not read yet.
type unreadPolicies struct{ fakePolicies }

func (unreadPolicies) OpenSession(*framework.Session) bool { return false }

// TestDrainWaitsForThePoliciesOfVolcanoJobs: the drain lets Volcano recreate the pods of a Volcano job
// (vcjob). It deletes them if a policy of the job itself ends the job when a pod is evicted. So the drain of
// vcjobs waits until the scheduler has read their policies. Job plain is no vcjob and does not wait. "plain*2" are
// the pods plain-0 and plain-1. The second list has the pods that were evicted in both sessions.
func TestDrainWaitsForThePoliciesOfVolcanoJobs(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue drained quota=1000 serviceType=training stopPolicy=HoldAndDrain
		node n model=A cards=8
		job vcjob queue=drained min=2 running=n*2 age=1h owner=vcjob evictionPolicy=TerminateJob
		job plain queue=drained min=2 running=n*2 age=1h`)
	s.startCache()
	s.search.evictions.JobPolicies = unreadPolicies{}
	s.runSession(t).expectEvictedAndPlaced(t, "plain*2", "")

	s.search.evictions.JobPolicies = s.policies
	s.runSession(t).expectEvictedAndPlaced(t, "plain*2 vcjob*2", "")
	s.expectDeletedAndRecreated(t, "plain*2 vcjob*2", "")
}

// TestDrainHasEvents: the stop policy is that of tenant x, and the jobs are in its queue xa. Each drained PodGroup has
// an event that names x, and queue xa has one event with the sum: a job of 4 pods and one of one pod. The test looks at
// the event of the gang. "w%d-%s" is the UID of its PodGroup, with the number of the scene.
func TestDrainHasEvents(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=8 stopPolicy=HoldAndDrain
		queue xa parent=x quota=8 deserved=8 serviceType=training
		node n model=A cards=8
		job single queue=xa min=1 running=n age=1h`)
	s.Queues[1].UID = s.Groups[0].UID + "-queue" // else queues of other tests have the same UID
	gang := fmt.Sprintf("gang%d", s.ID)
	s.add("job " + gang + " queue=xa min=4 running=n*4 age=24h owner=vcjob").runSession(t)

	events := eventsAbout(t, fmt.Sprintf("w%d-%s", s.ID, gang), "Drained")
	check.That(t, isOnlyEvent(events, "Warning", "PodGroup",
		"4 pod(s) are drained, because stopPolicy of queue x is HoldAndDrain: the job starts again when stopPolicy is None and cards are free; no retry is counted"),
		"%+v", events)

	events = eventsIn(t, metav1.NamespaceAll, string(s.Queues[1].UID), "Drained")
	check.That(t, isOnlyEvent(events, "Normal", "Queue", "2 job(s) with 5 pod(s) are drained: stopPolicy of queue x is HoldAndDrain"), "%+v", events)
}
