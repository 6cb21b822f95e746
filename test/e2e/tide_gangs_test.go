package e2e

import (
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Two gangs fill the nodes. One pod takes one gang, and the next ones use up what
// that one left before the other gang is touched.
func takesWholeGangs(t *tide) {
	t.quotas(8)
	t.start(t.trainer("one", 4))
	t.start(t.trainer("two", 4))
	t.serves("service", 1)
	t.wantRunning("service", 1, 0)
	t.Eventually(func() int { return t.running("one") + t.running("two") }).Should(Equal(4))
	left := t.alive("one", "two")
	t.scale("service", 4)
	t.wantRunning("service", 4, 0)
	t.stay(left)
	t.scale("service", 5)
	t.wantPods(map[string]string{"service": pods(5, 0), "one": pods(0, 4), "two": pods(0, 4)})
	t.wantToldOnce("one", "two")
	t.scale("service", 0)
	t.wantPods(map[string]string{"one": pods(4, 0), "two": pods(4, 0)})
}

// wantToldOnce checks that jobs that gave their cards say so, and that the one
// who got them does.
func (t *tide) wantToldOnce(jobs ...string) {
	t.Helper()
	for _, job := range jobs {
		t.Eventually(func() []string { return t.told(t.namespace, "Job", job, "CardsReclaimed") }).Should(ConsistOf(And(
			ContainSubstring("4 card(s) are taken back for %s/", t.namespace),
			ContainSubstring("of queue %s: the whole job goes", t.queue("inference")),
		)))
	}
	group := t.podsOf("service")[0].Annotations[v1beta1.KubeGroupNameAnnotationKey]
	t.Eventually(func() []string { return t.told(t.namespace, "PodGroup", group, "ReclaimsCards") }).Should(ConsistOf(
		ContainSubstring("takes cards back for 1 pod(s): 4 pod(s) of %s/", t.namespace),
		ContainSubstring("takes cards back for 1 pod(s): 4 pod(s) of %s/", t.namespace),
	))
}

// One pod of the younger gang is protected, so that all of them are.
func aGangWithAProtectedPodStays(t *tide) {
	guarded := t.trainer("guarded", 4)
	worker := guarded.Spec.Tasks[0]
	leader := *worker.DeepCopy()
	leader.Name, leader.Replicas, worker.Replicas = "leader", 1, 3
	leader.Template.Annotations[v1beta1.PodPreemptable] = "false"
	guarded.Spec.Tasks = []batchv1alpha1.TaskSpec{leader, worker}
	t.startOneAfterTheOther(t.trainer("open", 4), guarded)
	t.wantTaken("open", "guarded")
	t.scale("service", 5)
	left := t.alive("guarded")
	t.wantPods(map[string]string{"service": pods(4, 1), "open": pods(0, 4)})
	t.stay(left)
}

// willing is a training job that goes on with fewer pods.
func (t *tide) willing(name string, pods, least int) *batchv1alpha1.Job {
	job := t.trainer(name, pods)
	job.Spec.MinAvailable, job.Spec.Policies = int32(least), nil
	return job
}

// A Deployment and a job have pods to spare; they go, one after the other,
// before anything is broken.
func elasticPodsGoFirst(t *tide) {
	t.quotas(8)
	t.trains("web", 2)
	t.start(t.willing("willing", 4, 2))
	t.start(t.trainer("gang", 2))
	gang := t.alive("gang")
	t.serves("service", 3)
	t.wantPods(map[string]string{"service": pods(3, 0), "web": pods(1, 1), "willing": pods(2, 2)})
	t.stay(gang)
	t.wantJob("willing", batchv1alpha1.Running)
	t.scale("service", 4) // the last pod of the Deployment is less than two of a gang
	t.wantPods(map[string]string{"service": pods(4, 0), "web": pods(0, 2), "willing": pods(2, 2)})
	t.stay(gang)
	t.scale("service", 0)
	t.wantPods(map[string]string{"web": pods(2, 0), "willing": pods(4, 0)})
	t.stay(gang)
}

// wantJob checks a job's phase, and that no retry of it was counted.
func (t *tide) wantJob(name string, phase batchv1alpha1.JobPhase) {
	t.Helper()
	t.wantPhase(name, phase)
	t.Expect(t.job(name).Status.RetryCount).To(BeZero(), name)
}

// The job could go on with two of its pods, but its own policy would restart
// all of them as soon as one goes.
func aJobThatRestartsIsTakenWhole(t *tide) {
	t.quotas(8)
	t.fill(4)
	job := t.willing("job", 4, 2)
	job.Spec.Policies = []batchv1alpha1.LifecyclePolicy{{Event: v1alpha1.PodEvictedEvent, Action: v1alpha1.RestartJobAction}}
	t.start(job)
	before := t.alive("job")
	t.serves("service", 1)
	t.wantPods(map[string]string{"service": pods(1, 0), "job": pods(3, 1)}) // it starts again on what is left
	t.Expect(t.survivors(before)).To(BeZero())
	t.wantJob("job", batchv1alpha1.Running)
}

// Of three workers two can go, and the leader cannot.
func everyTaskKeepsItsMinimum(t *tide) {
	t.quotas(8)
	t.fill(4)
	job := t.willing("job", 3, 2)
	worker := job.Spec.Tasks[0]
	leader := *worker.DeepCopy()
	leader.Name, leader.Replicas = "leader", 1
	leader.MinAvailable, worker.MinAvailable = ptr.To[int32](1), ptr.To[int32](1)
	job.Spec.Tasks = []batchv1alpha1.TaskSpec{worker, leader}
	t.start(job)
	leaders := t.ofTask("job", "leader")
	t.serves("service", 2)
	t.wantPods(map[string]string{"service": pods(2, 0), "job": pods(2, 2)})
	t.Expect(t.ofTask("job", "worker")).To(HaveLen(1))
	t.Expect(t.ofTask("job", "leader")).To(Equal(leaders))
	t.wantJob("job", batchv1alpha1.Running)
}
