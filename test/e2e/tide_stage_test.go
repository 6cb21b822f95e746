package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// tideScene is a scene about cards that are taken back.
type tideScene struct {
	name string
	play func(*tide)
	// podByPod tells that it plays the same with Volcano's own action reclaim.
	podByPod bool
}

// tide is the stage of such a scene: two nodes with four of a card each, and one
// with four of another card.
type tide struct {
	*scene
	card, other string
}

func (s tideScene) card() string { return "NVIDIA-" + strings.ToUpper(s.name) }

func (s tideScene) fleet() []cluster.NodeProfile {
	return []cluster.NodeProfile{node(s.name, s.card(), 2, "4"), node(s.name+"-other", s.card()+"-OTHER", 1, "4")}
}

func createClasses(t *testing.T, st *stage) {
	t.Helper()
	for name, value := range map[string]int32{"pc-high": 80000, "pc-low": 20000} {
		NewWithT(t).Expect(st.Create(t.Context(), builder.PriorityClass(name, value))).To(Succeed())
	}
}

// queue is the name of one of the scene's queues.
func (t *tide) queue(kind string) string { return t.namespace + "-" + kind }

// quotas makes a queue of training that may use everything, and one of
// inference that may use so many of the card.
func (t *tide) quotas(inference int) {
	t.Helper()
	t.ofType(t.queue("training"), "training", cards(t.card, 8, t.other, 4))
	t.ofType(t.queue("inference"), "inference", cards(t.card, inference))
}

// byHand makes a Queue that no CardQuota knows, of a service type, "" for none.
func (t *tide) byHand(name, serviceType string, priority int32, reclaimable bool) string {
	t.Helper()
	queue := t.queueByHand(t.queue(name), `{"`+t.card+`":8}`)
	t.Eventually(func() error {
		live := &v1beta1.Queue{}
		if err := t.Get(t.ctx, keyOf(queue), live); err != nil {
			return err
		}
		live.Spec.Priority, live.Spec.Reclaimable = priority, ptr.To(reclaimable)
		if serviceType != "" {
			live.Annotations[api.AnnotationServiceType] = serviceType
		}
		return t.Update(t.ctx, live)
	}).Should(Succeed())
	return queue.Name
}

// work is so many pods of one card each.
func (t *tide) work(name, queue string, pods int) work {
	return work{name: name, queue: queue, card: t.card, count: 1, pods: pods}
}

// trains creates a Deployment of training and waits until it runs.
func (t *tide) trains(name string, pods int) *appsv1.Deployment {
	t.Helper()
	d := t.deploymentOf(t.work(name, t.queue("training"), pods))
	t.create(d)
	t.starts(name, pods)
	return d
}

// serves creates a Deployment of inference.
func (t *tide) serves(name string, pods int) *appsv1.Deployment {
	t.Helper()
	d := t.deploymentOf(t.work(name, t.queue("inference"), pods))
	t.create(d)
	return d
}

// starts waits until so many pods run.
func (t *tide) starts(name string, pods int) {
	t.Helper()
	t.Eventually(func() int { return t.running(name) }).Should(Equal(pods), name)
}

// stay checks for some sessions that the pods of workloads are those of before.
func (t *tide) stay(before map[types.UID]string) {
	t.Helper()
	names := map[string]bool{}
	for _, name := range before {
		names[name] = true
	}
	t.stays(func() any { return t.alive(slices.Collect(maps.Keys(names))...) }, before)
}

// alive are the running pods of workloads, by the workload's name.
func (t *tide) alive(names ...string) map[types.UID]string {
	t.Helper()
	alive := map[types.UID]string{}
	for _, name := range names {
		for _, pod := range t.podsOf(name) {
			if pod.Status.Phase == corev1.PodRunning {
				alive[pod.UID] = name
			}
		}
	}
	return alive
}

// survivors counts those of before that still run.
func (t *tide) survivors(before map[types.UID]string) int {
	n := 0
	for uid := range t.alive(slices.Collect(maps.Values(before))...) {
		if _, ok := before[uid]; ok {
			n++
		}
	}
	return n
}

// trainer is a training job that needs all of its pods, with the policies that
// users write.
func (t *tide) trainer(name string, pods int) *batchv1alpha1.Job {
	w := t.work(name, t.queue("training"), pods)
	w.gang = pods
	job := t.vcjob(w)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{
		{Events: []v1alpha1.Event{v1alpha1.PodEvictedEvent, v1alpha1.PodFailedEvent}, Action: v1alpha1.RestartJobAction},
		{Event: v1alpha1.TaskCompletedEvent, Action: v1alpha1.CompleteJobAction},
	}
	return job
}

// pod is what the pods of a job's first task are made from.
func pod(job *batchv1alpha1.Job) *corev1.PodTemplateSpec { return &job.Spec.Tasks[0].Template }

// start creates a job and waits until all of its pods run.
func (t *tide) start(job *batchv1alpha1.Job) {
	t.Helper()
	t.create(job)
	pods := 0
	for i := range job.Spec.Tasks {
		pods += int(job.Spec.Tasks[i].Replicas)
	}
	t.starts(job.Name, pods)
}

// fill has so many cards be held by pods that nobody may take.
func (t *tide) fill(pods int) {
	t.Helper()
	w := t.work("stays", t.queue("training"), pods)
	w.annotations = map[string]string{api.AnnotationPreemptable: "false"}
	t.create(t.deploymentOf(w))
	t.starts("stays", pods)
}

// told are the messages of an object's events of a reason, in this scene.
func (t *tide) told(kind, name, reason string) []string {
	t.Helper()
	events := &corev1.EventList{}
	t.list(events, client.InNamespace(t.namespace))
	var messages []string
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}
