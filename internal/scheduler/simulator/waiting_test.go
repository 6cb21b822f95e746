//go:build !windows

package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// reasons are those of the pods, "" for one that runs.
func reasons(r simulation.Result) string {
	var words []string
	for _, p := range r.Pods {
		words = append(words, fmt.Sprintf("%s=%s", p.Name, p.Reason))
	}
	return strings.Join(words, " ")
}

func TestRunNamesTheReason(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*testing.T, *simulation.Cluster)
		object *unstructured.Unstructured
		want   string
	}{
		"quota":        {func(t *testing.T, c *simulation.Cluster) { check.NoError(t, c.SetQuota("research", h200, 10, false)) }, gang("new", "research", 2, 4), "new-worker-0=QuotaExhausted new-worker-1=QuotaExhausted"},
		"no quota":     {func(*testing.T, *simulation.Cluster) {}, gang("new", "default", 1, 1), "new-worker-0=NoQuota"},
		"no free card": {func(t *testing.T, c *simulation.Cluster) { check.NoError(t, c.SetQuota("research", h200, 40, false)) }, gang("new", "research", 1, 9), "new-worker-0=NoFreeCard"},
		"fragmented": {func(t *testing.T, c *simulation.Cluster) {
			check.NoError(t, c.SetQuota("research", h200, 40, false))
			addRunningGang(c, "more", "h200-1", 1, 5)
			c.Nodes = append(c.Nodes, builder.Node("h200-2").GPUs(h200, 2).Obj())
		}, gang("new", "research", 1, 4), "new-worker-0=Fragmented"},
		"runs": {func(*testing.T, *simulation.Cluster) {}, gang("new", "research", 1, 1), "new-worker-0="},
	}) {
		c := newCluster()

		tc.change(t, c)
		check.Equal(t, "reasons", tc.want, reasons(simulate(t, c, tc.object)))
	}
}

// addWaitingJob adds a Volcano job of 2 pods with 4 cards each. It waits without pods since an hour, without
// its PodGroup if isNew.
func addWaitingJob(c *simulation.Cluster, isNew bool) {
	job := builder.Gang("lab", "z-older", 2, builder.Pod("lab", "z-older").Scheduler("volcano").GPUs(4).CPU("1").Memory("1Gi").Card(h200)).Queue("research").Obj()
	made := workloadsOf(c, unstructuredOf(job))
	job.UID = made[0].Job.UID
	c.Jobs = append(c.Jobs, job)
	if isNew {
		return
	}

	made[0].Group.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	c.PodGroups = append(c.PodGroups, made[0].Group)
}

// TestRunServesWhatWaitsFirst: a job of the cluster that has no pods yet, or not even a PodGroup, is
// older than the new ones.
func TestRunServesWhatWaitsFirst(t *testing.T) {
	for _, isNew := range []bool{false, true} {
		c := newCluster()
		addWaitingJob(c, isNew)
		r := simulate(t, c, gang("a-newer", "research", 2, 4))
		check.Equal(t, "outcome", "a-newer-worker-0@ a-newer-worker-1@", summary(r))
		check.That(t, r.OthersPlaced == 2, "%d pods of the older job run", r.OthersPlaced)
	}
}

// TestRunLeavesOutFinishedJobs: they get no pods.
func TestRunLeavesOutFinishedJobs(t *testing.T) {
	c := newCluster()
	addWaitingJob(c, true)
	c.Jobs[len(c.Jobs)-1].Status.State.Phase = batch.Aborted
	check.Equal(t, "outcome", "a-newer-worker-0@h200-1 a-newer-worker-1@h200-1", summary(simulate(t, c, gang("a-newer", "research", 2, 4))))
}

// TestRunIgnoresPodsOfOtherSchedulers: a pod that waits for another scheduler takes nothing.
func TestRunIgnoresPodsOfOtherSchedulers(t *testing.T) {
	for scheduler, want := range map[string]int{"default-scheduler": 0, "second": 1} {
		c := newCluster()
		c.Schedulers = []string{"volcano", "second"}
		group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"}, Spec: v1beta1.PodGroupSpec{Queue: "research", MinMember: 1}}
		group.Status.Phase = v1beta1.PodGroupInqueue
		c.PodGroups = append(c.PodGroups, group)
		c.Pods = append(c.Pods, builder.Pod("lab", "foreign").Scheduler(scheduler).GPUs(4).CPU("1").Memory("1Gi").Card(h200).PodGroup("g").Obj())
		r := simulate(t, c, gang("new", "research", 1, 4))
		check.That(t, r.OthersPlaced == want && r.Pods[0].Node == "h200-1", "%s: %d other pods are placed, %+v", scheduler, r.OthersPlaced, r.Pods)
	}
}

// TestRunCreatesPodsOfAStatefulSetInOrder: with a minimum of two pods none runs, because the second one is
// created after the first one runs.
func TestRunCreatesPodsOfAStatefulSetInOrder(t *testing.T) {
	for text, want := range map[string]string{
		"":                "x-0@h200-1 x-1@h200-1",
		"least":           "x-0@ x-1@",
		"Parallel, least": "x-0@h200-1 x-1@h200-1",
	} {
		set := &unstructured.Unstructured{}
		check.NoError(t, yaml.Unmarshal([]byte(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x, namespace: lab}
spec:
  replicas: 2
  template:
    metadata: {annotations: {scheduling.volcano.sh/queue-name: research, volcano.sh/card.name: NVIDIA-H200}}
    spec:
      schedulerName: volcano
      containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 2, cpu: 1, memory: 1Gi}}}]
`), &set.Object))

		if strings.Contains(text, "least") {
			set.SetAnnotations(map[string]string{v1beta1.VolcanoGroupMinMemberAnnotationKey: "2"})
		}
		if strings.Contains(text, "Parallel") {
			check.NoError(t, unstructured.SetNestedField(set.Object, "Parallel", "spec", "podManagementPolicy"))
		}

		check.Equal(t, "outcome", want, summary(simulate(t, newCluster(), set)))
	}
}

// TestRunOnAnInconsistentSnapshot: a node that is not Ready, and a pod on a node that is gone, do not
// keep the scheduler from deciding.
func TestRunOnAnInconsistentSnapshot(t *testing.T) {
	c := newCluster()
	broken := builder.Node("h200-2").GPUs(h200, 8).Obj()
	broken.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	broken.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	c.Nodes = append(c.Nodes, broken)
	c.Pods = append(c.Pods, builder.Pod("lab", "lost").Running("gone").Queue("research").GPUs(1).Obj(), builder.Pod("lab", "unready").Running("h200-2").Queue("research").GPUs(1).Obj())
	check.Equal(t, "outcome", "new-worker-0@h200-1", summary(simulate(t, c, gang("new", "research", 1, 4))))
}

// TestRunNamesAMissingQueue: Volcano leaves a job of an unknown queue out without a word.
func TestRunNamesAMissingQueue(t *testing.T) {
	pod := builder.Pod("lab", "alone").Scheduler("volcano").Queue("none").GPUs(1).CPU("1").Memory("1Gi").Card(h200).Obj()
	r := simulate(t, newCluster(), unstructuredOf(pod))
	check.That(t, r.Pods[0].Reason == v1alpha1.BlockedQueueNotFound && strings.Contains(r.Pods[0].Message, "<none>"), "%+v", r.Pods)
}

// TestRunSaysThatAPodIsGated: no scheduler places it.
func TestRunSaysThatAPodIsGated(t *testing.T) {
	pod := builder.Pod("lab", "gated").Scheduler("volcano").Queue("research").GPUs(1).CPU("1").Memory("1Gi").Card(h200).Obj()
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	r := simulate(t, newCluster(), unstructuredOf(pod))
	check.That(t, r.Pods[0].Node == "" && strings.Contains(r.Pods[0].Message, "scheduling gates"), "%+v", r.Pods)
}

// TestRunPreempts: with the action preempt a pod of higher priority takes the place of another one in its
// queue.
func TestRunPreempts(t *testing.T) {
	c := newCluster()
	check.NoError(t, c.SetQuota("research", h200, 8, false))
	c.Jobs[0].Spec.Policies = nil
	c.Jobs[0].Spec.MinAvailable = 1
	c.PodGroups[0].Spec.MinMember = 1
	c.PodGroups[0].Spec.MinTaskMember = nil

	object := gang("urgent", "research", 1, 4)
	check.NoError(t, unstructured.SetNestedField(object.Object, "high", "spec", "priorityClassName"))
	preempting := strings.NewReplacer("cardreclaim\"", "cardreclaim, preempt\"", "name: priority", "name: priority\n        enablePreemptable: false",
		"name: conformance", "name: conformance\n        enablePreemptable: false").Replace(shipped(t))

	check.Contains(t, "outcome", summary(simulateWith(t, preempting, c, object)), "- research/train 1 pods map[NVIDIA-H200:4] for urgent", "urgent-worker-0@h200-0")
}

// TestRunNamesTheOtherWorkloads: those of the cluster that start, and without new workloads those that
// still wait.
func TestRunNamesTheOtherWorkloads(t *testing.T) {
	c := newCluster()
	addWaitingJob(c, false)

	r := simulate(t, c)
	check.Must(t, len(r.Others) == 1, "others %+v", r.Others)
	check.Equal(t, "name, queue and pods", "z-older research 2", fmt.Sprint(r.Others[0].Workload.Name, " ", r.Others[0].Queue, " ", r.Others[0].Pods))
	check.Equal(t, "cards", map[card.Name]card.Count{h200: 8}, r.Others[0].Cards)
	check.That(t, len(r.Waiting) == 0, "waiting %+v", r.Waiting)

	c = newCluster()
	check.NoError(t, c.SetQuota("research", h200, 0, false))
	addWaitingJob(c, false)

	r = simulate(t, c)
	check.That(t, len(r.Others) == 0 && len(r.Waiting) == 1, "others %+v, waiting %+v", r.Others, r.Waiting)
	check.Equal(t, "queue and reason", "research NoQuota", r.Waiting[0].Queue+" "+string(r.Waiting[0].Reason))
}
