package e2e

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// startEvictingCluster starts a cluster of two nodes with eight cards each, whose scheduler runs
// preempt and reclaim.
func startEvictingCluster(t *testing.T) *testCluster {
	nodes := []cluster.NodeProfile{nodeProfile("h200", h200, 1, "8"), nodeProfile("h800", h800, 1, "8")}
	// Pods of a Deployment above its minimum of one reclaim cards too.
	return startReclaimingCluster(t, nodes, "preempt, reclaim", "- name: gang\n", "- name: gang\n        enableJobStarving: false\n")
}

// nodeProfile returns nodes with a number of a card.
func nodeProfile(name, card string, nodes int, cards string) cluster.NodeProfile {
	return cluster.NodeProfile{
		Name: name, Count: nodes,
		Labels:      map[string]string{"nvidia.com/gpu.product": card, "nvidia.com/gpu.memory": "81559"},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "nvidia.com/gpu": resource.MustParse(cards)},
	}
}

// deploymentInClass returns a Deployment of a priority class.
func (s *scene) deploymentInClass(class string, w podSet) client.Object {
	d := s.deploymentOf(w)
	d.Spec.Template.Spec.PriorityClassName = class
	return d
}

// preemptsBetweenJobs: a queue with a quota of 4 is full of pods of low priority. A job of 2 pods of high priority
// preempts 2, and a pod of equal priority none. Pods of another queue fill the node. One of them waits longer and
// has quota, but what was freed for the job is not for it.
func preemptsBetweenJobs(s *scene) {
	s.createQuota("jobs", cardList(h200, 4))
	s.createQuota("jobs-others", cardList(h200, 8))
	s.createObjects(s.deploymentInClass("pc-low", podSet{name: "low", queue: "jobs", card: h200, count: 1, pods: 4}))
	s.wantRunningAndWaiting("low", 4, 0)
	s.createObjects(s.deploymentInClass("pc-low", podSet{name: "others", queue: "jobs-others", card: h200, count: 1, pods: 5}))
	s.createObjects(s.deploymentInClass("pc-low", podSet{name: "equal", queue: "jobs", card: h200, count: 1, pods: 1}))
	s.wantPods(map[string]string{"low": runningAndWaiting(4, 0), "equal": runningAndWaiting(0, 1), "others": runningAndWaiting(4, 1)})

	high := s.newVCJob(podSet{name: "high", queue: "jobs", card: h200, count: 1, pods: 2, gang: 2})
	high.Spec.PriorityClassName = "pc-high"
	high.Spec.Policies = nil
	s.createObjects(high)
	s.wantPods(map[string]string{"low": runningAndWaiting(2, 2), "equal": runningAndWaiting(0, 1), "high": runningAndWaiting(2, 0), "others": runningAndWaiting(4, 1)})
}

// preemptsOnTheScarceCard: the pod of high priority accepts H800 or H200, 2 cards. Its queue has quota for either,
// but the nodes with H800 are full of another queue's pods. So it preempts 2 pods of its own queue on H200, where
// the quota of 4 is used.
func preemptsOnTheScarceCard(s *scene) {
	s.createQuota("cards", cardList(h200, 4, h800, 2))
	s.createQuota("cards-others", cardList(h800, 8))
	s.createObjects(s.deploymentOf(podSet{name: "others", queue: "cards-others", card: h800, count: 1, pods: 8}))
	s.createObjects(s.deploymentInClass("pc-low", podSet{name: "low", queue: "cards", card: h200, count: 1, pods: 4}))
	s.wantPods(map[string]string{"others": runningAndWaiting(8, 0), "low": runningAndWaiting(4, 0)})
	s.createObjects(s.deploymentInClass("pc-high", podSet{name: "high", queue: "cards", card: h800 + "|" + h200, count: 2, pods: 1}))
	s.wantPods(map[string]string{"others": runningAndWaiting(8, 0), "low": runningAndWaiting(2, 2), "high": runningAndWaiting(1, 0)})
	s.wantNodes("high", "h200")
}

// preemptsBetweenPods: inside a job, a pod of a task with PriorityClass pc-high preempts a pod of a task with pc-low.
func preemptsBetweenPods(s *scene) {
	s.preemptInsideJob("pods", func(template *corev1.PodTemplateSpec, class, _ string) { template.Spec.PriorityClassName = class })
}

// preemptsByTaskPriority: annotation volcano.sh/task-priority has the same effect as a PriorityClass.
func preemptsByTaskPriority(s *scene) {
	s.preemptInsideJob("task-priority", func(template *corev1.PodTemplateSpec, _, priority string) {
		template.Annotations["volcano.sh/task-priority"] = priority
	})
}

// preemptInsideJob creates a job of 2 workers and 1 leader that uses up the quota of 3, and then asks for a second
// leader. prefer gives the leaders the higher priority. So the new leader preempts a worker: the job then has 1
// worker and 2 leaders, and Volcano counts no retry.
func (s *scene) preemptInsideJob(queue string, prefer func(template *corev1.PodTemplateSpec, class, priority string)) {
	s.createQuota(queue, cardList(h200, 3))
	job := s.newVCJob(podSet{name: "job", queue: queue, card: h200, count: 1, pods: 2})
	job.Spec.Policies = nil
	workers := job.Spec.Tasks[0]
	leaders := *workers.DeepCopy()
	leaders.Name = "leader"
	leaders.Replicas = 1

	prefer(&workers.Template, "pc-low", "1")
	prefer(&leaders.Template, "pc-high", "10")
	job.Spec.Tasks = []batchv1alpha1.TaskSpec{workers, leaders}
	s.createObjects(job)
	s.wantRunningAndWaiting("job", 3, 0)

	// A second leader; the quota of three is used up.
	live := s.readJob("job")
	before := live.DeepCopy()
	live.Spec.Tasks[1].Replicas = 2
	s.Expect(s.Patch(s.ctx, live, client.MergeFrom(before))).To(Succeed())
	ofTask := func() any {
		return map[string]int{"worker": len(s.runningOfTask("job", "worker")), "leader": len(s.runningOfTask("job", "leader"))}
	}

	s.waitUntilStable(ofTask, map[string]int{"worker": 1, "leader": 2})
	s.Expect(s.readJob("job").Status.RetryCount).To(BeZero())
}

// startPolicyCluster starts a cluster of eight cards on each of two nodes, whose
// ServiceTypePolicy enables preempt.
func startPolicyCluster(t *testing.T) *testCluster {
	g := NewWithT(check.Trail(t))
	configuration := check.Value(deployment.ShippedConfiguration())(t)

	st := startTestCluster(t, []cluster.NodeProfile{nodeProfile("h200", h200, 2, "8")}, configuration)
	g.Expect(st.deployment.StartManager(t.Context())).To(Succeed())
	g.Expect(st.deployment.StartScheduler(t.Context())).To(Succeed())

	policy := &api.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: api.PolicyName}, Spec: api.ServiceTypePolicySpec{Preempt: api.PreemptInQueue}}
	g.Expect(st.Create(t.Context(), policy)).To(Succeed())
	g.Eventually(func() (bool, error) {
		err := st.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
		return meta.IsStatusConditionTrue(policy.Status.Conditions, api.ConditionReady), err
	}, soon, often).Should(BeTrue())

	return st
}

// gangsSurvivePreemption: a gang of 10 pods of low priority on two nodes is preempted as a whole for two pods of
// high priority, because it cannot run with 8. Once these are deleted it runs again. That happens 4 times, more often
// than the 3 retries that Volcano allows a job. So none of the evictions may count as a retry. The 6 pods of Deployment
// other have the high priority and stay.
func gangsSurvivePreemption(s *scene) {
	s.createQuota("gangs", cardList(h200, 16))
	s.createObjects(s.deploymentInClass("pc-high", podSet{name: "other", queue: "gangs", card: h200, count: 1, pods: 6}))
	s.wantRunningAndWaiting("other", 6, 0)
	low := s.newVCJob(podSet{name: "low", queue: "gangs", card: h200, count: 1, pods: 10, gang: 10})
	low.Spec.PriorityClassName = "pc-low"
	low.Spec.Policies = []batchv1alpha1.LifecyclePolicy{
		{Events: []v1alpha1.Event{v1alpha1.PodEvictedEvent, v1alpha1.PodFailedEvent}, Action: v1alpha1.RestartJobAction},
		{Event: v1alpha1.TaskCompletedEvent, Action: v1alpha1.CompleteJobAction},
	}

	s.createObjects(low)
	s.wantRunningAndWaiting("low", 10, 0)
	for round := range 4 {
		name := fmt.Sprintf("high-%d", round)
		high := s.newVCJob(podSet{name: name, queue: "gangs", card: h200, count: 1, pods: 2, gang: 2})
		high.Spec.PriorityClassName = "pc-high"
		high.Spec.Policies = nil
		s.createObjects(high)
		s.wantPods(map[string]string{name: runningAndWaiting(2, 0), "low": runningAndWaiting(0, 10), "other": runningAndWaiting(6, 0)})
		s.Expect(s.Delete(s.ctx, high, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		s.wantPods(map[string]string{"low": runningAndWaiting(10, 0), "other": runningAndWaiting(6, 0)})
		s.wantPhase("low", batchv1alpha1.Running)
		s.Expect(s.readJob("low").Status.RetryCount).To(BeZero())
	}
}

// drainedGangsReturn: a gang has two pods on two nodes. One node is drained and comes back. A pod of another queue
// waits longer for that node, but the gang has a node on which it cannot work alone, so it gets the other one back.
func drainedGangsReturn(s *scene) {
	s.createQuota("drained", cardList(h200, 16))
	s.createQuota("drained-others", cardList(h200, 8))
	gang := s.newVCJob(podSet{name: "gang", queue: "drained", card: h200, count: 8, pods: 2, gang: 2})
	gang.Spec.Policies = nil
	s.createObjects(gang)
	s.wantRunningAndWaiting("gang", 2, 0)

	lost := s.podsOf("gang")[0]
	node := builder.Node(lost.Spec.NodeName).Obj()
	s.mergePatch(node, `{"spec":{"unschedulable":true}}`)
	s.Cleanup(func() { // the next scene has the same nodes
		uncordon := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`))
		s.Expect(s.Patch(context.WithoutCancel(s.ctx), node, uncordon)).To(Succeed())
	})

	s.createPods(podSet{name: "other", queue: "drained-others", card: h200, count: 8, pods: 1})
	s.wantPods(map[string]string{"gang": runningAndWaiting(2, 0), "other": runningAndWaiting(0, 1)})
	s.Expect(s.Delete(s.ctx, &lost)).To(Succeed())
	s.wantPods(map[string]string{"gang": runningAndWaiting(1, 1), "other": runningAndWaiting(0, 1)})
	s.wantBlocked("drained", "runs below its minimum: 1 of 2 pods", "Job/gang")

	s.mergePatch(node, `{"spec":{"unschedulable":null}}`)
	s.wantPods(map[string]string{"gang": runningAndWaiting(2, 0), "other": runningAndWaiting(0, 1)})
	s.wantPhase("gang", batchv1alpha1.Running)
}
