package cardreclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestDrainEvictsWholeJobs: the stop policy of a queue or of an ancestor evicts every job in it,
// in the way of reclaim, and no job of another queue.
func TestDrainEvictsWholeJobs(t *testing.T) {
	const (
		own   = "x quota=8 deserved=8; xa parent=x quota=8 deserved=4 serviceType=training stopPolicy=HoldAndDrain; xb parent=x quota=8 deserved=4 serviceType=training"
		above = "x quota=8 deserved=8 stopPolicy=HoldAndDrain; xa parent=x quota=8 deserved=8 serviceType=training; y quota=8 deserved=4; xb parent=y quota=8 deserved=4 serviceType=training"
	)

	critical := onPod("t-3", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" })
	for t, tc := range check.Cases(t, map[string]struct {
		tree, jobs        string
		change            func(*corev1.Pod)
		deleted, replaced string
	}{
		"a vcjob is recreated":                    {tree: own, jobs: "job t queue=xa min=4 running=n*4 age=24h owner=vcjob", replaced: "t*4"},
		"a vcjob that ends on evictions, deleted": {tree: own, jobs: "job t queue=xa min=4 running=n*4 age=24h owner=vcjob evictionPolicy=TerminateJob", deleted: "t*4"},
		"an elastic job goes whole":               {tree: own, jobs: "job t queue=xa min=1 running=n*4 age=24h", deleted: "t*4"},
		"protected pods too":                      {tree: own, jobs: "job t queue=xa min=4 running=n*4 age=24h preemptable=false", deleted: "t*4"},
		"a protected PodGroup too":                {tree: own, jobs: "job t queue=xa min=4 running=n*4 age=24h groupPreemptable=false", deleted: "t*4"},
		"pods without cards too":                  {tree: own, jobs: "job t queue=xa min=4 running=n*4 cards=0 age=24h", deleted: "t*4"},
		"no pod that is critical to the system":   {tree: own, jobs: "job t queue=xa min=4 running=n*4 age=24h", change: critical, deleted: "t*3"},
		"below an ancestor that drains":           {tree: above, jobs: "job t queue=xa min=4 running=n*4 age=24h", deleted: "t*4"},
		"no job that is only held":                {tree: strings.ReplaceAll(own, "AndDrain", ""), jobs: "job t queue=xa min=4 running=n*4 age=24h"},
		"nor one of another queue":                {tree: own, jobs: "job u queue=xa min=1 running=n age=1h; job t queue=xb min=3 running=n*3 age=24h", deleted: "u-0"},
	}) {
		w := newTree(tc.tree, "node n model=A cards=8; "+tc.jobs, tc.change).addToAPI(t).runAction(t)
		check.Equal(t, "evicted", session.Spell(tc.deleted+" "+tc.replaced), session.Names(w.In(api.Releasing)))
		eventually(t, "marked "+tc.replaced, func() bool { return strings.Join(w.markedPods(t), " ") == session.Spell(tc.replaced) })
		eventually(t, "deleted "+tc.deleted, func() bool { return strings.Join(w.deletedPods(t), " ") == session.Spell(tc.deleted) })
	}
}

// TestDrainInFlatQueues: the stop policy of a queue drains it without a tree, too.
func TestDrainInFlatQueues(t *testing.T) {
	w := newScene("node n model=A cards=8; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain; job t queue=q min=4 running=n*4 age=1h; job u queue=tra min=4 running=n*4 age=1h").runAction(t)
	w.expectEvictedAndPlaced(t, "t*4", "")
}

// TestDrainIsBounded: a session drains whole jobs until it has evicted maxDrainedPods, the next
// one continues, and none evicts a pod twice.
func TestDrainIsBounded(t *testing.T) {
	text := "queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain cpu=10000"
	for i := range 5 {
		text += fmt.Sprintf("; node n%d model=A cards=100; job t%d queue=q min=100 running=n%d*100 age=1h owner=vcjob", i, i, i)
	}

	w := newScene(text)
	for _, node := range w.Nodes {
		node.Status.Allocatable["pods"] = amount("200")
		node.Status.Allocatable["cpu"] = amount("200")
	}

	for i, want := range []int{300, 500, 500} {
		w.runAction(t)
		check.Equal(t, fmt.Sprintf("evicted pods after session %d", i), want, len(w.In(api.Releasing)))
	}
}

// TestDrainWaitsForPodsOnTheirWay: a job is evicted as a whole, so not while a pod is bound.
func TestDrainWaitsForPodsOnTheirWay(t *testing.T) {
	w := newScene("node n model=A cards=8; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain; job t queue=q min=2 running=n*2 age=1h")
	w.openSession()
	t.Cleanup(w.Close)
	check.NoError(t, w.Job("t").UpdateTaskStatus(w.Task("t-1"), api.Binding))
	w.executeActions()
	w.expectEvictedAndPlaced(t, "", "")
	check.NoError(t, w.Job("t").UpdateTaskStatus(w.Task("t-1"), api.Running))
	w.executeActions()
	w.expectEvictedAndPlaced(t, "t*2", "")
}

// TestDrainGoesOnAfterRestart: a scheduler ended after it had evicted a part of a job. The next
// one evicts all that still runs, and says drain, not cardreclaim.
func TestDrainGoesOnAfterRestart(t *testing.T) {
	evicted := onPod("t-0", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: ago(time.Second),
			Message: "volcano: preempting to accommodate a higher priority pod"}}
	})
	w := newScene("node n model=A cards=8; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain; job t queue=q min=3 running=n*3 age=1h owner=vcjob", evicted).addToAPI(t)
	w.runAction(t)
	eventually(t, "all are marked", func() bool { return len(w.markedPods(t)) == 3 })
	for _, action := range w.Cache.Client().(*fake.Clientset).Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		check.That(t, !ok || patchPurpose(patch) == "mark" || strings.Contains(string(patch.GetPatch()), "because of drain"), "%v does not say drain", action)
	}
}

// TestDrainNeedsNoActionThatEvicts: a configuration with neither preempt nor cardreclaim drains as
// well, and deletes pods that do not end.
func TestDrainNeedsNoActionThatEvicts(t *testing.T) {
	w := newScene("node n model=A cards=8; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain; job t queue=q min=2 running=n*2 age=1h owner=vcjob; job u queue=tra min=2 running=n*2 age=1h").addToAPI(t)
	w.runAllocate(t).expectEvictedAndPlaced(t, "t*2", "")
	eventually(t, "marked", func() bool { return strings.Join(w.markedPods(t), " ") == session.Spell("t*2") })
	restoreTimeouts(t)

	deletionTimeout = -time.Second
	markTimeout = -time.Second
	eventually(t, "deleted", func() bool {
		w.openSession().Run(NewAllocate(w.action))
		return strings.Join(w.deletedPods(t), " ") == session.Spell("t*2")
	})
}

// unreadPolicies are policies of Volcano jobs that are not read yet.
type unreadPolicies struct{ fakePolicies }

func (unreadPolicies) OpenSession(*framework.Session) bool { return false }

// TestDrainWaitsForPoliciesOfVCJobs: a vcjob whose own policy ends it must not be recreated, so it
// waits until its policies are read. Other jobs do not.
func TestDrainWaitsForPoliciesOfVCJobs(t *testing.T) {
	w := newScene("node n model=A cards=8; queue q quota=PLENTY serviceType=training stopPolicy=HoldAndDrain; job t queue=q min=2 running=n*2 age=1h owner=vcjob evictionPolicy=TerminateJob; job u queue=q min=2 running=n*2 age=1h")
	w.startCache()
	t.Cleanup(w.Close)
	w.action.jobPolicies = unreadPolicies{}
	w.openSession().executeActions()
	w.expectEvictedAndPlaced(t, "u*2", "")
	w.action.jobPolicies = w.habits
	w.openSession().executeActions()
	w.expectEvictedAndPlaced(t, "t*2 u*2", "")
}

// TestDrainEvents: the PodGroup and its queue say who was drained by which stop policy.
func TestDrainEvents(t *testing.T) {
	w := newTree("x quota=8 deserved=8 stopPolicy=HoldAndDrain; xa parent=x quota=8 deserved=8 serviceType=training", "node n model=A cards=8; job u queue=xa min=1 running=n age=1h")
	job := fmt.Sprintf("t%d", w.ID)
	for _, q := range w.Queues {
		q.UID = w.Groups[0].UID + "-" + q.UID
	}

	w.Queues[1].UID = w.Groups[0].UID + "-queue"
	w.add("job " + job + " queue=xa min=4 running=n*4 age=24h owner=vcjob").runAction(t)
	events := eventsAbout(t, fmt.Sprintf("w%d-%s", w.ID, job), "Drained")
	check.That(t, len(events) == 1 && events[0].Type == "Warning" && events[0].InvolvedObject.Kind == "PodGroup" && events[0].Message ==
		"4 pod(s) are drained, because stopPolicy of queue x is HoldAndDrain: the job starts again when stopPolicy is None and cards are free; no retry is counted", "%+v", events)

	eventually(t, "an event on the queue", func() bool {
		for _, server := range servers {
			list := check.Value(server.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{}))(t)
			for _, event := range list.Items {
				if event.InvolvedObject.UID == w.Queues[1].UID && event.InvolvedObject.Kind == "Queue" && event.Reason == "Drained" {
					return event.Message == "2 job(s) with 5 pod(s) are drained: stopPolicy of queue x is HoldAndDrain"
				}
			}
		}
		return false
	})
}
