package capacitycard

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// inferenceWaitsForTraining is a queue inf of inference above a queue tra of training, each with a quota of 8 cards
// A. A training job uses 4 of the 8 cards of node a, and pod i-0 of inference waits for 5.
const inferenceWaitsForTraining = `node a model=A cards=8
	node b model=B cards=8
	queue inf quota={"A":8} priority=80000 serviceType=inference
	queue tra quota={"A":8} priority=20000 serviceType=training
	job t queue=tra min=1 running=a*4
	job i queue=inf min=1 pending=1 cards=5
	`

// TestActionsGetThePluginOfTheOpenSession: an action gets the plugin, with its rules of reclaim, only from the session
// (scheduling cycle) that is open. That session must be one that may decide: its arguments are valid, and the scheduler
// has seen all nodes and pods since its start.
func TestActionsGetThePluginOfTheOpenSession(t *testing.T) {
	s := newScene(t, inferenceWaitsForTraining).enqueueAndAllocate()
	checkPlugin := func(what string, session types.UID, want bool) {
		_, has := s.m.PluginFor(session)
		check.Equal(t, what+" gives a plugin to actions", want, has)
	}

	checkPlugin("the open session", s.Ssn.UID, true)
	checkPlugin("another session", "another", false)
	s.p.AwaitsSync = true
	checkPlugin("a session that has not seen everything", s.Ssn.UID, false)

	s.p.AwaitsSync = false
	closed := s.Ssn.UID
	s.Close()
	checkPlugin("a closed session", closed, false)
	s.withArguments(framework.Arguments{"overCommitFactor": 0.5}).enqueueAndAllocate()
	checkPlugin("a session with invalid arguments", s.Ssn.UID, false)
}

// TestPodWithoutAJobReclaimsNothing: by the reclaim matrix inference takes cards back from training, and not the
// other way round. i-0 is of inference and waits, t-0 of training and runs. A pod of inference whose job Volcano does
// not know has no queue and no service type, so it takes none.
func TestPodWithoutAJobReclaimsNothing(t *testing.T) {
	s := newScene(t, inferenceWaitsForTraining).enqueueAndAllocate()
	plugin := s.pluginForActions()
	inference := s.Task("i-0")
	training := s.Task("t-0")
	withoutJob := inference.Clone()
	withoutJob.Job = "ns/none"

	for what, tc := range map[string]struct{ got, want bool }{
		"inference may reclaim":                         {plugin.Rules.CanReclaim(inference), true},
		"inference may reclaim from training":           {plugin.Rules.CanReclaimFrom(inference, training), true},
		"training may reclaim from inference":           {plugin.Rules.CanReclaimFrom(training, inference), false},
		"training may reclaim from training":            {plugin.Rules.CanReclaimFrom(training, training), false},
		"a pod without a job may reclaim":               {plugin.Rules.CanReclaim(withoutJob), false},
		"a pod without a job may reclaim from training": {plugin.Rules.CanReclaimFrom(withoutJob, training), false},
	} {
		check.Equal(t, what, tc.want, tc.got)
	}
	check.Equal(t, "service type of a pod without a job", "", plugin.ServiceType(withoutJob))
}

// TestFreeQuotaIsWhatAQueueMayStillUse: queue tra uses 4 cards A. Its free quota of A is the rest of its quota,
// and 0 if the quota is lower, names other cards or cannot be read. With unmanagedQueues: Ignore, a queue without
// a quota may use any number. The added line replaces queue tra.
func TestFreeQuotaIsWhatAQueueMayStillUse(t *testing.T) {
	for quota, want := range map[string]card.Count{
		`quota={"A":8}`:  8 - 4,
		`quota={"A":5}`:  5 - 4,
		`quota={"A":3}`:  0,
		`quota={"B":9}`:  0,
		"quota=nonsense": 0,
		"":               card.MaxCount,
	} {
		s := newScene(t, inferenceWaitsForTraining+"queue tra priority=20000 serviceType=training "+quota)
		s.withArguments(framework.Arguments{"unmanagedQueues": "Ignore"}).enqueueAndAllocate()

		check.Equal(t, "free quota of a queue with "+quota, want, s.pluginForActions().Rules.FreeQuota("tra", "A"))
	}
}

// TestActionsLearnTheCardsOfPods: an action asks the plugin which card a pod may use on a node. Pod i-0 waits for 5 cards A, t-0 uses one, and cpu-0 runs without cards.
// Node a has cards A, node b cards B, and node "none" does not exist. i-0 may only be on node a. A pod without
// cards may be on any node, where it uses none. The plugin also returns how many cards are charged for a pod, and the
// request: that of i-0 has 1 CPU and 1 GiB besides the cards.
func TestActionsLearnTheCardsOfPods(t *testing.T) {
	s := newScene(t, inferenceWaitsForTraining+"job cpu queue=tra min=1 running=a cards=0").enqueueAndAllocate()
	plugin := s.pluginForActions()
	waits := s.Task("i-0")
	withoutCards := s.Task("cpu-0")

	for node, wantName := range map[string]card.Name{"a": "A", "b": "", "none": ""} {
		name, allowed := plugin.CardOn(waits, node)
		check.Equal(t, "the pod that waits may be on node "+node, wantName != "", allowed)
		check.That(t, !allowed || name == wantName, "on node %s the pod uses %q, want %q", node, name, wantName)
	}
	name, allowed := plugin.CardOn(withoutCards, "b")
	check.Equal(t, "a pod without cards may be on node b", true, allowed)
	check.Equal(t, "card of a pod without cards on node b", "", name)

	for pod, wantCount := range map[string]card.Count{"i-0": 0, "t-0": 1, "cpu-0": 0} {
		check.Equal(t, "cards that are charged for "+pod, wantCount, plugin.CardCount(s.Task(pod)))
	}
	wantRequest := quota.Request{Names: []card.Name{"A"}, Count: 5, MilliCPU: 1000, Memory: 1 << 30}
	check.Equal(t, "request of the pod that waits", wantRequest, plugin.RequestFor(waits).Request)
	check.Equal(t, "resource of the pod that waits", gpu, plugin.RequestFor(waits).Resource)
	check.Equal(t, "resource of a pod without cards", "", plugin.RequestFor(withoutCards).Resource)
}

// TestPodsFitTheCPUAndMemoryOfTheirQueue: queue tra may use 100 CPU and 1 TiB. Its four pods use one CPU and 1 GiB
// each, so 96 CPU and 1020 GiB are left.
func TestPodsFitTheCPUAndMemoryOfTheirQueue(t *testing.T) {
	plugin := newScene(t, inferenceWaitsForTraining).enqueueAndAllocate().pluginForActions()
	const gi = 1 << 30

	for _, tc := range []struct {
		request  quota.Request
		wantFits bool
	}{
		{quota.Request{}, true},
		{quota.Request{MilliCPU: 96_000, Memory: 1020 * gi}, true},
		{quota.Request{MilliCPU: 96_001}, false},
		{quota.Request{Memory: 1020*gi + 1}, false},
	} {
		fits := plugin.Ledger.Fits("tra", tc.request, quota.Within{})
		check.Equal(t, fmt.Sprintf("%d mCPU and %d bytes fit", tc.request.MilliCPU, tc.request.Memory), tc.wantFits, fits)
	}
}

// TestClaimedServiceTypeDoesNotCount: whatever service type a pod, its PodGroup or its owner claims in a queue of
// training, it is of training. So it takes nothing from another queue of training, even from a queue of higher
// priority (other above tra). And inference may take cards from it.
func TestClaimedServiceTypeDoesNotCount(t *testing.T) {
	for t, claims := range check.Cases(t, map[string]struct{ onPod, onGroup, byOwner bool }{
		"the pod claims inference":       {onPod: true},
		"the PodGroup claims inference":  {onGroup: true},
		"the owner stands for inference": {byOwner: true},
		"all three claim inference":      {onPod: true, onGroup: true, byOwner: true},
	}) {
		s := newScene(t, `node a model=A cards=8
			queue inf quota={"A":8} priority=80000 serviceType=inference
			queue tra quota={"A":8} priority=20000 serviceType=training
			queue other quota={"A":8} priority=90000 serviceType=training
			job i queue=inf min=1 pending=1`).addObjects(`job t queue=tra min=1 running=a*8
			job o queue=other min=1 pending=1`, func(p *corev1.Pod) {
			if claims.onPod {
				annotate("volcano.sh/service.type", "inference")(p)
			}
			if claims.byOwner {
				session.OwnedBy("apps/v1", "ReplicaSet", "r", "r")(p)
			}
		}).withArguments(framework.Arguments{"podOwnerReferenceToServiceType": map[any]any{"ReplicaSet": "inference"}})
		if claims.onGroup {
			s.Groups[1].Annotations["volcano.sh/service.type"] = "inference" // of job t
			s.Groups[2].Annotations["volcano.sh/service.type"] = "inference" // of job o
		}

		plugin := s.enqueueAndAllocate().pluginForActions()
		claiming := s.Task("o-0")
		inference := s.Task("i-0")
		victim := s.Task("t-0")
		check.Equal(t, "service type of the waiting pod that claims", "training", plugin.ServiceType(claiming))
		check.Equal(t, "service type of the running pod that claims", "training", plugin.ServiceType(victim))
		for what, tc := range map[string]struct{ got, want bool }{
			"the claiming pod may reclaim":                          {plugin.Rules.CanReclaim(claiming), false},
			"the hook preemptive permits the claiming pod":          {s.p.podReclaim.preemptive(s.Ssn.Queues["other"], claiming), false},
			"the claiming pod may reclaim from training":            {plugin.Rules.CanReclaimFrom(claiming, victim), false},
			"inference may reclaim":                                 {plugin.Rules.CanReclaim(inference), true},
			"inference may reclaim from the claiming pod that runs": {plugin.Rules.CanReclaimFrom(inference, victim), true},
		} {
			check.Equal(t, what, tc.want, tc.got)
		}
	}
}

// TestMinimumRuntimeIsThatOfTheServiceType: the configured service types say that a pod of training, such as t-0,
// keeps its cards for 90 s. They say nothing for inference, whose pods, such as i-0, then have no minimum.
func TestMinimumRuntimeIsThatOfTheServiceType(t *testing.T) {
	s := newScene(t, inferenceWaitsForTraining).withArguments(framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}},
		"training":  map[string]any{"reclaimable": true, "minimumRuntime": "90s"},
	}}).enqueueAndAllocate()

	check.Equal(t, "minimum runtime of training", 90*time.Second, s.pluginForActions().Rules.MinimumRuntime(s.Task("t-0")))
	check.Equal(t, "minimum runtime of inference", 0, s.pluginForActions().Rules.MinimumRuntime(s.Task("i-0")))
}

// TestPriorityBetweenQueuesIsThatOfListedClasses: the priority protects jobs from other queues. A tenant may name
// any PriorityClass in a PodGroup, and may create one. So only classes in the argument priorityClasses count, of
// the pods as well as of the PodGroup: here high 3, middle 2, low 1. A class that is not listed, such as "own",
// counts as the lowest. A job has the priority of its PodGroup, but at most that of its highest pod. If the
// PodGroup names no class, the highest pod decides.
func TestPriorityBetweenQueuesIsThatOfListedClasses(t *testing.T) {
	withClass := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	s := newScene(t, inferenceWaitsForTraining).
		addObjects("job gang queue=tra min=1 running=a*2 priorityClass=high", withClass("middle"), changePod("gang-0", withClass("low"))).
		addObjects("job claims queue=tra min=1 running=a priorityClass=high", withClass("own")).
		addObjects("job modest queue=tra min=1 running=a priorityClass=low", withClass("high")).
		addObjects("job plain queue=tra min=1 running=a", withClass("high")).
		addObjects("job own queue=tra min=1 running=a priorityClass=own", withClass("own")).
		withArguments(framework.Arguments{"priorityClasses": map[any]any{"high": 3, "middle": 2, "low": 1}}).enqueueAndAllocate()

	plugin := s.pluginForActions()
	type priorities struct{ FirstPod, Job int32 }
	for job, want := range map[string]priorities{
		"gang":   {FirstPod: 1, Job: 2},
		"claims": {FirstPod: 1, Job: 1},
		"modest": {FirstPod: 3, Job: 1},
		"plain":  {FirstPod: 3, Job: 3},
		"own":    {FirstPod: 1, Job: 1},
		"t":      {FirstPod: 1, Job: 1}, // of inferenceWaitsForTraining, without any class
	} {
		first := s.Task(job + "-0")
		got := priorities{FirstPod: plugin.Rules.PodPriority(first), Job: plugin.Rules.JobPriority(s.Ssn.Jobs[first.Job])}
		check.Equal(t, "priorities of job "+job, want, got)
	}
}

// TestVictimOrderIsConfigured: the policy configures which jobs lose cards first to the action that reclaims. By
// default those of the lowest priority do. If the argument victimOrder is "Loss", those do whose eviction destroys
// the least work.
func TestVictimOrderIsConfigured(t *testing.T) {
	for want, args := range map[v1alpha1.VictimOrder]framework.Arguments{
		v1alpha1.VictimsByPriority: nil,
		v1alpha1.VictimsByLoss:     {"victimOrder": "Loss"},
	} {
		s := newScene(t, inferenceWaitsForTraining).withArguments(args).enqueueAndAllocate()
		check.Equal(t, "victim order", want, s.pluginForActions().Rules.VictimOrder())
	}
}

// TestRunningSinceIsTheOldestPodWithItsCards: the work that an eviction destroys began when the oldest pod of the job
// got its cards. That is when it started, also in an init container, or else when it got its node. Pods that wait or
// have ended do not count. Times are in hours before noon.
func TestRunningSinceIsTheOldestPodWithItsCards(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hoursAgo := func(hours int) metav1.Time { return metav1.NewTime(noon.Add(-time.Duration(hours) * time.Hour)) }
	never := time.Unix(math.MaxInt32, 0)

	type podState struct {
		status     api.TaskStatus
		started    int                    // hours ago, 0 for never
		placed     corev1.ConditionStatus // of the condition PodScheduled, "" for none
		placedTime int                    // hours ago, 0 if the condition has no time
	}
	for t, tc := range check.Cases(t, map[string]struct {
		pods []podState
		want time.Time
	}{
		"no pod: never": {nil, never},
		"a pod runs, started 2 hours ago: 2": {
			[]podState{{status: api.Running, started: 2, placed: "True", placedTime: 3}}, hoursAgo(2).Time,
		},
		"a pod is bound, and its init container started 5 hours ago: 5": {
			[]podState{{status: api.Bound, started: 5, placed: "True", placedTime: 6}}, hoursAgo(5).Time,
		},
		"a pod has not started, and got its node 4 hours ago: 4": {
			[]podState{{status: api.Bound, placed: "True", placedTime: 4}}, hoursAgo(4).Time,
		},
		"a pod has not started, and had no node 4 hours ago: never": {
			[]podState{{status: api.Bound, placed: "False", placedTime: 4}}, never,
		},
		"a pod has neither a start nor a condition: never": {
			[]podState{{status: api.Bound}}, never,
		},
		"a pod has not started, and the condition has no time: never": {
			[]podState{{status: api.Bound, placed: "True"}}, never,
		},
		"pods started 1 and 3 hours ago, another not yet: 3": {
			[]podState{{status: api.Running, started: 1}, {status: api.Bound, started: 3}, {status: api.Bound}}, hoursAgo(3).Time,
		},
		"a pod waits, and another one has ended: never": {
			[]podState{{status: api.Pending, placed: "True", placedTime: 9}, {status: api.Succeeded, started: 9}}, never,
		},
	}) {
		job := &api.JobInfo{TaskStatusIndex: map[api.TaskStatus]api.TasksMap{}}
		for i, state := range tc.pods {
			pod := &corev1.Pod{}
			if state.started > 0 {
				pod.Status.StartTime = ptr.To(hoursAgo(state.started))
			}

			if state.placed != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: state.placed}}
			}
			if state.placedTime > 0 {
				pod.Status.Conditions[0].LastTransitionTime = hoursAgo(state.placedTime)
			}

			if job.TaskStatusIndex[state.status] == nil {
				job.TaskStatusIndex[state.status] = api.TasksMap{}
			}
			job.TaskStatusIndex[state.status][api.TaskID(rune('a'+i))] = &api.TaskInfo{
				Pod: pod, TransactionContext: api.TransactionContext{Status: state.status},
			}
		}

		got := gang.RunningSince(job)
		check.That(t, got.Equal(tc.want), "runs since %s, want %s", got, tc.want)
	}
}
