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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// annotationRecreate makes Volcano's job controller recreate a pod without counting a retry.
const annotationRecreate = "volcano.sh/controller-out-of-sync"

// addToAPI creates the scene's pods in its API server.
func (s *scene) addToAPI(t *testing.T) *scene {
	s.startCache()
	for _, pod := range s.Pods {
		check.Value(s.Cache.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod.DeepCopy(), metav1.CreateOptions{}))(t)
	}
	return s
}

// eventually waits until something is true.
func eventually(t *testing.T, what string, isTrue func() bool) {
	for deadline := time.Now().Add(10 * time.Second); !isTrue(); time.Sleep(2 * time.Millisecond) {
		check.Must(t, !time.Now().After(deadline), "not within 10 s: %s", what)
	}
}

// recreatedPods lists the pods of the API server that Volcano's job controller is to recreate.
func (s *scene) recreatedPods(t *testing.T) []string {
	return s.storedPods(t, func(pod *corev1.Pod) bool { return pod.Annotations[annotationRecreate] == "true" })
}

// deletedPods lists the pods that do not exist in the API server any more.
func (s *scene) deletedPods(t *testing.T) []string {
	existing := s.storedPods(t, func(*corev1.Pod) bool { return true })
	var names []string
	for _, pod := range s.Pods {
		if !slices.Contains(existing, pod.Name) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// storedPods lists the pods of the API server that a function chooses.
func (s *scene) storedPods(t *testing.T, choose func(*corev1.Pod) bool) []string {
	list := check.Value(s.Cache.Client().CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{}))(t)
	var names []string
	for i := range list.Items {
		if choose(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// expectDeletedAndRecreated waits until exactly these pods are deleted, and exactly these are to be recreated by
// Volcano's job controller. Both are in the format of session.Spell.
func (s *scene) expectDeletedAndRecreated(t *testing.T, wantDeleted, wantRecreated string) {
	eventually(t, "to be recreated: "+wantRecreated, func() bool { return strings.Join(s.recreatedPods(t), " ") == session.Spell(wantRecreated) })
	eventually(t, "deleted: "+wantDeleted, func() bool { return strings.Join(s.deletedPods(t), " ") == session.Spell(wantDeleted) })
}

// TestPodsOfVolcanoJobsAreRecreatedAndOthersDeleted: an eviction deletes a pod. But for a Volcano job (vcjob) a
// deletion counts as a retry. So its pods get an annotation instead, with which Volcano's job controller
// recreates them. If a policy of the vcjob ends it on an eviction, its pods are deleted, so that the policy sees
// that. Training uses all 4 cards of node n, and job waiting of inference takes cards from it: one pod of a job that
// keeps its minimum then, else the whole job. "t*4" are the pods t-0 to t-3.
func TestPodsOfVolcanoJobsAreRecreatedAndOthersDeleted(t *testing.T) {
	const oneWaits = "\njob waiting queue=inference min=1 pending=1"

	for t, tc := range check.Cases(t, map[string]struct {
		jobs                       string
		owner                      podChange
		wantDeleted, wantRecreated string
	}{
		"a vcjob without policies": {jobs: "job t queue=training min=4 running=n*4 age=24h owner=vcjob" + oneWaits, wantRecreated: "t*4"},
		"a vcjob with policy RestartJob": {
			jobs: "job t queue=training min=4 running=n*4 age=24h owner=vcjob evictionPolicy=RestartJob" + oneWaits, wantRecreated: "t*4"},
		"a vcjob with policy TerminateJob": {
			jobs: "job t queue=training min=4 running=n*4 age=24h owner=vcjob evictionPolicy=TerminateJob" + oneWaits, wantDeleted: "t*4"},
		"an elastic pod of a vcjob": {jobs: "job t queue=training min=3 running=n*4 age=24h owner=vcjob" + oneWaits, wantRecreated: "t-0"},
		"a pod of a Deployment": {
			jobs: "job t queue=training min=1 running=n*4 age=24h" + oneWaits, owner: ownedBy("apps/v1", "ReplicaSet"), wantDeleted: "t-0"},
		"pods of a Kubernetes Job": {
			jobs: "job t queue=training min=4 running=n*4 age=24h" + oneWaits, owner: ownedBy("batch/v1", "Job"), wantDeleted: "t*4"},
		"pods without a controller": {jobs: "job t queue=training min=4 running=n*4 age=24h" + oneWaits, wantDeleted: "t*4"},
		"a vcjob and other pods, for one gang of 4": {jobs: `
			job t queue=training min=2 running=n*2 owner=vcjob
			job u queue=training min=2 running=n*2
			job waiting queue=inference min=4 pending=4`, wantDeleted: "u*2", wantRecreated: "t*2"},
	}) {
		s := newInferenceAndTrainingScene("node n model=A cards=4\n"+tc.jobs, onJob("t", tc.owner)).addToAPI(t).runSession(t)
		s.expectDeletedAndRecreated(t, tc.wantDeleted, tc.wantRecreated)
	}
}

// TestAnEvictedPodSaysWhyBeforeItIsRecreated: the scheduler first writes to a pod the conditions of Volcano's own
// eviction. Then a second patch, "recreation", writes the annotation with which Volcano recreates the pod of a Volcano
// job. Both are patches of the status, so the scheduler needs no permission to change the spec of pods. Each has the
// UID of the pod, so that it cannot hit another pod of that name.
func TestAnEvictedPodSaysWhyBeforeItIsRecreated(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=1
		job t queue=training min=1 running=n owner=vcjob
		job waiting queue=inference min=1 pending=1`).addToAPI(t).runSession(t)
	s.expectDeletedAndRecreated(t, "", "t-0")

	client := s.Cache.Client().(*fake.Clientset)
	patches := podPatches(client)
	check.Equal(t, "purposes of the patches", []string{"condition", "recreation"}, purposesOf(patches))
	for _, patch := range patches {
		var body struct{ Metadata struct{ UID types.UID } }
		check.NoError(t, json.Unmarshal(patch.GetPatch(), &body))
		check.Equal(t, "subresource", "status", patch.GetSubresource())
		check.Equal(t, "patched pod", "ns/t-0", patch.GetNamespace()+"/"+patch.GetName())
		check.Equal(t, "UID in the patch", s.Pods[0].UID, body.Metadata.UID)
	}

	conditions := map[corev1.PodConditionType]string{}
	for _, c := range check.Value(client.CoreV1().Pods("ns").Get(t.Context(), "t-0", metav1.GetOptions{}))(t).Status.Conditions {
		conditions[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
		check.That(t, !c.LastTransitionTime.IsZero(), "condition %s has no time", c.Type)
	}
	check.Equal(t, "condition Ready", "False Evict Pod is evicted, because of cardreclaim", conditions[corev1.PodReady])
	check.Equal(t, "condition DisruptionTarget",
		"True PreemptionByScheduler volcano: preempting to accommodate a higher priority pod", conditions[corev1.DisruptionTarget])
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

// patchPurpose returns what a patch of a pod is for: it writes its conditions, or lets it be recreated.
func patchPurpose(patch clienttesting.PatchAction) string {
	if strings.Contains(string(patch.GetPatch()), annotationRecreate) {
		return "recreation"
	}
	return "condition"
}

// TestAllPodsOfAGangGetTheirConditionBeforeTheFirstIsEvicted: the scheduler writes the condition to all 4 pods
// of a gang, and then evicts them. If it ends in between, the next scheduler sees from the conditions that the
// whole gang was to be evicted, and completes that. A pod of a Volcano job (vcjob) is not deleted: its eviction is
// the patch "recreation", an annotation with which Volcano recreates it. "t*4" are the pods t-0 to t-3.
func TestAllPodsOfAGangGetTheirConditionBeforeTheFirstIsEvicted(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job t queue=training min=4 running=n*4 owner=vcjob
		job waiting queue=inference min=1 pending=1`).addToAPI(t).runSession(t)
	s.expectDeletedAndRecreated(t, "", "t*4")

	want := []string{"condition", "condition", "condition", "condition", "recreation", "recreation", "recreation", "recreation"}
	check.Equal(t, "purposes of the patches", want, purposesOf(podPatches(s.Cache.Client().(*fake.Clientset))))
}

// TestFailedWritesAreRepeatedUntilThePodIsGone: an eviction that recreates a pod patches it twice: the
// condition, then the annotation. A failed patch is repeated, unless the pod does not exist any more or another
// pod has its name. answers are those of the API server to the first patches, nil for success. All later ones
// succeed if the pod exists. The pod t-0 has UID "old".
func TestFailedWritesAreRepeatedUntilThePodIsGone(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "t-0", errors.New("the UID is another one"))
	for t, tc := range check.Cases(t, map[string]struct {
		answers []error
		// currentUID is the UID of the pod that has the name t-0 now, "" for none.
		currentUID  types.UID
		wantPatches int
		isAnnotated bool
	}{
		"no failure: two patches": {nil, "old", 2, true},
		"two errors of the server: two more": {
			[]error{apierrors.NewInternalError(errors.New("x")), apierrors.NewTimeoutError("x", 1)}, "old", 4, true},
		"the annotation fails once: one more":                {[]error{nil, apierrors.NewTooManyRequestsError("x")}, "old", 3, true},
		"no answer to the first: one more":                   {[]error{errors.New("connection refused")}, "old", 3, true},
		"a conflict, and it is still the same pod: one more": {[]error{conflict}, "old", 3, true},
		"a conflict, another pod has the name: ends":         {[]error{conflict}, "new", 1, false},
		"a conflict at the annotation, another pod: ends":    {[]error{nil, conflict}, "new", 2, false},
		"the pod does not exist: ends":                       {nil, "", 1, false},
		"a conflict, then the pod does not exist: ends":      {[]error{conflict}, "", 1, false},
	}) {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t-0", UID: "old"}}
		client := fake.NewClientset()
		if tc.currentUID != "" {
			current := old.DeepCopy()
			current.UID = tc.currentUID
			check.Value(client.CoreV1().Pods("ns").Create(t.Context(), current, metav1.CreateOptions{}))(t)
		}

		patches := 0
		client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patches++
			if patches <= len(tc.answers) && tc.answers[patches-1] != nil {
				return true, nil, tc.answers[patches-1]
			}
			patch, _ := action.(clienttesting.PatchAction)
			return tc.currentUID != "" && patchPurpose(patch) == "condition", old, nil // the fake client applies the annotation
		})

		evictor := newPodEvictor(1)                                                               // one write at a time
		evictor.evictPods(client, []*api.TaskInfo{{Pod: old}}, true, schedulerconfig.CardReclaim) // true: the pod is to be recreated
		check.Equal(t, "patches", tc.wantPatches, patches)
		pod, err := client.CoreV1().Pods("ns").Get(t.Context(), "t-0", metav1.GetOptions{})
		check.Equal(t, "the pod has the annotation", tc.isAnnotated, err == nil && pod.Annotations[annotationRecreate] == "true")
	}
}

// TestAFailedWriteIsRepeatedForHalfAMinute: the delays between the attempts sum up to 20 seconds at least, as API servers
// may take so long to elect a leader. They sum up to deletionTimeout, 30 seconds, at most: after it the pod is deleted in
// any case.
func TestAFailedWriteIsRepeatedForHalfAMinute(t *testing.T) {
	total := totalDelay(0) // without jitter
	check.That(t, total >= 20*time.Second && total <= deletionTimeout, "a write is tried for %s", total)
}

// TestEvictedPodsThatStayAreDeleted: the pods of a Volcano job got the annotation with which they are recreated,
// and still run. After deletionTimeout the scheduler deletes them. It waits for markTimeout, which is longer, if
// its cache does not show the annotation: a deletion without it counts as a retry. "t*4" are the pods t-0 to
// t-3.
func TestEvictedPodsThatStayAreDeleted(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job t queue=training min=4 running=n*4 owner=vcjob
		job waiting queue=inference min=1 pending=1`).addToAPI(t)
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	s.expectDeletedAndRecreated(t, "", "t*4")

	// No time is over.
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	check.Equal(t, "deleted pods", nil, s.deletedPods(t))

	// deletionTimeout is over, and the cache does not show the annotations.
	s.search.evictions.pods.deletion = -time.Second
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	check.Equal(t, "deleted pods", nil, s.deletedPods(t))

	// The cache shows the annotation of t-0.
	s.Update("t-0", annotated(annotationRecreate, "true"))
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	eventually(t, "t-0 is deleted", func() bool { return strings.Join(s.deletedPods(t), " ") == "t-0" })

	// Both times are over.
	s.search.evictions.pods.mark = -time.Second
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	eventually(t, "all evicted pods are deleted", func() bool { return len(s.deletedPods(t)) == 4 })
}

// TestAFailedDeletionIsRepeatedAfterTheTimeout: pods of a Volcano job whose policy ends it are deleted without
// the annotation. All four deletions fail. After deletionTimeout the next session deletes the pods, without
// waiting for an annotation. "t*4" are the pods t-0 to t-3.
func TestAFailedDeletionIsRepeatedAfterTheTimeout(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job t queue=training min=4 running=n*4 owner=vcjob evictionPolicy=TerminateJob
		job waiting queue=inference min=1 pending=1`).addToAPI(t)
	var deletions atomic.Int32
	s.failWrites("delete", errors.New("refused"), func() bool { return deletions.Add(1) <= 4 })
	s.search.evictions.pods.backoff.Steps = 1 // one attempt for each deletion

	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	eventually(t, "all deletions have failed", func() bool { return deletions.Load() == 4 })

	s.search.evictions.pods.deletion = -time.Second // it is over at once
	s.runSession(t).expectEvictedAndPlaced(t, "t*4", "waiting-0@n")
	eventually(t, "all pods are deleted", func() bool { return len(s.deletedPods(t)) == 4 })
}

// TestAllEvictedPodsAreDeletedAlthoughWritesFail: a refused deletion or status write leaves no part of a gang running.
// The first of three sessions evicts, and the next two choose no other pod. If all 9 attempts of a write fail, a
// session deletes the pod after deletionTimeout. Job t uses the 4 cards of node n. "t*4" are the pods t-0 to
// t-3.
func TestAllEvictedPodsAreDeletedAlthoughWritesFail(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "t-0", errors.New("the object has been modified"))
	hasConditions := applyAll(withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, 0), func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict"})
	})

	for t, tc := range check.Cases(t, map[string]struct {
		job         string
		change      podChange
		verb        string
		failures    int
		isGivenUp   bool // all attempts of the write fail
		wantEvicted string
	}{
		"one status write fails, of a gang": {job: "min=4", verb: "patch", failures: 1, wantEvicted: "t*4"},
		"one deletion fails, of a gang":     {job: "min=4", verb: "delete", failures: 1, wantEvicted: "t*4"},
		"two deletions fail, of a vcjob that ends": {
			job: "min=4 owner=vcjob evictionPolicy=TerminateJob", verb: "delete", failures: 2, wantEvicted: "t*4"},
		"no write fails, and pod t-0 already has its conditions: it is deleted too": {
			job: "min=1", change: onPod("t-0", hasConditions), verb: "delete", wantEvicted: "t-0"},
		"all 9 attempts of a deletion fail": {job: "min=1", verb: "delete", failures: 9, isGivenUp: true, wantEvicted: "t-0"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job waiting queue=inference min=1 pending=1
			job t queue=training running=n*4 age=24h `+tc.job, onJob("t", tc.change)).addToAPI(t)
		var writes atomic.Int32
		s.failWrites(tc.verb, conflict, func() bool { return int(writes.Add(1)) <= tc.failures })

		for range 3 { // the scheduler sees no change of the API server
			s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "waiting-0@n")
		}

		if tc.isGivenUp {
			eventually(t, "the evictor gives up", func() bool { return int(writes.Load()) == tc.failures })
			s.search.evictions.pods.deletion = -time.Second // deletionTimeout is over
			s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, "waiting-0@n")
		}
		s.expectDeletedAndRecreated(t, tc.wantEvicted, "")
	}
}

// totalDelay returns how long the product waits in all between the tries of a write.
func totalDelay(jitter float64) (total time.Duration) {
	backoff := shippedBackoff
	backoff.Jitter = jitter
	for backoff.Steps > 1 {
		total += backoff.Step()
	}
	return total
}

// TestAFailedWriteDoesNotDelayOtherPods: the evictor writes to one pod at a time. Each write to pod bad fails. While that
// waits for its repetition, pod good is written to without delay. The clock of the test stands still meanwhile.
func TestAFailedWriteDoesNotDelayOtherPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := builder.Pod("ns", "bad").Obj()
		good := builder.Pod("ns", "good").Obj()
		client := fake.NewClientset(bad, good)
		client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, ok := action.(clienttesting.PatchAction)
			return ok && patch.GetName() == "bad", nil, apierrors.NewInternalError(errors.New("a webhook fails"))
		})

		evictor := newPodEvictor(1) // one write at a time
		var all sync.WaitGroup
		all.Go(func() { evictor.evictPods(client, []*api.TaskInfo{{Pod: bad}}, true, schedulerconfig.CardReclaim) }) // true: to be recreated
		defer all.Wait()

		synctest.Wait()
		began := time.Now()
		evictor.evictPods(client, []*api.TaskInfo{{Pod: good}}, true, schedulerconfig.CardReclaim)
		check.Equal(t, "time until the write to good is done", 0, time.Since(began))
	})
}

// TestEachAttemptOfAWriteTimesOut: an API server that never answers takes writeTimeout of each attempt. All attempts end
// before markTimeout, after which a pod without its annotation is deleted.
func TestEachAttemptOfAWriteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evictor := newPodEvictor(1)
		tasks := []*api.TaskInfo{{Pod: builder.Pod("ns", "p").Obj()}}
		attempts := 0
		began := time.Now()
		evictor.writeAll(fake.NewClientset(), tasks, func(ctx context.Context, _ kubernetes.Interface, _ *corev1.Pod) error {
			attempts++
			<-ctx.Done()
			return ctx.Err()
		})
		check.Equal(t, "attempts", writeBackoff.Steps, attempts)
		check.That(t, time.Since(began) >= time.Duration(attempts)*writeTimeout, "the attempts took %s", time.Since(began))
	})

	total := time.Duration(shippedBackoff.Steps)*writeTimeout + totalDelay(shippedBackoff.Jitter)
	check.That(t, total < markTimeout, "all attempts may take %s, and a pod without its annotation is deleted after %s", total, markTimeout)
}
