package e2e

import (
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

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
	queue := builder.Queue(t.queue(name)).Quota(`{"` + t.card + `":8}`).ServiceType(serviceType).Priority(priority).Obj()
	queue.Spec.Reclaimable = &reclaimable
	t.open(queue)
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
	t.stays(func() any { return t.alive(namesOf(before)...) }, before)
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
	w.annotations = map[string]string{v1beta1.PodPreemptable: "false"}
	t.create(t.deploymentOf(w))
	t.starts("stays", pods)
}
