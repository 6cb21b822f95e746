package e2e

import (
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// reclaimsWholeGangs: two gangs of 4 pods use all 8 cards. One pod of inference evicts one gang as a whole, since it
// cannot run with 3 pods. The next 3 pods of inference use the other cards of that gang, and only the fifth evicts the
// second gang. Each eviction has one event. Both gangs run again once inference has ended.
func reclaimsWholeGangs(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.startJob(t.trainingJob("one", 4))
	t.startJob(t.trainingJob("two", 4))
	t.createInference("service", 1)
	t.wantRunningAndWaiting("service", 1, 0)

	t.Eventually(func() int { return t.countRunning("one") + t.countRunning("two") }).Should(Equal(4))
	left := t.runningPods("one", "two")
	t.scaleDeployment("service", 4)
	t.wantRunningAndWaiting("service", 4, 0)
	t.checkSamePods(left)

	t.scaleDeployment("service", 5)
	t.wantPods(map[string]string{"service": runningAndWaiting(5, 0), "one": runningAndWaiting(0, 4), "two": runningAndWaiting(0, 4)})
	t.wantOneEventEach("one", "two")
	t.scaleDeployment("service", 0)
	t.wantPods(map[string]string{"one": runningAndWaiting(4, 0), "two": runningAndWaiting(4, 0)})
}

// wantOneEventEach checks that the evicted jobs and the reclaimer each have one event.
func (t *reclaimTest) wantOneEventEach(jobs ...string) {
	for _, job := range jobs {
		t.Eventually(func() []string { return t.eventMessages(t.namespace, "Job", job, "CardsReclaimed") }).Should(ConsistOf(And(
			ContainSubstring("4 card(s) are reclaimed for %s/", t.namespace),
			ContainSubstring("of queue %s: the whole job is evicted", t.queueName("inference")),
		)))
	}

	group := t.podsOf("service")[0].Annotations[v1beta1.KubeGroupNameAnnotationKey]
	t.Eventually(func() []string { return t.eventMessages(t.namespace, "PodGroup", group, "ReclaimsCards") }).Should(ConsistOf(
		ContainSubstring("reclaims cards for 1 pod(s): 4 pod(s) of %s/", t.namespace),
		ContainSubstring("reclaims cards for 1 pod(s): 4 pod(s) of %s/", t.namespace),
	))
}

// aGangWithAProtectedPodStays: one pod of the younger gang, guarded, is protected from eviction. So the whole gang
// stays: if only the other pods were evicted, it could not run. The older gang is evicted although it loses more. Its 4
// cards serve 4 pods of inference, and a fifth waits.
func aGangWithAProtectedPodStays(t *reclaimTest) {
	guarded := t.trainingJob("guarded", 4)
	worker := guarded.Spec.Tasks[0]
	leader := *worker.DeepCopy()
	leader.Name = "leader"
	leader.Replicas = 1
	worker.Replicas = 3

	leader.Template.Annotations[v1beta1.PodPreemptable] = "false"
	guarded.Spec.Tasks = []batchv1alpha1.TaskSpec{leader, worker}
	t.startOneAfterTheOther(t.trainingJob("open", 4), guarded)
	t.wantEvicted("open", "guarded")
	t.scaleDeployment("service", 5)

	left := t.runningPods("guarded")
	t.wantPods(map[string]string{"service": runningAndWaiting(4, 1), "open": runningAndWaiting(0, 4)})
	t.checkSamePods(left)
}

// elasticJob returns a training job that can run with fewer pods.
func (t *reclaimTest) elasticJob(name string, pods, least int) *batchv1alpha1.Job {
	job := t.trainingJob(name, pods)
	job.Spec.MinAvailable = int32(least)
	job.Spec.Policies = nil
	return job
}

// elasticPodsAreEvictedFirst: Deployment web has 2 pods and needs 1, job willing has 4 and needs 2. The 3 pods above
// these minimums (elastic) are evicted for the first 3 pods of inference, before any gang is broken. For the fourth
// web loses its last pod: that is a smaller loss than the 2 pods of the gang, or the 2 that willing needs.
func elasticPodsAreEvictedFirst(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.startTraining("web", 2)
	t.startJob(t.elasticJob("willing", 4, 2))
	t.startJob(t.trainingJob("gang", 2))
	gang := t.runningPods("gang")

	t.createInference("service", 3)
	t.wantPods(map[string]string{"service": runningAndWaiting(3, 0), "web": runningAndWaiting(1, 1), "willing": runningAndWaiting(2, 2)})
	t.checkSamePods(gang)
	t.wantJob("willing", batchv1alpha1.Running)
	t.scaleDeployment("service", 4) // the last pod of the Deployment is less than two of a gang

	t.wantPods(map[string]string{"service": runningAndWaiting(4, 0), "web": runningAndWaiting(0, 2), "willing": runningAndWaiting(2, 2)})
	t.checkSamePods(gang)
	t.scaleDeployment("service", 0)
	t.wantPods(map[string]string{"web": runningAndWaiting(2, 0), "willing": runningAndWaiting(4, 0)})
	t.checkSamePods(gang)
}

// wantJob checks a job's phase, and that no retry of it was counted.
func (t *reclaimTest) wantJob(name string, phase batchv1alpha1.JobPhase) {
	t.wantPhase(name, phase)
	t.Expect(t.readJob(name).Status.RetryCount).To(BeZero(), name)
}

// aRestartingJobIsEvictedWhole: the job could run with two of its 4 pods, but its own policy would restart all of
// them when one is evicted. So it is evicted as a whole, and starts again on what is left.
func aRestartingJobIsEvictedWhole(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.occupyCards(4)
	job := t.elasticJob("job", 4, 2)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: v1alpha1.PodEvictedEvent, Action: v1alpha1.RestartJobAction}}
	t.startJob(job)
	before := t.runningPods("job")
	t.createInference("service", 1)
	t.wantPods(map[string]string{"service": runningAndWaiting(1, 0), "job": runningAndWaiting(3, 1)}) // it starts again on what is left
	t.Expect(t.countSurvivors(before)).To(BeZero())
	t.wantJob("job", batchv1alpha1.Running)
}

// everyTaskKeepsItsMinimum: each task of a job has a minimum of its own: of 3 workers two can be evicted, and the
// one leader cannot.
func everyTaskKeepsItsMinimum(t *reclaimTest) {
	t.createQueuesWithInferenceQuota(8)
	t.occupyCards(4)
	job := t.elasticJob("job", 3, 2)
	worker := job.Spec.Tasks[0]
	leader := *worker.DeepCopy()
	leader.Name = "leader"
	leader.Replicas = 1
	leader.MinAvailable = ptr.To[int32](1)

	worker.MinAvailable = ptr.To[int32](1)
	job.Spec.Tasks = []batchv1alpha1.TaskSpec{worker, leader}
	t.startJob(job)
	leaders := t.runningOfTask("job", "leader")
	t.createInference("service", 2)

	t.wantPods(map[string]string{"service": runningAndWaiting(2, 0), "job": runningAndWaiting(2, 2)})
	t.Expect(t.runningOfTask("job", "worker")).To(HaveLen(1))
	t.Expect(t.runningOfTask("job", "leader")).To(Equal(leaders))
	t.wantJob("job", batchv1alpha1.Running)
}
