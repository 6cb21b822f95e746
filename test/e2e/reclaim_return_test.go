package e2e

import (
	"maps"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// How pods end when they are deleted, in the fleet's kwok stages.
const (
	endsWith  = "test.cardquota.dev/delete-exit-code"
	endsAfter = "test.cardquota.dev/delete-after"
)

// restartedJobSurvives: a Volcano job of 4 pods trains, and 4 protected pods use the other cards. In each tide 2 pods
// of inference reclaim cards, the whole job is evicted, and runs again once inference has ended. Its policies restart
// it at most three times (maxRetry). No eviction counts as such a retry, whatever exit code its pods end with (ending).
func restartedJobSurvives(tides int, ending map[string]string) func(*reclaimTest) {
	return func(t *reclaimTest) { t.checkRestartedJob(tides, ending) }
}

func (t *reclaimTest) checkRestartedJob(tides int, ending map[string]string) {
	t.createQueuesWithInferenceQuota(8)
	job := t.trainingJob("job", 4)
	maps.Copy(firstTaskTemplate(job).Annotations, ending)

	firstTaskTemplate(job).Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	t.startJob(job)
	t.occupyCards(4)

	for tide := range tides {
		before := t.runningPods("job")
		if tide == 0 {
			// Not created without replicas and then scaled: when Volcano's controller sees the
			// first ReplicaSet late, it deletes the PodGroup of the second.
			t.createInference("service", 2)
		} else {
			t.scaleDeployment("service", 2)
		}

		t.waitUntilRunning("service", 2)
		t.wantPods(map[string]string{"job": runningAndWaiting(0, 4), "service": runningAndWaiting(2, 0)})
		group := t.groupOf("service")
		t.scaleDeployment("service", 0)
		t.waitUntilRunning("job", 4)

		// A late Volcano controller would delete the next pods' PodGroup as well.
		t.Eventually(t.IsGone(t.ctx, group)).Should(BeTrue())
		t.Expect(t.countSurvivors(before)).To(BeZero())
		t.wantJob("job", batchv1alpha1.Running)
	}

	t.Expect(t.readJob("job").Spec.MaxRetry).To(Equal(int32(3)), "Volcano's default")
	t.Expect(t.eventMessages(t.namespace, "Job", "job", "CardsReclaimed")).NotTo(BeEmpty())
}

// aJobThatAbortsEnds: the policy of the job itself says AbortJob when a pod is evicted. So the job is not recreated as
// others are: after one card was reclaimed its phase is Aborted, and none of its pods runs or waits.
func aJobThatAbortsEnds(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.occupyCards(4)
	job := t.trainingJob("job", 4)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: v1alpha1.PodEvictedEvent, Action: v1alpha1.AbortJobAction}}
	t.startJob(job)
	t.createInference("service", 1)
	t.wantRunningAndWaiting("service", 1, 0)
	t.wantPhase("job", batchv1alpha1.Aborted)
	t.wantRunningAndWaiting("job", 0, 0)
}

// aJobWithoutPoliciesReturnsAndWaits: a job without policies uses all 8 cards, and a pod of inference reclaims one.
// The whole job is recreated and waits while inference runs. Its PriorityClass is pc-high, but training may not reclaim
// from inference, so the pod of inference stays. The job has one event, of its only eviction. Once inference has ended
// the job runs again.
func aJobWithoutPoliciesReturnsAndWaits(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	job := t.trainingJob("job", 8)
	job.Spec.Policies = nil
	job.Spec.PriorityClassName = "pc-high"
	t.startJob(job)
	t.createInference("service", 1)
	t.wantPods(map[string]string{"job": runningAndWaiting(0, 8), "service": runningAndWaiting(1, 0)})

	stay := t.runningPods("service")
	for range 3 {
		t.checkSamePods(stay)
	}

	t.Expect(t.eventMessages(t.namespace, "Job", "job", "CardsReclaimed")).To(HaveLen(1))
	t.scaleDeployment("service", 0)
	t.wantRunningAndWaiting("job", 8, 0)
	t.wantJob("job", batchv1alpha1.Running)
}
