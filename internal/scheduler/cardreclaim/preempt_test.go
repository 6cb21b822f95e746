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

// newPreemptScene returns a scene with one queue and its pods in the API server, and Preempt
// with the evictor of the scheduler.
func newPreemptScene(t *testing.T, text string, changes ...func(*corev1.Pod)) (*scene, *Preempt) {
	t.Helper()
	w := newScene("node n model=A; node m model=A; queue q quota=PLENTY cpu=1000;"+text, changes...).addToAPI(t)
	preempt := NewPreempt(w.action)
	w.Cache.Evictor = preempt.Evictor().Use(w.Cache.Client(), &record.FakeRecorder{})
	t.Cleanup(w.Close)
	return w, preempt
}

// runPreemptAction opens a session and runs allocate and preempt.
func (w *scene) runPreemptAction(action *Preempt) *scene {
	w.openSession().Run(NewAllocate(w.action), action)
	return w
}

const waits = "; job other queue=q min=1 running=n*6,m*6 priorityClass=high; job high queue=q min=1 pending=1 priorityClass=high"

// TestHowJobsArePreempted: a gang is evicted as a whole, and pods of a vcjob are recreated
// without counting a retry.
func TestHowJobsArePreempted(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ jobs, deleted, replaced string }{
		"a vcjob without policies":       {"job low queue=q min=4 running=n*2,m*2 priorityClass=low owner=vcjob", "", "low*4"},
		"a vcjob that restarts":          {"job low queue=q min=1 running=n*2,m*2 priorityClass=low owner=vcjob evictionPolicy=RestartJob", "", "low*4"},
		"a vcjob that ends":              {"job low queue=q min=4 running=n*2,m*2 priorityClass=low owner=vcjob evictionPolicy=TerminateJob", "low*4", ""},
		"a gang that is no vcjob":        {"job low queue=q min=4 running=n*2,m*2 priorityClass=low", "low*4", ""},
		"a vcjob that is not known":      {"job low queue=q min=4 running=n*2,m*2 priorityClass=low owner=vcjob evictionPolicy=Unknown", "", ""},
		"a gang with a pod that it says": {"job low queue=q min=4 running=n*2,m*2 priorityClass=low groupPreemptable=false", "", ""},
	}) {
		w, preempt := newPreemptScene(t, tc.jobs+waits)
		w.runPreemptAction(preempt)
		replaced := session.Spell(tc.replaced)
		deleted := session.Spell(tc.deleted)

		eventually(t, "marked "+replaced, func() bool { return strings.Join(w.markedPods(t), " ") == replaced })
		eventually(t, "deleted "+deleted, func() bool { return strings.Join(w.deletedPods(t), " ") == deleted })
		check.Equal(t, "pods that are pipelined", len(strings.Fields(replaced+deleted))/4, len(w.In(api.Pipelined)))
	}
}

// TestPreemptedPodHasConditions: they have the words of Volcano's own eviction.
func TestPreemptedPodHasConditions(t *testing.T) {
	w, preempt := newPreemptScene(t, "job low queue=q min=4 running=n*2,m*2 priorityClass=low owner=vcjob"+waits)
	w.runPreemptAction(preempt)
	says := func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Reason == "Evict" && c.Message == "Pod is evicted, because of preempt"
		})
	}
	eventually(t, "every pod of the gang has its conditions", func() bool { return len(w.storedPods(t, says)) == 4 })
}

// TestPartialPreemptionIsCompleted: a scheduler that ended in between left three pods of a
// gang of four running, in a queue that is not reclaimable.
func TestPartialPreemptionIsCompleted(t *testing.T) {
	left := func(reclaimable string, told time.Duration) *scene {
		w, preempt := newPreemptScene(t, "queue q quota=PLENTY cpu=1000 reclaimable="+reclaimable+"; job low queue=q min=4 running=n*3 pending=1 priorityClass=low; job other queue=q min=1 running=n*5,m*8 priorityClass=high",
			onJob("low", withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, told)))
		return w.runPreemptAction(preempt)
	}
	for _, reclaimable := range []string{"false", "true"} {
		w := left(reclaimable, time.Second)
		eventually(t, "the rest is gone", func() bool { return strings.Join(w.deletedPods(t), " ") == "low-0 low-1 low-2" })
		w.Close()
	}
	left("false", day).expectNoWrites(t)
}

// TestEachPreemptedPodHasAnEvent: that includes those that Volcano did not choose.
func TestEachPreemptedPodHasAnEvent(t *testing.T) {
	w, preempt := newPreemptScene(t, "job low queue=q min=4 running=n*2,m*2 priorityClass=low"+waits)
	recorder := record.NewFakeRecorder(100)
	preempt.Evictor().Use(w.Cache.Client(), recorder)
	w.runPreemptAction(preempt)
	eventually(t, "the gang is gone", func() bool { return len(w.deletedPods(t)) == 4 })
	events := map[string]int{}
	for len(recorder.Events) > 0 {
		events[<-recorder.Events]++
	}
	check.Equal(t, "events", map[string]int{"Warning Evict Pod is evicted, because of preempt": 4}, events)
}

// TestPreemptedPodIsDeletedAfterFailedWrite: every write to it failed, and Volcano's cache
// shows it as releasing.
func TestPreemptedPodIsDeletedAfterFailedWrite(t *testing.T) {
	w, preempt := newPreemptScene(t, "job low queue=q min=1 running=n*2,m*2 priorityClass=low"+waits)
	w.action.evictor.backoff.Steps = 1
	var down atomic.Bool
	down.Store(true)
	fail := func(clienttesting.Action) (bool, runtime.Object, error) {
		return down.Load(), nil, errors.New("refused")
	}

	client := w.Cache.Client().(*fake.Clientset)
	client.PrependReactor("delete", "pods", fail)
	client.PrependReactor("patch", "pods", fail)
	w.runPreemptAction(preempt)
	first := session.Names(w.In(api.Releasing))
	check.Equal(t, "evicted pods", 1, len(w.In(api.Releasing)))

	restoreTimeouts(t)
	deletionTimeout = 0
	w.runPreemptAction(preempt)
	check.Equal(t, "evicted pods in the next session", first, session.Names(w.In(api.Releasing)))

	down.Store(false)
	eventually(t, "the pod is gone", func() bool { w.runPreemptAction(preempt); return len(w.deletedPods(t)) == 1 })
	check.Equal(t, "pods that are gone", []string{first}, w.deletedPods(t))
}

// TestPreemptedGangIsEvictedOnce: while writes fail and the API server shows no change, no
// other pod is evicted. In the end the gang is gone.
func TestPreemptedGangIsEvictedOnce(t *testing.T) {
	w, preempt := newPreemptScene(t, "job low queue=q min=2 running=n*2 priorityClass=low; job spare queue=q min=2 running=m*2 priorityClass=low"+waits)
	client := w.Cache.Client().(*fake.Clientset)
	refused := make(chan struct{}, 3)
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case refused <- struct{}{}:
			return true, nil, errors.New("etcdserver: request timed out")
		default:
			return false, nil, nil
		}
	})

	w.runPreemptAction(preempt)
	first := session.Names(w.In(api.Releasing))
	check.Equal(t, "evicted pods", 2, len(w.In(api.Releasing)))
	for range 3 {
		w.runPreemptAction(preempt)
		check.Equal(t, "evicted pods in the next session", first, session.Names(w.In(api.Releasing)))
	}

	eventually(t, "two pods are gone", func() bool { return len(w.deletedPods(t)) == 2 })
	for _, name := range w.deletedPods(t) {
		check.That(t, strings.Contains(first, name), "%s is gone, evicted were %s", name, first)
	}
}

// TestEvictorRepeatsFailedWrites: this holds for pods that Volcano's own actions evict.
func TestEvictorRepeatsFailedWrites(t *testing.T) {
	w, preempt := newPreemptScene(t, "job low queue=q min=1 running=n priorityClass=low")
	client := w.Cache.Client().(*fake.Clientset)
	tries := 0
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries++
		return tries < 3, nil, errors.New("conflict")
	})

	check.NoError(t, preempt.Evictor().Evict(w.Pods[0], "reclaim"))
	check.Equal(t, "pods that are gone", []string{"low-0"}, w.deletedPods(t))

	client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("never") })
	check.That(t, preempt.Evictor().Evict(w.Pods[0], "reclaim") != nil, "an eviction that failed is said to have gone well")
}

// TestReclaimCountsNoCardsThatPreemptFreedForOthers: of a gang that preempted, one pod has lost its node.
// The card that is kept for the other one is of no use to a reclaimer, which needs two of training instead.
func TestReclaimCountsNoCardsThatPreemptFreedForOthers(t *testing.T) {
	w, preempt := newPreemptScene(t, `node n model=A cards=4; node m model=A cards=1; queue q quota={"A":2} priority=50000 cpu=1000; job ln queue=q min=1 running=n priorityClass=low; job lm queue=q min=1 running=m priorityClass=low
		job t queue=tra min=1 running=n*3 age=24h; job gang queue=q min=2 pending=2 priorityClass=high`)
	w.playSession(preempt)
	check.Equal(t, "go for the gang", "lm-0 ln-0", session.Names(w.In(api.Releasing)))

	away := w.Nodes[slices.IndexFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == "m" })].DeepCopy()
	away.Spec.Unschedulable = true
	check.NoError(t, w.Cache.AddOrUpdateNode(away))

	w.Close()
	for _, name := range []string{"ln-0", "lm-0"} {
		w.Cache.DeletePod(w.Pod(name).DeepCopy())
	}

	w.addToCache("job i queue=inf min=1 pending=1 cards=2")
	w.playSession(preempt)
	check.Equal(t, "go for the reclaimer", 2, len(w.In(api.Releasing)))
	check.Equal(t, "promised a node", "i-0@n", session.Names(w.In(api.Pipelined)))
}
