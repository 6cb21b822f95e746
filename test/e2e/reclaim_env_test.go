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

// reclaimScene is a scene about reclaim.
type reclaimScene struct {
	name string
	run  func(*reclaimTest)
	// worksWithStockReclaim reports whether the scene has the same result with Volcano's own action reclaim.
	worksWithStockReclaim bool
}

// reclaimTest is the environment of such a scene. The scene has two nodes with 4 of a card each, so 8 together, and
// one node with 4 of another card. Inference may reclaim from training, and not the other way round.
type reclaimTest struct {
	*scene
	card  string // the model of the 8 cards
	other string // the model of the 4 cards
}

func (s reclaimScene) cardName() string { return "NVIDIA-" + strings.ToUpper(s.name) }

func (s reclaimScene) nodeProfiles() []cluster.NodeProfile {
	return []cluster.NodeProfile{nodeProfile(s.name, s.cardName(), 2, "4"), nodeProfile(s.name+"-other", s.cardName()+"-OTHER", 1, "4")}
}

// queueName returns the name of one of the scene's queues.
func (t *reclaimTest) queueName(kind string) string { return t.namespace + "-" + kind }

// createQueuesWithInferenceQuota creates a queue of training that may use all cards of both models, and a queue of
// inference with a quota of the first model.
func (t *reclaimTest) createQueuesWithInferenceQuota(inference int) {
	t.createQuotaOfType(t.queueName("training"), "training", cardList(t.card, 8, t.other, 4))
	t.createQuotaOfType(t.queueName("inference"), "inference", cardList(t.card, inference))
}

// Whether a queue may be reclaimed from.
const (
	reclaimable    = true
	notReclaimable = false
)

// createUnmanagedQueue creates a Queue without a CardQuota, of a service type or "".
func (t *reclaimTest) createUnmanagedQueue(name, serviceType string, priority int32, isReclaimable bool) string {
	queue := builder.Queue(t.queueName(name)).Quota(`{"` + t.card + `":8}`).ServiceType(serviceType).Priority(priority).Obj()
	queue.Spec.Reclaimable = &isReclaimable
	t.createAndAwaitOpen(queue)
	return queue.Name
}

// newWorkload returns a workload of pods with one card each.
func (t *reclaimTest) newWorkload(name, queue string, pods int) podSet {
	return podSet{name: name, queue: queue, card: t.card, count: 1, pods: pods}
}

// startTraining creates a Deployment of training and waits until it runs.
func (t *reclaimTest) startTraining(name string, pods int) *appsv1.Deployment {
	d := t.deploymentOf(t.newWorkload(name, t.queueName("training"), pods))
	t.createObjects(d)
	t.waitUntilRunning(name, pods)
	return d
}

// createInference creates a Deployment of inference.
func (t *reclaimTest) createInference(name string, pods int) *appsv1.Deployment {
	d := t.deploymentOf(t.newWorkload(name, t.queueName("inference"), pods))
	t.createObjects(d)
	return d
}

// waitUntilRunning waits until the given number of pods runs.
func (t *reclaimTest) waitUntilRunning(name string, pods int) {
	t.Eventually(func() int { return t.countRunning(name) }).Should(Equal(pods), name)
}

// checkSamePods checks for some sessions that exactly these pods of their workloads run: none is evicted, and none
// is replaced by another one.
func (t *reclaimTest) checkSamePods(before map[types.UID]string) {
	t.checkUnchanged(func() any { return t.runningPods(namesOf(before)...) }, before)
}

// trainingJob returns a training job that needs all of its pods, with the policies that users
// write.
func (t *reclaimTest) trainingJob(name string, pods int) *batchv1alpha1.Job {
	w := t.newWorkload(name, t.queueName("training"), pods)
	w.gang = pods
	job := t.newVCJob(w)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{
		{Events: []v1alpha1.Event{v1alpha1.PodEvictedEvent, v1alpha1.PodFailedEvent}, Action: v1alpha1.RestartJobAction},
		{Event: v1alpha1.TaskCompletedEvent, Action: v1alpha1.CompleteJobAction},
	}
	return job
}

// firstTaskTemplate returns the pod template of a job's first task.
func firstTaskTemplate(job *batchv1alpha1.Job) *corev1.PodTemplateSpec {
	return &job.Spec.Tasks[0].Template
}

// startJob creates a job and waits until all of its pods run.
func (t *reclaimTest) startJob(job *batchv1alpha1.Job) {
	t.createObjects(job)
	pods := 0
	for i := range job.Spec.Tasks {
		pods += int(job.Spec.Tasks[i].Replicas)
	}
	t.waitUntilRunning(job.Name, pods)
}

// occupyCards creates pods with one card each that cannot be evicted. They leave fewer of the 8 cards to the scene.
func (t *reclaimTest) occupyCards(pods int) {
	w := t.newWorkload("stays", t.queueName("training"), pods)
	w.annotations = map[string]string{v1beta1.PodPreemptable: "false"}
	t.createObjects(t.deploymentOf(w))
	t.waitUntilRunning("stays", pods)
}
