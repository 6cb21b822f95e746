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
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// tidal has a training job of four cards that runs, and one pod of inference that
// waits for more than are left.
const tidal = `queue inf quota={"A":8} priority=80000 serviceType=inference; queue tra quota={"A":8} priority=20000 serviceType=training; job t queue=tra min=1 running=a*4; job i queue=inf min=1 pending=1 cards=5;`

func TestReclaimPolicyBelongsToTheOpenSession(t *testing.T) {
	s := newReclaimScene(t, tidal).enqueueAndAllocate()
	hasRules := func(session types.UID) bool {
		_, ok := s.m.ReclaimPolicyFor(session)
		return ok
	}
	check.That(t, hasRules(s.Ssn.UID) && !hasRules("another"), "the open session has no rules, or another one has some")

	s.p.notReadyReason = "not everything was seen yet"
	check.That(t, !hasRules(s.Ssn.UID), "there are rules before everything was seen")

	s.p.notReadyReason = ""
	closed := s.Ssn.UID
	s.Close()
	check.That(t, !hasRules(closed), "a closed session has rules")

	s.withArguments(framework.Arguments{"overCommitFactor": 0.5}).enqueueAndAllocate()
	check.That(t, !hasRules(s.Ssn.UID), "there are rules although the arguments are refused")
}

// TestPodWithoutJob neither reclaims nor is reclaimed. Pods of jobs are tested with the action
// in internal/scheduler/cardreclaim.
func TestPodWithoutJob(t *testing.T) {
	s := newReclaimScene(t, tidal).enqueueAndAllocate()
	rules := s.reclaimPolicy()
	waits := s.Task("i-0")
	runs := s.Task("t-0")
	check.That(t, rules.CanReclaim(waits) && rules.CanReclaimFrom(waits, runs) && !rules.CanReclaimFrom(runs, waits) && !rules.CanReclaimFrom(runs, runs),
		"inference takes nothing, or training takes something")
	stray := waits.Clone()
	stray.Job = "ns/none"
	check.That(t, !rules.CanReclaim(stray) && !rules.CanReclaimFrom(stray, runs) && rules.ServiceType(stray) == "", "a pod of no job takes cards")
}

func TestFreeQuotaAndCards(t *testing.T) {
	for quota, want := range map[string]card.Count{`{"A":8}`: 4, `{"A":5}`: 1, `{"A":3}`: 0, `{"B":9}`: 0, `nonsense`: 0} {
		check.Equal(t, "free quota of "+quota+", of which 4 are used", want, newReclaimScene(t, tidal+"queue tra quota="+quota+" priority=20000 serviceType=training").enqueueAndAllocate().reclaimPolicy().FreeQuota("tra", "A"))
	}
}

// TestReclaimPolicyOfPods asks about a pod that waits, one that runs, and one
// that asks for no card.
func TestReclaimPolicyOfPods(t *testing.T) {
	s := newReclaimScene(t, tidal+"queue tra priority=20000 serviceType=training; job other queue=tra min=1 running=a cards=0").withArguments(framework.Arguments{"unmanagedQueues": "Ignore"}).enqueueAndAllocate()
	rules := s.reclaimPolicy()
	check.Equal(t, "free quota of a queue that is not limited", card.MaxCount, rules.FreeQuota("tra", "A"))

	waits := s.Task("i-0")
	runs := s.Task("t-0")
	without := s.Task("other-0")

	for node, want := range map[string]card.Name{"a": "A", "b": "", "none": ""} {
		got, ok := rules.CardOn(waits, node)
		check.That(t, ok == (want != "") && (!ok || got == want), "on node %s the pod uses %q (%v), want %q", node, got, ok, want)
	}

	got, ok := rules.CardOn(without, "b")
	check.That(t, got == "" && ok, "a pod without cards uses %q on b (%v), want none", got, ok)
	check.Equal(t, "cards of the pod that waits, the one that runs and the one without", [3]card.Count{0, 1, 0}, [3]card.Count{rules.CardCount(waits), rules.CardCount(runs), rules.CardCount(without)})
	ask := rules.RequestFor(waits)
	check.That(t, ask.Resource == gpu && rules.RequestFor(without).Resource == "", "the pods ask for %q and %q", ask.Resource, rules.RequestFor(without).Resource)
	check.That(t, ask.Count == 5 && len(ask.Names) == 1 && ask.MilliCPU == 1000, "the pod asks for %+v", ask)
}

func TestFitsCPUMemory(t *testing.T) {
	rules := newReclaimScene(t, tidal).enqueueAndAllocate().reclaimPolicy() // 100 cores and 1 Ti, of which four pods use one core and 1 Gi each
	const gi = 1 << 30
	for name, tc := range map[string]struct {
		milli, memory int64
		want          bool
	}{
		"nothing": {0, 0, true}, "all that is left": {96_000, 1020 * gi, true}, "too much CPU": {96_001, 0, false}, "too much memory": {0, 1020*gi + 1, false},
	} {
		check.Equal(t, fmt.Sprintf("%s: fits", name), tc.want, rules.ledger.FitsAnyCard("tra", quota.Request{MilliCPU: tc.milli, Memory: tc.memory}) == nil)
	}
}

// TestClaimedPriorityDoesNotBeatQueuePriority: whatever a workload of a training queue claims,
// it reclaims nothing, and inference may reclaim from it.
func TestClaimedPriorityDoesNotBeatQueuePriority(t *testing.T) {
	const (
		onPod   = 1
		onGroup = 2
		byOwner = 4
	)

	for t, claims := range check.Cases(t, map[string]int{"on the pod": onPod, "on the PodGroup": onGroup, "by its owner": byOwner, "in all three ways": onPod | onGroup | byOwner}) {
		// The other queue is of training too, and served first.
		s := newReclaimScene(t, `queue other quota={"A":8,"B":8} priority=90000 serviceType=training; job i queue=inf min=1 pending=1`).addObjects("job t queue=tra min=1 running=a*8; job o queue=other min=1 pending=1", func(p *corev1.Pod) {
			if claims&onPod != 0 {
				annotate("volcano.sh/service.type", "inference")(p)
			}
			if claims&byOwner != 0 {
				session.OwnedBy("apps/v1", "ReplicaSet", "r", "r")(p)
			}
		}).withArguments(framework.Arguments{"podOwnerReferenceToServiceType": map[any]any{"ReplicaSet": "inference"}})

		for _, group := range s.Groups[1:] {
			if claims&onGroup != 0 {
				group.Annotations["volcano.sh/service.type"] = "inference"
			}
		}

		rules := s.enqueueAndAllocate().reclaimPolicy()
		claiming := s.Task("o-0")
		inference := s.Task("i-0")
		victim := s.Task("t-0")
		check.Equal(t, "the types are", "training training", rules.ServiceType(claiming)+" "+rules.ServiceType(victim))
		check.That(t, !rules.CanReclaim(claiming) && !s.p.preemptive(s.Ssn.Queues["other"], claiming) && !rules.CanReclaimFrom(claiming, victim),
			"a claim takes cards from training")
		check.That(t, rules.CanReclaim(inference) && rules.CanReclaimFrom(inference, victim), "a claim protects from inference")
	}
}

func TestMinimumRuntimeOfAPod(t *testing.T) {
	s := newReclaimScene(t, tidal).withArguments(framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": "90s"},
	}}).enqueueAndAllocate()
	check.Equal(t, "minimum runtime of training", 90*time.Second, s.reclaimPolicy().MinimumRuntime(s.Task("t-0")))
	check.Equal(t, "minimum runtime of inference", 0, s.reclaimPolicy().MinimumRuntime(s.Task("i-0")))
}

// TestPrioritiesBetweenQueues: a PodGroup may name any class, which no ResourceQuota
// limits, and a tenant may have created one. Neither protects a job.
func TestPrioritiesBetweenQueues(t *testing.T) {
	classOf := func(names ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.PriorityClassName = names[0]
			names = names[1:]
		}
	}

	s := newReclaimScene(t, tidal).
		addObjects("job gang queue=tra min=1 running=a*2 priorityClass=high", classOf("low", "middle")).
		addObjects("job claims queue=tra min=1 running=a priorityClass=high", classOf("own")).
		addObjects("job modest queue=tra min=1 running=a priorityClass=low", classOf("high")).
		addObjects("job plain queue=tra min=1 running=a", classOf("high")).
		addObjects("job own queue=tra min=1 running=a priorityClass=own", classOf("own")).
		withArguments(framework.Arguments{"victimOrder": "Loss", "priorityClasses": map[any]any{"high": 3, "middle": 2, "low": 1}}).enqueueAndAllocate()

	rules := s.reclaimPolicy()
	check.Equal(t, "the order of victims", v1alpha1.VictimsByLoss, rules.VictimOrder())
	for job, want := range map[string][2]int32{ // of its first pod and of the job
		"gang": {1, 2}, "claims": {1, 1}, "modest": {3, 1}, "plain": {3, 3}, "own": {1, 1}, "t": {1, 1},
	} {
		task := s.Task(job + "-0")
		check.Equal(t, "of job "+job, want, [2]int32{rules.PodPriority(task), rules.JobPriority(s.Ssn.Jobs[task.Job])})
	}

	check.Equal(t, "the usual order of victims", v1alpha1.VictimsByPriority, newReclaimScene(t, tidal).enqueueAndAllocate().reclaimPolicy().VictimOrder())
}

// TestRunningSince: a pod that works in an init container has its card as long as
// one that runs, and never has the phase Running.
func TestRunningSince(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(hours int) metav1.Time { return metav1.NewTime(noon.Add(-time.Duration(hours) * time.Hour)) }

	// pod started and was placed so many hours ago, or never.
	pod := func(status api.TaskStatus, started, placed int, is corev1.ConditionStatus) *api.TaskInfo {
		p := &corev1.Pod{}
		if started > 0 {
			p.Status.StartTime = ptr.To(ago(started))
		}

		if is != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: is}}
			if placed > 0 {
				p.Status.Conditions[0].LastTransitionTime = ago(placed)
			}
		}

		return &api.TaskInfo{Pod: p, TransactionContext: api.TransactionContext{Status: status}}
	}

	never := time.Unix(math.MaxInt32, 0)
	for t, tc := range check.Cases(t, map[string]struct {
		pods []*api.TaskInfo
		want time.Time
	}{
		"no pod":                       {nil, never},
		"a pod that runs":              {[]*api.TaskInfo{pod(api.Running, 2, 3, "True")}, ago(2).Time},
		"one in an init container":     {[]*api.TaskInfo{pod(api.Bound, 5, 6, "True")}, ago(5).Time},
		"one that only has its node":   {[]*api.TaskInfo{pod(api.Bound, 0, 4, "True")}, ago(4).Time},
		"one that had no node yet":     {[]*api.TaskInfo{pod(api.Bound, 0, 4, "False")}, never},
		"one that was not reported":    {[]*api.TaskInfo{pod(api.Bound, 0, 0, "")}, never},
		"the condition without a time": {[]*api.TaskInfo{pod(api.Bound, 0, 0, "True")}, never},
		"the oldest of them":           {[]*api.TaskInfo{pod(api.Running, 1, 0, ""), pod(api.Bound, 3, 0, ""), pod(api.Bound, 0, 0, "")}, ago(3).Time},
		"none that waits or has ended": {[]*api.TaskInfo{pod(api.Pending, 0, 9, "True"), pod(api.Succeeded, 9, 0, "")}, never},
	}) {
		job := &api.JobInfo{TaskStatusIndex: map[api.TaskStatus]api.TasksMap{}}
		for i, task := range tc.pods {
			task.UID = api.TaskID(rune('a' + i))
			if job.TaskStatusIndex[task.Status] == nil {
				job.TaskStatusIndex[task.Status] = api.TasksMap{}
			}
			job.TaskStatusIndex[task.Status][task.UID] = task
		}

		got := RunningSince(job)
		check.That(t, got.Equal(tc.want), "runs since %s, want %s", got, tc.want)
	}
}
