package e2e

import (
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/workload"
)

// noEvictionBeforeMinimumRuntime: the configuration grants training a minimum runtime of 10 seconds, and training uses
// all 8 cards. A pod of inference that is created before that waits. Once the oldest pod of training has run for 10
// seconds, and not before, one is evicted.
func noEvictionBeforeMinimumRuntime(t *reclaimTest) {
	const granted = 10 * time.Second
	t.useConfig(strings.Replace(t.configText(), "cardUnlimitedCpuMemory: true", `cardUnlimitedCpuMemory: true
      serviceTypes:
        inference: {reclaimFrom: [training]}
        training: {reclaimable: true, minimumRuntime: 10s}`, 1))

	t.createQueuesWithInferenceQuota(8)
	t.startTraining("low", 8)

	first := t.lastPodStart("low")
	for _, pod := range t.podsOf("low") {
		if pod.Status.StartTime.Time.Before(first) {
			first = pod.Status.StartTime.Time
		}
	}

	t.createInference("service", 1)
	for t.countRunning("low") == 8 {
		t.Expect(time.Since(first)).To(BeNumerically("<", granted+soon), "it is evicted when it has had its time")
		time.Sleep(often)
	}

	t.Expect(time.Since(first)).To(BeNumerically(">=", granted))
	t.wantPods(map[string]string{"low": runningAndWaiting(7, 1), "service": runningAndWaiting(1, 0)})
}

// setSlowTermination makes pods take some time to end.
func setSlowTermination(template *corev1.PodTemplateSpec) {
	template.Annotations[endsAfter] = "5s"
	template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
}

// countTerminating counts the pods that are evicted, by deletion or recreation.
func (s *scene) countTerminating() int {
	list := &corev1.PodList{}
	n := 0
	s.listObjects(list, client.InNamespace(s.namespace))
	for _, pod := range list.Items {
		if _, isOutOfSync := pod.Annotations[workload.AnnotationOutOfSync]; isOutOfSync || pod.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

// restartSchedulerAfter kills the scheduler as soon as the given number of pods is evicted, and
// starts another one.
func (t *reclaimTest) restartSchedulerAfter(evicted int) {
	t.Eventually(t.countTerminating, soon, 5*time.Millisecond).Should(BeNumerically(">=", evicted))
	t.killScheduler()
	t.startScheduler()
}

// aCrashEvictsNoOtherGang: two gangs of 4 pods use all 8 cards, and their pods take 5 s to end. The scheduler is
// killed as soon as the first pod of one of them is evicted for inference. The next scheduler recognises the evicted
// pods, and evicts the others of that gang. The 4 pods of the other gang survive.
func aCrashEvictsNoOtherGang(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	for _, name := range []string{"one", "two"} {
		job := t.trainingJob(name, 4)
		setSlowTermination(firstTaskTemplate(job))
		t.startJob(job)
	}

	all := t.runningPods("one", "two")
	t.createInference("service", 2)
	t.restartSchedulerAfter(1)
	t.wantRunningAndWaiting("service", 2, 0)
	t.Expect(t.countSurvivors(all)).To(Equal(4))
	t.Expect(t.countRunning("one") * t.countRunning("two")).To(BeZero())
}

// aCrashEvictsNoOtherPod: the 8 pods of training take 5 s to end. The scheduler is killed after it has evicted 2 of
// them for 2 pods of inference. The next scheduler waits for them to end instead of evicting others: 6 of 8 stay.
func aCrashEvictsNoOtherPod(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	low := t.deploymentOf(t.newWorkload("low", t.queueName("training"), 8))
	setSlowTermination(&low.Spec.Template)
	t.createObjects(low)
	t.waitUntilRunning("low", 8)
	all := t.runningPods("low")
	t.createInference("service", 2)
	t.restartSchedulerAfter(2)
	t.wantRunningAndWaiting("service", 2, 0)
	t.Expect(t.countSurvivors(all)).To(Equal(6))
}
