package cardreclaim

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// newPreemptScene returns a scene with its pods in the API server, and the action preempt with the evictor of the
// scheduler.
func newPreemptScene(t *testing.T, text string, changes ...podChange) (*scene, PreemptAction) {
	s := newInferenceAndTrainingScene(text, changes...).addToAPI(t)
	preempt := s.preempt()
	s.Cache.Evictor = preempt.Evictor().Use(s.Cache.Client(), &record.FakeRecorder{})
	t.Cleanup(s.Close)
	return s, preempt
}

// runPreemptAction opens a session and runs allocate and preempt.
func (s *scene) runPreemptAction(action PreemptAction) *scene {
	s.openSession().Run(s.allocate(), action)
	return s
}

// failWrites lets the API server refuse a kind of writes to pods with an error, as long as isFailing says so.
func (s *scene) failWrites(verb string, err error, isFailing func() bool) {
	s.Cache.Client().(*fake.Clientset).PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return isFailing(), nil, err
	})
}

// TestPreemptEvictsAGangAsAWhole: the action preempt evicts pods of lower priority in the own queue. All cards
// of nodes n and m are in use, and job high needs one. A gang that lost one pod could not work, so all its pods
// are evicted. Those of a Volcano job (vcjob) get an annotation with which Volcano's job controller recreates them
// without counting a retry. All others are deleted, also those of a vcjob that a policy of its own ends. "low*4" are
// the pods low-0 to low-3.
func TestPreemptEvictsAGangAsAWhole(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ low, wantDeleted, wantRecreated string }{
		"a vcjob without policies: recreated":                      {"min=4 owner=vcjob", "", "low*4"},
		"an elastic vcjob with policy RestartJob: recreated whole": {"min=1 owner=vcjob evictionPolicy=RestartJob", "", "low*4"},
		"a vcjob with policy TerminateJob: deleted":                {"min=4 owner=vcjob evictionPolicy=TerminateJob", "low*4", ""},
		"a gang that is no vcjob: deleted":                         {"min=4", "low*4", ""},
		"a vcjob whose policies are not read yet: none":            {"min=4 owner=vcjob evictionPolicy=Unknown", "", ""},
		"a protected PodGroup: none":                               {"min=4 groupPreemptable=false", "", ""},
	}) {
		s, preempt := newPreemptScene(t, `
			queue q quota=1000 cpu=1000
			node n,m model=A cards=8
			job other queue=q min=1 running=n*6,m*6 priorityClass=high
			job high queue=q min=1 pending=1 priorityClass=high
			job low queue=q running=n*2,m*2 priorityClass=low `+tc.low)
		s.runPreemptAction(preempt)

		s.expectDeletedAndRecreated(t, tc.wantDeleted, tc.wantRecreated)
		isEvicted := tc.wantDeleted+tc.wantRecreated != ""
		check.Equal(t, "pods of high that get a card", map[bool]int{true: 1}[isEvicted], s.countPlaced("high"))
	}
}

// TestPreemptedPodsSayWhy: job high needs one card, for which Volcano would evict one pod of job low. Job low is a gang
// of 4, so all its pods are evicted. Each of them gets a condition and an event with the words of Volcano's own
// eviction.
func TestPreemptedPodsSayWhy(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		queue q quota=1000 cpu=1000
		node n,m model=A cards=8
		job other queue=q min=1 running=n*6,m*6 priorityClass=high
		job high queue=q min=1 pending=1 priorityClass=high
		job low queue=q min=4 running=n*2,m*2 priorityClass=low owner=vcjob`)
	recorder := record.NewFakeRecorder(100)
	preempt.Evictor().Use(s.Cache.Client(), recorder)
	s.runPreemptAction(preempt)

	hasCondition := func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Reason == "Evict" && c.Message == "Pod is evicted, because of preempt"
		})
	}
	eventually(t, "all 4 pods have the condition", func() bool { return len(s.storedPods(t, hasCondition)) == 4 })

	events := map[string]int{}
	for len(recorder.Events) > 0 {
		events[<-recorder.Events]++
	}
	check.Equal(t, "events", map[string]int{"Warning Evict Pod is evicted, because of preempt": 4}, events)
}

// TestPartialPreemptionIsCompleted: a scheduler ended while it evicted a gang of 4 pods, and left three of them
// with the condition of an eviction. The fourth pod is pending again. The next scheduler evicts the three pods
// too, also in a queue from which others may not reclaim. A condition of more than 2.5 minutes counts for nothing,
// because kubelets never remove it. "low*3" are the pods low-0 to low-2.
func TestPartialPreemptionIsCompleted(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		reclaimable    string
		conditionSince time.Duration
		wantDeleted    string
	}{
		"a queue that is not reclaimable":        {"false", 2 * time.Minute, "low*3"},
		"a reclaimable queue":                    {"true", 2 * time.Minute, "low*3"},
		"the condition is 3 minutes old: no pod": {"false", 3 * time.Minute, ""},
	}) {
		s, preempt := newPreemptScene(t, `
			node n,m model=A cards=8
			job low queue=q min=4 running=n*3 pending=1 priorityClass=low
			job other queue=q min=1 running=n*5,m*8 priorityClass=high
			queue q quota=1000 cpu=1000 reclaimable=`+tc.reclaimable,
			onJob("low", withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, tc.conditionSince)))
		s.runPreemptAction(preempt)

		if tc.wantDeleted == "" {
			s.expectNoWrites(t)
		}
		s.expectDeletedAndRecreated(t, tc.wantDeleted, "")
	}
}

// TestAPreemptedPodIsDeletedAfterFailedWrites: job high needs one card, so preempt evicts one pod of the elastic job
// low. The API server refuses all writes to that pod, so the pod runs on. The next session still treats it as evicted
// and chooses no other pod. Once the API server accepts writes again and deletionTimeout is over, a session deletes the
// pod.
func TestAPreemptedPodIsDeletedAfterFailedWrites(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		queue q quota=1000 cpu=1000
		node n,m model=A cards=8
		job other queue=q min=1 running=n*6,m*6 priorityClass=high
		job high queue=q min=1 pending=1 priorityClass=high
		job low queue=q min=1 running=n*2,m*2 priorityClass=low`)
	s.search.evictions.pods.backoff.Steps = 1 // one attempt for each write of a session
	var isDown atomic.Bool
	isDown.Store(true)
	s.failWrites("delete", errors.New("refused"), isDown.Load)
	s.failWrites("patch", errors.New("refused"), isDown.Load)

	s.runPreemptAction(preempt)
	evicted := session.Names(s.In(api.Releasing))
	check.Equal(t, "number of evicted pods", 1, len(s.In(api.Releasing)))

	s.search.evictions.pods.deletion = 0 // the time is over at once
	s.runPreemptAction(preempt).expectEvicted(t, evicted)

	isDown.Store(false)
	eventually(t, "the pod is deleted", func() bool { s.runPreemptAction(preempt); return len(s.deletedPods(t)) == 1 })
	check.Equal(t, "deleted pods", []string{evicted}, s.deletedPods(t))
}

// TestAGangIsPreemptedOnceWhileWritesFail: both jobs of low priority are gangs of 2 pods, and one of them suffices for
// job high. The API server refuses the first three deletions and shows no change to the scheduler. The following sessions
// evict no pod of the other gang. In the end exactly the first gang is deleted.
func TestAGangIsPreemptedOnceWhileWritesFail(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		queue q quota=1000 cpu=1000
		node n,m model=A cards=8
		job other queue=q min=1 running=n*6,m*6 priorityClass=high
		job high queue=q min=1 pending=1 priorityClass=high
		job low queue=q min=2 running=n*2 priorityClass=low
		job low2 queue=q min=2 running=m*2 priorityClass=low`)
	var deletions atomic.Int32
	s.failWrites("delete", errors.New("refused"), func() bool { return deletions.Add(1) <= 3 })

	s.runPreemptAction(preempt)
	evicted := session.Names(s.In(api.Releasing))
	check.Equal(t, "number of evicted pods", 2, len(s.In(api.Releasing)))
	for range 3 { // each session still sees all four pods on their nodes
		s.runPreemptAction(preempt).expectEvicted(t, evicted)
	}

	eventually(t, "two pods are deleted", func() bool { return len(s.deletedPods(t)) == 2 })
	check.Equal(t, "deleted pods", evicted, strings.Join(s.deletedPods(t), " "))
}

// TestEvictorRepeatsFailedWrites: Volcano's own actions, such as reclaim, evict through the same evictor. It repeats a
// deletion that fails twice, and returns an error if all attempts fail.
func TestEvictorRepeatsFailedWrites(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		node n model=A cards=8
		job low queue=training min=1 running=n priorityClass=low`)
	deletions := 0
	s.failWrites("delete", errors.New("refused"), func() bool { deletions++; return deletions <= 2 })
	check.NoError(t, preempt.Evictor().Evict(s.Pods[0], "reclaim"))
	check.Equal(t, "deleted pods", []string{"low-0"}, s.deletedPods(t))

	s.failWrites("*", errors.New("refused"), func() bool { return true })
	check.Says(t, preempt.Evictor().Evict(s.Pods[0], "reclaim"), "timed out")
}

// TestReclaimCountsNoCardsThatPreemptFreedForOthers: in queue q a gang of 2 pods preempts the jobs on nodes n
// and m. Then node m is cordoned, so the gang cannot start yet. The card that it got on node n, the only free
// one there, is kept for it. A job of inference that needs 2 cards of node n must not count that card, and
// reclaims two of training.
func TestReclaimCountsNoCardsThatPreemptFreedForOthers(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		queue q quota={"A":2} priority=50000 cpu=1000
		node n model=A cards=4
		node m model=A cards=1
		job low-n queue=q min=1 running=n priorityClass=low
		job low-m queue=q min=1 running=m priorityClass=low
		job t queue=training min=1 running=n*3 age=24h
		job gang queue=q min=2 pending=2 priorityClass=high`)
	s.playSession(preempt)
	s.expectEvicted(t, "low-m-0 low-n-0")

	// The evicted pods end, and node m is cordoned.
	s.Close()
	s.Cache.DeletePod(s.Pod("low-n-0").DeepCopy())
	s.Cache.DeletePod(s.Pod("low-m-0").DeepCopy())
	cordoned := s.Nodes[1].DeepCopy()
	cordoned.Spec.Unschedulable = true
	check.NoError(t, s.Cache.AddOrUpdateNode(cordoned))

	s.addToCache("job reclaimer queue=inference min=1 pending=1 cards=2")
	s.playSession(preempt)
	check.Equal(t, "number of pods of t that are evicted", 2, len(s.Job("t").TaskStatusIndex[api.Releasing]))
	check.Equal(t, "pods that wait for cards on a node", "reclaimer-0@n", session.Names(s.In(api.Pipelined)))
}
