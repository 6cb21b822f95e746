package cardreclaim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

const mark0 = "volcano.sh/controller-out-of-sync"

// addToAPI creates the scene's pods in its API server.
func (w *scene) addToAPI(t *testing.T) *scene {
	t.Helper()
	w.startCache()
	for _, pod := range w.Pods {
		check.Value(w.Cache.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod.DeepCopy(), metav1.CreateOptions{}))(t)
	}
	return w
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		check.Must(t, !time.Now().After(deadline), "not within 10 s: %s", what)
	}
}

// markedPods lists the pods with the annotation.
func (w *scene) markedPods(t *testing.T) []string {
	t.Helper()
	return w.storedPods(t, func(pod *corev1.Pod) bool { return pod.Annotations[mark0] == "true" })
}

// existingPods lists the pods that exist in the API server.
func (w *scene) existingPods(t *testing.T) []string {
	t.Helper()
	return w.storedPods(t, func(*corev1.Pod) bool { return true })
}

// deletedPods lists the pods that do not exist in the API server any more.
func (w *scene) deletedPods(t *testing.T) []string {
	t.Helper()
	there := w.existingPods(t)
	var names []string
	for _, pod := range w.Pods {
		if !slices.Contains(there, pod.Name) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// storedPods lists the pods of the API server that a function chooses.
func (w *scene) storedPods(t *testing.T, choose func(*corev1.Pod) bool) []string {
	t.Helper()
	list := check.Value(w.Cache.Client().CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{}))(t)
	var names []string
	for i := range list.Items {
		if choose(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestHowJobsAreEvicted(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs              string
		change            func(*corev1.Pod)
		deleted, replaced string
	}{
		"a vcjob without policies":        {"job t queue=tra min=4 running=n*4 age=24h owner=vcjob; job i queue=inf min=1 pending=1", nil, "", "t*4"},
		"a vcjob that restarts":           {"job t queue=tra min=4 running=n*4 age=24h owner=vcjob evictionPolicy=RestartJob; job i queue=inf min=1 pending=1", nil, "", "t*4"},
		"a vcjob that ends":               {"job t queue=tra min=4 running=n*4 age=24h owner=vcjob evictionPolicy=TerminateJob; job i queue=inf min=1 pending=1", nil, "t*4", ""},
		"a pod that its vcjob can spare":  {"job t queue=tra min=3 running=n*4 age=24h owner=vcjob; job i queue=inf min=1 pending=1", nil, "", "t-0"},
		"pods of a Deployment":            {"job t queue=tra min=1 running=n*4 age=24h; job i queue=inf min=1 pending=1", onJob("t", ownedBy("apps/v1", "ReplicaSet")), "t-0", ""},
		"pods of a Kubernetes job":        {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", onJob("t", ownedBy("batch/v1", "Job")), "t*4", ""},
		"bare pods":                       {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", nil, "t*4", ""},
		"jobs of both kinds for one gang": {"job t queue=tra min=2 running=n*2 owner=vcjob; job u queue=tra min=2 running=n*2; job i queue=inf min=4 pending=4", nil, "u*2", "t*2"},
	}) {
		w := sceneCase{text: "node n model=A cards=4; " + tc.jobs, change: tc.change}.scene().addToAPI(t).runAction(t)
		want := strings.Fields(session.Spell(tc.replaced))
		eventually(t, "marked "+session.Spell(tc.replaced), func() bool { return len(w.markedPods(t)) >= len(want) })
		eventually(t, "deleted "+session.Spell(tc.deleted), func() bool { return strings.Join(w.deletedPods(t), " ") == session.Spell(tc.deleted) })

		check.Equal(t, "marked", want, w.markedPods(t), cmpopts.EquateEmpty())
	}
}

// TestEvictedPodsHaveConditions: a pod that is recreated first gets its conditions, then the
// annotation. Each write has its UID, so that another pod of its name is safe.
func TestEvictedPodsHaveConditions(t *testing.T) {
	w := newScene("node n model=A cards=1; job t queue=tra min=1 running=n owner=vcjob; job i queue=inf min=1 pending=1").addToAPI(t)
	client := w.Cache.Client().(*fake.Clientset)
	w.runAction(t)
	eventually(t, "the pod is marked", func() bool { return len(w.markedPods(t)) == 1 })

	patches := podPatches(client)
	check.Equal(t, "purposes of the patches", []string{"why", "mark"}, purposesOf(patches))
	for _, patch := range patches {
		check.Equal(t, "subresource, which needs no right to change what pods run", "status", patch.GetSubresource())

		var body struct {
			Metadata struct{ UID types.UID }
		}
		check.NoError(t, json.Unmarshal(patch.GetPatch(), &body))
		check.Equal(t, "patched pod", "ns/t-0", patch.GetNamespace()+"/"+patch.GetName())
		check.Equal(t, "UID in the patch", w.Pods[0].UID, body.Metadata.UID)
	}

	checkConditions(t, client)
}

// podPatches returns the patches of pods in their order.
func podPatches(client *fake.Clientset) (patches []clienttesting.PatchAction) {
	for _, action := range client.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok && action.GetResource().Resource == "pods" {
			patches = append(patches, patch)
		}
	}
	return patches
}

func purposesOf(patches []clienttesting.PatchAction) (purposes []string) {
	for _, patch := range patches {
		purposes = append(purposes, patchPurpose(patch))
	}
	return purposes
}

// patchPurpose returns what a patch of a pod is for.
func patchPurpose(patch clienttesting.PatchAction) string {
	if strings.Contains(string(patch.GetPatch()), mark0) {
		return "mark"
	}
	return "why"
}

// checkConditions checks the conditions of the pod that was recreated.
func checkConditions(t *testing.T, client *fake.Clientset) {
	t.Helper()
	pod := check.Value(client.CoreV1().Pods("ns").Get(t.Context(), "t-0", metav1.GetOptions{}))(t)
	said := map[corev1.PodConditionType]string{}
	for _, c := range pod.Status.Conditions {
		said[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
		check.That(t, !c.LastTransitionTime.IsZero(), "condition %s has no time", c.Type)
	}

	check.Equal(t, "Ready says", "False Evict Pod is evicted, because of cardreclaim", said[corev1.PodReady])
	check.Equal(t, "DisruptionTarget says", "True PreemptionByScheduler volcano: preempting to accommodate a higher priority pod", said[corev1.DisruptionTarget])
}

// TestConditionsPrecedeEvictions: if the process ends in between, the next one sees that the
// whole job was to be evicted.
func TestConditionsPrecedeEvictions(t *testing.T) {
	w := newScene("node n model=A cards=4; job t queue=tra min=4 running=n*4 owner=vcjob; job i queue=inf min=1 pending=1").addToAPI(t)
	w.runAction(t)
	eventually(t, "all are marked", func() bool { return len(w.markedPods(t)) == 4 })
	want := []string{"why", "why", "why", "why", "mark", "mark", "mark", "mark"}
	check.Equal(t, "purposes of the patches", want, purposesOf(podPatches(w.Cache.Client().(*fake.Clientset))))
}

// TestFailedWrites plays the answers of an API server.
func TestFailedWrites(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "t-0", errors.New("the UID is another one"))
	for t, tc := range check.Cases(t, map[string]struct {
		// answers are those to the patches in order, nil for success. All later ones succeed.
		answers []error
		// now is the UID of the pod that has the name now, "" for none.
		now types.UID
		// tries is the expected number of patches.
		tries  int
		marked bool
	}{
		"no failure":                     {nil, "old", 2, true},
		"the server fails twice":         {[]error{apierrors.NewInternalError(errors.New("x")), apierrors.NewTimeoutError("x", 1)}, "old", 4, true},
		"the mark fails, not the status": {[]error{nil, apierrors.NewTooManyRequestsError("x")}, "old", 3, true},
		"no answer at all":               {[]error{errors.New("connection refused")}, "old", 3, true},
		"a conflict on the same pod":     {[]error{conflict}, "old", 3, true},
		"another pod has its name":       {[]error{conflict}, "new", 1, false},
		"another pod before the mark":    {[]error{nil, conflict}, "new", 2, false},
		"the pod is gone":                {nil, "", 1, false},
		"gone after a conflict":          {[]error{conflict}, "", 1, false},
	}) {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t-0", UID: "old"}}
		client := fake.NewClientset()
		if tc.now != "" {
			current := old.DeepCopy()
			current.UID = tc.now
			check.Value(client.CoreV1().Pods("ns").Create(context.Background(), current, metav1.CreateOptions{}))(t)
		}

		var mutex sync.Mutex
		tries := 0
		client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mutex.Lock()
			defer mutex.Unlock()
			tries++
			if tries <= len(tc.answers) && tc.answers[tries-1] != nil {
				return true, nil, tc.answers[tries-1]
			}
			patch, _ := action.(clienttesting.PatchAction)
			return tc.now != "" && patchPurpose(patch) == "why", old, nil
		})

		writes := newPodEvictor(1)
		writes.evictPods(client, []*api.TaskInfo{{Pod: old}}, true, Name)
		check.Equal(t, "patches", tc.tries, tries)
		pod, err := client.CoreV1().Pods("ns").Get(context.Background(), "t-0", metav1.GetOptions{})
		check.Equal(t, "marked", tc.marked, err == nil && pod.Annotations[mark0] == "true")
	}
}

// TestWriteIsRepeatedForHalfAMinute: that is longer than the election of an API server's
// leader, and no longer than deletionTimeout.
func TestWriteIsRepeatedForHalfAMinute(t *testing.T) {
	total := totalDelay(0)
	check.That(t, total >= 20*time.Second && total <= deletionTimeout, "a mark is tried for %s", total)
}

func TestOverduePodsAreDeleted(t *testing.T) {
	w := newScene("node n model=A cards=4; job t queue=tra min=4 running=n*4 owner=vcjob; job i queue=inf min=1 pending=1").addToAPI(t)
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	eventually(t, "all are marked", func() bool { return len(w.markedPods(t)) == 4 })

	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	check.Equal(t, "existing pods", 5, len(w.existingPods(t))) // the job controller still has time

	restoreTimeouts(t)

	deletionTimeout = -time.Second
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	check.Equal(t, "existing pods", 5, len(w.existingPods(t))) // the cache has not seen the annotations

	markTimeout = -time.Second
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	eventually(t, "all evicted pods are deleted", func() bool { return len(w.existingPods(t)) == 1 })
}

// TestUnmarkedPodIsDeletedAgain: pods of a vcjob that ends are deleted without an annotation,
// so a failed deletion is repeated without waiting for one.
func TestUnmarkedPodIsDeletedAgain(t *testing.T) {
	w := newScene("node n model=A cards=4; job t queue=tra min=4 running=n*4 owner=vcjob evictionPolicy=TerminateJob; job i queue=inf min=1 pending=1").addToAPI(t)
	client := w.Cache.Client().(*fake.Clientset)
	var refused atomic.Int32
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Add(1) <= 4, nil, errors.New("no")
	})

	restoreTimeouts(t)
	w.action.evictor.backoff.Steps = 1
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	eventually(t, "all deletions failed", func() bool { return refused.Load() == 4 })
	deletionTimeout = -time.Second
	w.runAction(t).expectEvictedAndPlaced(t, "t*4", "i-0@n")
	eventually(t, "all are deleted", func() bool { return len(w.existingPods(t)) == 1 })
}

// TestAllPodsOfGangAreEvicted: one refused deletion or status write leaves no part of a gang
// running. Failed deletions are repeated.
func TestAllPodsOfGangAreEvicted(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs, verb string
		change     func(*corev1.Pod)
		failures   int
		goes       string
	}{
		"a conflict on one status":             {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "patch", ownedBy("kubeflow.org/v1", "PyTorchJob"), 1, "t*4"},
		"one deletion fails":                   {"job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", "delete", ownedBy("kubeflow.org/v1", "PyTorchJob"), 1, "t*4"},
		"a vcjob whose policy ends it":         {"job t queue=tra min=4 running=n*4 age=24h owner=vcjob evictionPolicy=TerminateJob; job i queue=inf min=1 pending=1", "delete", func(*corev1.Pod) {}, 2, "t*4"},
		"a pod that says already that it goes": {"job t queue=tra min=1 running=n*4 age=24h; job i queue=inf min=1 pending=1", "delete", applyAll(ownedBy("apps/v1", "ReplicaSet"), onPod("t-0", withEvictionConditions("Evict"))), 0, "t-0"},
		"every write fails for long":           {"job t queue=tra min=1 running=n*4 age=24h; job i queue=inf min=1 pending=1", "delete", ownedBy("apps/v1", "ReplicaSet"), 9, "t-0"},
	}) {
		w := newScene("node n model=A cards=4; "+tc.jobs, onJob("t", tc.change)).addToAPI(t)
		var mutex sync.Mutex
		left := tc.failures
		w.Cache.Client().(*fake.Clientset).PrependReactor(tc.verb, "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mutex.Lock()
			defer mutex.Unlock()
			left--
			return left >= 0, nil, apierrors.NewConflict(corev1.Resource("pods"), "t-0", errors.New("the object has been modified"))
		})

		restoreTimeouts(t)
		for range 3 { // the session sees no change in the API server
			w.runAction(t).expectEvictedAndPlaced(t, tc.goes, "i-0@n")
		}

		if tc.failures == 9 {
			eventually(t, "the writer gives up", func() bool { mutex.Lock(); defer mutex.Unlock(); return left == 0 })
			deletionTimeout = -time.Second
			w.runAction(t).expectEvictedAndPlaced(t, tc.goes, "i-0@n")
		}
		eventually(t, "deleted "+tc.goes, func() bool { return strings.Join(w.deletedPods(t), " ") == session.Spell(tc.goes) })
	}
}

// totalDelay returns how long the product waits in all between the tries of a write.
func totalDelay(jitter float64) (total time.Duration) {
	backoff := shipped
	backoff.Jitter = jitter
	for backoff.Steps > 1 {
		total += backoff.Step()
	}
	return total
}

// restoreTimeouts restores the times in which pods are to be marked and deleted, when the test ends.
func restoreTimeouts(t *testing.T) {
	deletion := deletionTimeout
	mark := markTimeout
	t.Cleanup(func() {
		deletionTimeout = deletion
		markTimeout = mark
	})
}

// withEvictionConditions gives a pod the conditions that Volcano writes before it deletes a
// pod.
func withEvictionConditions(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason},
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler})
	}
}

// TestFailedWriteDoesNotBlockOthers: a write that waits to be repeated takes the slot of no
// other pod.
func TestFailedWriteDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := builder.Pod("ns", "bad").Obj()
		good := builder.Pod("ns", "good").Obj()
		client := fake.NewClientset(bad, good)
		client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, ok := action.(clienttesting.PatchAction)
			return ok && patch.GetName() == "bad", nil, apierrors.NewInternalError(errors.New("a webhook fails"))
		})

		m := newPodEvictor(1)
		var all sync.WaitGroup
		all.Go(func() { m.evictPods(client, []*api.TaskInfo{{Pod: bad}}, true, Name) })
		defer all.Wait()

		synctest.Wait()
		began := time.Now()
		m.evictPods(client, []*api.TaskInfo{{Pod: good}}, true, Name)
		check.That(t, time.Since(began) == 0, "the other job's pod is marked after %s", time.Since(began))
	})
}

// TestWriteTimesOut: all attempts of a write end before its pod is deleted for lack of an
// annotation.
func TestWriteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodEvictor(1)
		tries := 0
		began := time.Now()
		m.writeAll(fake.NewClientset(), []*api.TaskInfo{{Pod: builder.Pod("ns", "p").Obj()}}, func(ctx context.Context, _ kubernetes.Interface, _ *corev1.Pod) error {
			tries++
			<-ctx.Done()
			return ctx.Err()
		})
		check.Equal(t, "tries", writeBackoff.Steps, tries)
		check.That(t, time.Since(began) >= time.Duration(tries)*writeTimeout, "the tries took %s", time.Since(began))
	})

	total := time.Duration(shipped.Steps)*writeTimeout + totalDelay(shipped.Jitter)
	check.That(t, total < markTimeout, "all tries may take %s, and a pod without its mark is deleted after %s", total, markTimeout)
}
