package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/observer"
)

const examplesDir = "testdata/examples"

// example is a file of testdata/examples.
type example struct {
	// needs are the files to apply before it, such as its queue's.
	needs []string
	// promise checks what the comment at the top of the file promises.
	promise func(*scene)
}

// examples run each in a scene of its own. Their queues and priority classes get the scene's
// name: see scene.clusterName.
var examples = map[string]example{
	"queue": {promise: (*scene).sixCards},
	"cardquota": {promise: func(s *scene) {
		s.sixCards()
		s.wantUsedPendingAndOver(s.clusterName("cr-queue1"), migSlice, 3, 1, 0)
		s.wantUsedPendingAndOver(s.clusterName("cr-queue1"), mpsHalf, 2, 1, 0)
	}},
	"vcjob": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("cr-job", 2, 0)
		s.wantUsedCards("cr-job", map[string]int64{h200: 2})
		s.wantUsedPendingAndOver(s.clusterName("cr-queue1"), h200, 2, 0, 0)
	}},
	"deployment": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("cr-deployment", 2, 0)
		s.scaleDeployment("cr-deployment", 5)
		s.wantRunningAndWaiting("cr-deployment", 3, 2)
		s.wantUsedCards("cr-deployment", map[string]int64{h200: 3})
		s.wantReason("cr-deployment", withTotal(insufficientMessage(s.clusterName("cr-queue1"), h200, 1, 3), 4))
		s.scaleDeployment("cr-deployment", 1)
		s.wantRunningAndWaiting("cr-deployment", 1, 0)
		s.wantUsedPendingAndOver(s.clusterName("cr-queue1"), h200, 1, 0, 0)
	}},
	"vcjob-alternatives": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("cr-job-alternatives", 2, 0)
		s.wantUsedCards("cr-job-alternatives", map[string]int64{rtx4090: 2})
	}},
	"vcjob-cards-per-task": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("cr-job-cards-per-task", 3, 0)
		s.wantUsedCards("cr-job-cards-per-task", map[string]int64{h200: 1, rtx4090: 2})
		for _, pod := range s.podsOf("cr-job-cards-per-task") {
			want := map[string]int64{map[string]string{"master": h200, "worker": rtx4090}[pod.Annotations[batchv1alpha1.TaskSpecKey]]: 1}
			s.Expect(s.usedCards([]corev1.Pod{pod})).To(Equal(want), pod.Name)
		}
	}},
	"deployment-alternatives": {promise: func(s *scene) {
		const name = "cr-deployment-alternatives"
		s.wantRunningAndWaiting(name, 2, 0)
		s.wantUsedCards(name, map[string]int64{rtx4090: 2})
		s.scaleDeployment(name, 5)
		s.wantRunningAndWaiting(name, 4, 1)
		s.wantUsedCards(name, map[string]int64{rtx4090: 2, rtx4090d: 2})
		s.wantReason(name, withTotal(insufficientMessage(s.clusterName("cr-queue2"), rtx4090, 1, 2), 3)+"; the other card it may use has no more room")
	}},
	"alternatives-refused": {needs: []string{"cardquota", "vcjob"}, promise: func(s *scene) {
		s.wantReason("card-or-slice", "Pod annotation volcano.sh/card.name: "+rtx4090+" is a whole card and "+migSlice+" is a MIG slice of profile 1g.18gb: one resource request cannot mean either")
		s.wantReason("slice-or-slice", "Pod annotation volcano.sh/card.name: "+migSlice+" is a MIG slice of profile 1g.18gb and "+migLarge+" is a MIG slice of profile 3g.71gb: one resource request cannot mean either")
		s.wantReason("vendor-or-vendor", "Pod names card <"+ascend+">, which is requested as huawei.com/Ascend910, but requests nvidia.com/gpu")
		s.wantPods(map[string]string{"card-or-slice": runningAndWaiting(0, 1), "slice-or-slice": runningAndWaiting(0, 1), "vendor-or-vendor": runningAndWaiting(0, 1), "cr-job": runningAndWaiting(2, 0)})
	}},
	"beyond-quota": {needs: []string{"cardquota"}, promise: func(s *scene) {
		sentence := insufficientMessage(s.clusterName("cr-queue1"), h200, 5, 3)
		s.wantGroupReason("too-large", sentence) // what was enqueued before counts as well
		s.wantReason("too-wide", withTotal(sentence, 5))
		s.wantPods(map[string]string{"too-large": runningAndWaiting(0, 0), "too-wide": runningAndWaiting(0, 1)})
	}},
	"cpu-beside-cards": {promise: func(s *scene) {
		s.wantPods(map[string]string{"with-cards": runningAndWaiting(2, 0), "without-cards": runningAndWaiting(4, 2), "without-either": runningAndWaiting(0, 1)})
		s.wantReason("without-cards", fmt.Sprintf("Queue <%s> has insufficient CPU quota: requested <1000m>, total would be <5000m>, but capability is <4000m>", s.clusterName("scarce-cpu")))
		s.wantReason("without-either", fmt.Sprintf("Queue <%s> has no cpu capability and may use none", s.clusterName("no-cpu")))
	}},
	"h20-shares": {promise: func(s *scene) {
		s.wantPods(map[string]string{"h20-card": runningAndWaiting(1, 1), "h20-half": runningAndWaiting(2, 1), "h20-slice": runningAndWaiting(3, 1)})
		for name, want := range map[string]struct {
			card  string
			quota int
		}{"h20-card": {"NVIDIA-H20", 1}, "h20-half": {"NVIDIA-H20/mps-96g*1/2", 2}, "h20-slice": {"NVIDIA-H20/mig-1g.12gb-mixed", 3}} {
			s.wantUsedCards(name, map[string]int64{want.card: int64(want.quota)})
			s.wantReason(name, withTotal(insufficientMessage(s.clusterName("cr-queue-h20"), want.card, 1, want.quota), want.quota+1))
		}
	}},
	"service-type-inference": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("ai-service", 2, 0)
		s.wantUsedCards("ai-service", map[string]int64{migSlice: 2})
		s.Expect(s.groupOf("ai-service").Annotations).To(HaveKeyWithValue(api.AnnotationServiceType, "inference"))
	}},
	"service-type-training": {needs: []string{"cardquota"}, promise: func(s *scene) {
		s.wantRunningAndWaiting("ai-job", 2, 0)
		s.wantUsedCards("ai-job", map[string]int64{h200: 2})
		s.Expect(s.groupOf("ai-job").Annotations).To(And(HaveKeyWithValue(api.AnnotationServiceType, "training"), HaveKey(api.AnnotationCardRequest)))
	}},
	"queue-inference": {promise: func(s *scene) { s.wantQueue("queue-inference", 80000, notReclaimable) }},
	"queue-training":  {promise: func(s *scene) { s.wantQueue("queue-training", 20000, reclaimable) }},
	"priority-classes": {needs: []string{"queue-inference"}, promise: func(s *scene) {
		// Four pods of one card each wait while the quota is 0. It rises to 4, one by one: each time the pod of the highest
		// priority starts.
		queue := s.readQueue(s.clusterName("queue-inference"))
		s.setAnnotation(queue, api.AnnotationCardQuota, `{"NVIDIA-GeForce-RTX-4090":0}`)
		for _, class := range []string{"pc-low", "pc-medium-low", "pc-high", "pc-medium-high"} {
			pod := s.barePods(podSet{name: class, queue: queue.Name, card: rtx4090, count: 1, pods: 1})[0]
			pod.Spec.PriorityClassName = s.clusterName(class)
			s.createObjects(pod)
		}

		s.wantPods(map[string]string{"pc-high": runningAndWaiting(0, 1), "pc-medium-high": runningAndWaiting(0, 1), "pc-medium-low": runningAndWaiting(0, 1), "pc-low": runningAndWaiting(0, 1)})
		for i, class := range []string{"pc-high", "pc-medium-high", "pc-medium-low", "pc-low"} {
			s.Expect(*s.podsOf(class)[0].Spec.Priority).To(BeEquivalentTo(80000 - i*20000))
			s.setAnnotation(queue, api.AnnotationCardQuota, fmt.Sprintf(`{"NVIDIA-GeForce-RTX-4090":%d}`, i+1))
			s.wantPods(map[string]string{class: runningAndWaiting(1, 0)})
		}
	}},
	"inference-high": {needs: []string{"priority-classes", "queue-inference"}, promise: inferenceHigh},
	"training-low":   {needs: []string{"priority-classes", "queue-training"}, promise: trainingLow},
	"training-gang-abort": {needs: []string{"priority-classes", "queue-training"}, promise: func(s *scene) {
		s.deleteOnePod("training-gang-abort")
		s.wantPhase("training-gang-abort", batchv1alpha1.Aborted)
		s.wantRunningAndWaiting("training-gang-abort", 0, 0)
	}},
	"training-gang-restart": {needs: []string{"priority-classes", "queue-training"}, promise: func(s *scene) {
		before := s.deleteOnePod("training-gang-restart")
		s.Eventually(func() int { return s.countSurvivors(before) }).Should(BeZero(), "both pods are replaced")
		s.wantRunningAndWaiting("training-gang-restart", 2, 0)
		s.wantUsedCards("training-gang-restart", map[string]int64{rtx4090: 8})
	}},
}

// configurations are the examples that configure the scheduler, which all tests share. They run
// one after the other while nothing else runs.
var configurations = map[string]example{
	"scheduler-quota": {needs: []string{"cpu-beside-cards"}, promise: func(s *scene) {
		examples["cpu-beside-cards"].promise(s)
	}},
	"scheduler-reclaim": {needs: []string{"priority-classes", "queue-inference", "queue-training", "inference-high", "training-low"}, promise: func(s *scene) {
		inferenceHigh(s)
		trainingLow(s)

		// A queue enqueues up to twice its quota of 8, and no more; 2 cards are in use. The
		// observer does not know the factor, so it must not check the capability that the queue
		// states, to the end: it also judges what was stated before.
		s.observer.Excuse(observer.Truth)
		for _, name := range []string{"runs", "waits", "stays-out"} {
			s.createObjects(s.newVCJob(podSet{name: name, queue: s.clusterName("queue-training"), card: rtx4090, count: 3, pods: 2, gang: 2}))
			s.Eventually(func() string { return s.groupMessage(name) + fmt.Sprint(s.countRunning(name)) }).ShouldNot(Equal("0"))
		}
		s.wantPods(map[string]string{"runs": runningAndWaiting(2, 0), "waits": runningAndWaiting(0, 2), "stays-out": runningAndWaiting(0, 0)})
	}},
}

// TestExamplesDoWhatTheyPromise: each file in testdata/examples, which users copy, does what the comment at its top
// promises. The map examples has the checks of each. Each file runs in a namespace of its own.
func TestExamplesDoWhatTheyPromise(t *testing.T) {
	t.Parallel()
	for name, x := range examples {
		t.Run(name, func(t *testing.T) {
			newScene(t, name+"-example").runExample(x, name)
		})
	}
}

// runConfigurations runs the examples that configure the scheduler.
func runConfigurations(t *testing.T, st *testCluster) {
	for name, x := range configurations {
		t.Run(name, func(t *testing.T) {
			s := newSceneOn(t, name+"-example", st)
			s.useConfig(s.readExample(name)[0].Object["data"].(map[string]any)[configurationKey].(string))
			s.runExample(x)
		})
	}
}

// TestEveryExampleIsTested: each file in testdata/examples has a test, and begins with a comment of what it shows.
func TestEveryExampleIsTested(t *testing.T) {
	g := NewWithT(check.Trail(t))
	files := check.Value(filepath.Glob(filepath.Join(examplesDir, "*")))(t)
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		g.Expect(string(check.Value(os.ReadFile(file))(t))).To(HavePrefix("# "), "%s begins with what it shows", file)
	}
	g.Expect(names).To(ConsistOf(slices.Concat(slices.Collect(maps.Keys(examples)), slices.Collect(maps.Keys(configurations)))))
}

// runExample applies an example and the files that it needs, checks its promise, and that every
// Queue of a CardQuota states what is in use.
func (s *scene) runExample(x example, files ...string) {
	s.applyExamples(slices.Concat(x.needs, files)...)
	x.promise(s)
	for _, object := range s.clusterWide {
		if object.GetObjectKind().GroupVersionKind().Kind == "CardQuota" {
			s.wantAllocated(object.GetName())
		}
	}
}

// clusterName returns the name of a cluster-wide object of an example in this scene, so that
// scenes do not conflict.
func (s *scene) clusterName(name string) string { return s.namespace + "-" + name }

// applyExamples creates the objects of examples in this scene, and waits for their queues.
func (s *scene) applyExamples(files ...string) {
	var objects []*unstructured.Unstructured
	for _, file := range files {
		objects = append(objects, s.readExample(file)...)
	}

	names := map[string]string{}
	for _, object := range objects {
		if check.Value(s.IsObjectNamespaced(object))(s) {
			object.SetNamespace(s.namespace)
		} else {
			names[object.GetName()] = s.clusterName(object.GetName())
		}
	}

	for _, object := range objects {
		replaceNames(object.Object, names)
		s.createAndAwaitOpen(object)
	}
}

// readExample decodes an example.
func (s *scene) readExample(name string) []*unstructured.Unstructured {
	objects, err := cluster.Decode(check.Value(os.ReadFile(filepath.Join(examplesDir, name+".yaml")))(s))
	s.Expect(err).NotTo(HaveOccurred(), name)
	return objects
}

// replaceNames replaces every text that equals one of the names.
func replaceNames(value any, names map[string]string) any {
	switch value := value.(type) {
	case string:
		if name, ok := names[value]; ok {
			return name
		}
	case []any:
		for i := range value {
			value[i] = replaceNames(value[i], names)
		}
	case map[string]any:
		for key := range value {
			value[key] = replaceNames(value[key], names)
		}
	}

	return value
}

// withTotal inserts the total into a message of insufficient quota.
func withTotal(sentence string, n int) string {
	return strings.Replace(sentence, "TOTAL", fmt.Sprint(n), 1)
}

// sixCards uses up the six quotas of cr-queue1, and requests one card more of each, and one
// without a quota.
func (s *scene) sixCards() {
	queue := s.clusterName("cr-queue1")
	want := map[string]string{}
	quotas := map[string]int{h200: 3, h800: 2, rtx4090: 2, mpsHalf: 2, migSlice: 3, migLarge: 1, ascend: 0}
	name := func(card string) string {
		return strings.ToLower(strings.NewReplacer("/", "-", "*", "-", ".", "-").Replace(card))
	}

	for card, quota := range quotas {
		s.createObjects(s.deploymentOf(podSet{name: name(card), queue: queue, card: card, count: 1, pods: quota + 1}))
		want[name(card)] = runningAndWaiting(quota, 1)
	}

	s.wantPods(want)
	for card, quota := range quotas {
		s.wantReason(name(card), withTotal(insufficientMessage(queue, card, 1, quota), quota+1))
		delete(want, name(card))
		if quota > 0 {
			s.wantUsedCards(name(card), map[string]int64{card: int64(quota)})
		}
	}
}

func inferenceHigh(s *scene) { s.wantPriority("inference-high", 1, 80000, "false") }

func trainingLow(s *scene) { s.wantPriority("training-low", 2, 20000, "true") }

// wantPriority checks the pods of a workload on 4090, and what its PriorityClass made of them.
func (s *scene) wantPriority(name string, running int, priority int32, preemptable string) {
	s.wantRunningAndWaiting(name, running, 0)
	s.wantUsedCards(name, map[string]int64{rtx4090: int64(running)})
	for _, pod := range s.podsOf(name) {
		s.Expect(*pod.Spec.Priority).To(Equal(priority))
		s.Expect(pod.Annotations).To(HaveKeyWithValue(v1beta1.PodPreemptable, preemptable))
	}
}

// deleteOnePod waits until a gang runs, deletes one of its pods and returns those that ran.
func (s *scene) deleteOnePod(gang string) map[types.UID]string {
	s.wantRunningAndWaiting(gang, 2, 0)
	s.wantUsedCards(gang, map[string]int64{rtx4090: 8})
	members := s.runningPods(gang)
	s.Expect(s.Delete(s.ctx, &s.podsOf(gang)[0])).To(Succeed())
	return members
}

// groupOf is the PodGroup of a workload that has pods.
func (s *scene) groupOf(name string) *v1beta1.PodGroup {
	return readObject(s, &v1beta1.PodGroup{ObjectMeta: s.objectMeta(s.podsOf(name)[0].Annotations[v1beta1.KubeGroupNameAnnotationKey])})
}

// wantQueue checks the tide's side of a queue, and its quota of eight 4090.
func (s *scene) wantQueue(name string, priority int32, isReclaimable bool) {
	live := s.readQueue(s.clusterName(name))
	s.Expect(live.Spec.Priority).To(Equal(priority))
	s.Expect(*live.Spec.Reclaimable).To(Equal(isReclaimable))
	s.createObjects(s.deploymentOf(podSet{name: "web", queue: live.Name, card: rtx4090, count: 1, pods: 9}))
	s.wantRunningAndWaiting("web", 8, 1)
	s.wantReason("web", withTotal(insufficientMessage(live.Name, rtx4090, 1, 8), 9))
}
