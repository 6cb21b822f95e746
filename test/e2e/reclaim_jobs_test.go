package e2e

import (
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/check"
)

// batchJob returns a training Job of Kubernetes that never completes, of pods with one card.
func (t *reclaimTest) batchJob(name string, pods, backoffLimit int32) *batchv1.Job {
	pod := t.newWorkload(name, t.queueName("training"), int(pods)).podTemplate("", "").Obj()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: t.objectMeta(name),
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: ptr.To[int32](1000), BackoffLimit: &backoffLimit,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
}

// ignoreEvictions writes what admission writes where the policy says IgnoreEvictions.
func ignoreEvictions(job *batchv1.Job) *batchv1.Job {
	job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
	return job
}

func (t *reclaimTest) readBatchJob(name string) *batchv1.Job {
	return readObject(t.scene, &batchv1.Job{ObjectMeta: t.objectMeta(name)})
}

// completeOnePod lets one running pod of a workload succeed.
func (t *reclaimTest) completeOnePod(name string) {
	for _, pod := range t.podsOf(name) {
		if pod.Status.Phase == corev1.PodRunning {
			t.setAnnotation(&pod, "test.cardquota.dev/run-for", "1s")
			return
		}
	}
	check.Must(t, false, "no pod of %s runs", name)
}

// aJobSurvivesTenTides: a Kubernetes Job of 4 pods loses one pod to inference in each of ten tides. Its backoffLimit is
// 0, so one failed pod would end it. But its failure policy ignores evictions, so no pod may count as failed. In each
// tide a pod completes: that resets the backoff of Kubernetes, which would else wait for up to ten minutes before it
// creates the next pod.
func aJobSurvivesTenTides(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.occupyCards(4)
	t.createObjects(ignoreEvictions(t.batchJob("job", 4, 0)))
	t.waitUntilRunning("job", 4)

	for tide := range 10 {
		before := t.runningPods("job")
		if tide == 0 {
			t.createInference("service", 1)
		} else {
			t.scaleDeployment("service", 1)
		}

		t.waitUntilRunning("service", 1)
		t.Expect(t.countSurvivors(before)).To(Equal(3))

		completed := t.readBatchJob("job").Status.Succeeded
		t.completeOnePod("job")
		t.Eventually(func() int32 { return t.readBatchJob("job").Status.Succeeded }).Should(Equal(completed + 1))
		group := t.groupOf("service")
		t.scaleDeployment("service", 0)
		t.waitUntilRunning("job", 4)
		t.Eventually(t.IsGone(t.ctx, group)).Should(BeTrue())
	}

	status := t.readBatchJob("job").Status
	t.Expect(status.Conditions).To(BeEmpty())
	t.Expect(status.Failed).To(BeZero())
}

// aJobAtItsBackoffLimitStays: a Kubernetes Job with backoffLimit 1 and a younger gang use 4 cards each. The first pod
// of inference evicts a pod of the Job, because single pods are evicted before gangs. That is one failure. For the
// second pod of inference the gang is evicted, although one more pod of the Job would lose less: a second failure
// would end the Job, and lose the work of all its pods.
func aJobAtItsBackoffLimitStays(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.createObjects(t.batchJob("job", 4, 1))
	t.waitUntilRunning("job", 4)
	start := t.lastPodStart("job")
	t.Eventually(func() time.Duration { return time.Since(start) }).Should(BeNumerically(">", 3*time.Second)) // so that the gang is younger
	t.startJob(t.trainingJob("gang", 4))

	t.createInference("service", 1)
	t.waitUntilRunning("service", 1)
	t.Expect(t.countRunning("gang")).To(Equal(4), "single pods are evicted first")
	left := t.runningPods("job")
	t.Expect(left).To(HaveLen(3))

	t.scaleDeployment("service", 2)
	t.waitUntilRunning("service", 2)
	t.Expect(t.countSurvivors(left)).To(Equal(3))
	t.Eventually(func() int { return t.countRunning("gang") }).Should(BeZero())
	t.Eventually(func() int32 { return t.readBatchJob("job").Status.Failed }).Should(Equal(int32(1)), "the Job controller may count late")
	t.Expect(t.readBatchJob("job").Status.Conditions).To(BeEmpty())
}
