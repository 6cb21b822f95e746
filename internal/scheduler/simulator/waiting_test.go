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

// TestRunNamesTheReasonOfEachPod: a pod that waits has one of the reasons that the API defines, and a pod that runs has
// none. Node h200-0 is full, h200-1 has 8 free cards. Queue research uses 8 cards.
func TestRunNamesTheReasonOfEachPod(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		queue       string
		pods        int32
		cardsOfAPod int
		// quota is that of queue research. With isFragmented 3 cards are free on node h200-1, and 2 on one more node.
		quota        card.Count
		isFragmented bool
		want         []v1alpha1.BlockedReason
	}{
		"2 pods of 4 cards, the quota leaves 10 - 8 = 2": {queue: "research", pods: 2, cardsOfAPod: 4, quota: 10,
			want: []v1alpha1.BlockedReason{v1alpha1.BlockedQuotaExhausted, v1alpha1.BlockedQuotaExhausted}},
		"queue default has no quota": {queue: "default", pods: 1, cardsOfAPod: 1, quota: 16,
			want: []v1alpha1.BlockedReason{v1alpha1.BlockedNoQuota}},
		"a pod of 9 cards, 8 are free": {queue: "research", pods: 1, cardsOfAPod: 9, quota: 40,
			want: []v1alpha1.BlockedReason{v1alpha1.BlockedNoFreeCard}},
		"a pod of 4 cards, 3 + 2 are free on two nodes": {queue: "research", pods: 1, cardsOfAPod: 4, quota: 40, isFragmented: true,
			want: []v1alpha1.BlockedReason{v1alpha1.BlockedFragmented}},
		"a pod of one card runs": {queue: "research", pods: 1, cardsOfAPod: 1, quota: 16, want: []v1alpha1.BlockedReason{""}},
	}) {
		c := newClusterWithOneFullNode()
		setQuotaOfResearch(t, c, tc.quota)
		if tc.isFragmented {
			addRunningGang(c, "research", "more", "h200-1", 1, 5) // one pod of 5 cards
			c.Nodes = append(c.Nodes, newNode("h200-2", 2))
		}

		var reasons []v1alpha1.BlockedReason
		for _, p := range simulate(t, c, newGang("new", tc.queue, tc.pods, tc.cardsOfAPod)).Pods {
			reasons = append(reasons, p.Reason)
		}
		check.Equal(t, "reasons", tc.want, reasons)
	}
}

// addWaitingJob adds a Volcano job of 2 pods with 4 cards each to queue research. It has no pods yet. With a PodGroup it
// waits since an hour.
func addWaitingJob(c *simulation.Cluster, hasPodGroup bool) {
	job := builder.Gang("lab", "z-older", 2, newPod("z-older", 4)).Queue("research").Obj()
	made := workloadsOf(c, unstructuredOf(job))
	job.UID = made[0].Job.UID
	c.Jobs = append(c.Jobs, job)
	if hasPodGroup {
		made[0].Group.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		c.PodGroups = append(c.PodGroups, made[0].Group)
	}
}

// TestRunServesJobsOfTheClusterFirst: 8 cards are free, for a job of the cluster that waits without pods (z-older), or
// for a new one of the same size (a-newer). The simulation creates new jobs after those of the cluster. So the two pods
// of z-older run, and the new ones wait. A pod without a node is "pod@" in the outcome.
func TestRunServesJobsOfTheClusterFirst(t *testing.T) {
	for t, hasPodGroup := range check.Cases(t, map[string]bool{
		"the older job has a PodGroup":      true,
		"the older job has no PodGroup yet": false,
	}) {
		c := newClusterWithOneFullNode()
		addWaitingJob(c, hasPodGroup)
		r := simulate(t, c, newGang("a-newer", "research", 2, 4))
		check.Equal(t, "outcome", "a-newer-worker-0@ a-newer-worker-1@", summarize(r))
		check.Equal(t, "pods of the older job that run", 2, r.OthersPlaced)
	}
}

// TestRunServesDeservedCardsFirst: the simulation uses the scheduler's own action allocate, not Volcano's. So
// in a tree a queue gets what it deserves before another queue borrows. Queue chat deserves the 8 free cards
// of node h200-1, and its gang of 2 pods gets them. Queue research deserves none. Its job waits, although it
// is older, and its queue has the higher priority.
func TestRunServesDeservedCardsFirst(t *testing.T) {
	c := newClusterWithOneFullNode()
	c.Nodes = c.Nodes[1:] // without the full node
	c.Pods = nil
	c.PodGroups = nil
	c.Jobs = nil
	chat := c.Queues[2]
	research := c.Queues[3]
	for queue, deserved := range map[*v1beta1.Queue]string{chat: `{"NVIDIA-H200":8}`, research: `{"NVIDIA-H200":0}`} {
		queue.Annotations[v1alpha1.AnnotationCardQuota] = `{"NVIDIA-H200":8}`
		queue.Annotations[v1alpha1.AnnotationCardDeserved] = deserved
	}

	research.Spec.Priority = chat.Spec.Priority + 1
	addWaitingJob(c, true) // of queue research, with a PodGroup
	tree := strings.Replace(readShippedConfiguration(t), "cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: true\n          queueHierarchy: Tree", 1)
	r := simulateWith(t, tree, c, newGang("deserving", "chat", 2, 4))
	check.Equal(t, "outcome", "deserving-worker-0@h200-1 deserving-worker-1@h200-1", summarize(r))
}

// TestRunEvictsTheJobsOfADrainedQueue: gang train of queue research runs on 8 cards. The stop policy
// HoldAndDrain of the queue evicts it. The outcome names a victim as "- QUEUE/JOB" with its pods and cards.
func TestRunEvictsTheJobsOfADrainedQueue(t *testing.T) {
	c := newClusterWithOneFullNode()
	c.Queues[3].Annotations[v1alpha1.AnnotationStopPolicy] = "HoldAndDrain" // of queue research
	check.Equal(t, "outcome", "- research/train 2 pods map[NVIDIA-H200:8]", summarize(simulate(t, c)))
}

// TestRunSkipsFinishedJobs: an older job of the cluster, of 2 pods with 4 cards, is aborted. Volcano creates no pods
// for it any more. So both pods of a new job of the same size run on the 8 free cards.
func TestRunSkipsFinishedJobs(t *testing.T) {
	c := newClusterWithOneFullNode()
	addWaitingJob(c, false) // without a PodGroup
	c.Jobs[len(c.Jobs)-1].Status.State.Phase = batch.Aborted
	check.Equal(t, "outcome", "a-newer-worker-0@h200-1 a-newer-worker-1@h200-1", summarize(simulate(t, c, newGang("a-newer", "research", 2, 4))))
}

// TestRunIgnoresPodsOfOtherSchedulers: the scheduler of the cluster serves pods of the schedulerNames volcano and
// second. The simulation places a waiting pod of the cluster, of 4 cards, only if it has one of these names. The new
// pod of 4 cards runs in both cases, because 8 cards are free.
func TestRunIgnoresPodsOfOtherSchedulers(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scheduler  string
		wantPlaced int
	}{
		"the pod names default-scheduler: not placed": {"default-scheduler", 0},
		"the pod names second: placed":                {"second", 1},
	}) {
		c := newClusterWithOneFullNode()
		c.Schedulers = []string{"volcano", "second"}
		c.PodGroups = append(c.PodGroups, builder.PodGroup("lab", "g").Queue("research").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj())
		c.Pods = append(c.Pods, newPod("waiting", 4).Scheduler(tc.scheduler).PodGroup("g").Obj())

		r := simulate(t, c, newGang("new", "research", 1, 4))
		check.Equal(t, "placed pods of the cluster", tc.wantPlaced, r.OthersPlaced)
		check.Equal(t, "outcome", "new-worker-0@h200-1", summarize(r))
	}
}

// TestRunCreatesPodsOfAStatefulSetInOrder: the controller of a StatefulSet creates the second pod after the first
// one runs, unless podManagementPolicy is Parallel. If the PodGroup needs both pods (min-member 2), the first one
// never runs. 8 cards are free for 2 pods of 2 cards. "x-0@" is a pod without a node.
func TestRunCreatesPodsOfAStatefulSetInOrder(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ minMember, podManagementPolicy, want string }{
		"min-member 1: both run":              {"1", "OrderedReady", "x-0@h200-1 x-1@h200-1"},
		"min-member 2: both wait":             {"2", "OrderedReady", "x-0@ x-1@"},
		"min-member 2 and Parallel: both run": {"2", "Parallel", "x-0@h200-1 x-1@h200-1"},
	}) {
		set := &unstructured.Unstructured{}
		check.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x, namespace: lab, annotations: {scheduling.volcano.sh/group-min-member: "%s"}}
spec:
  replicas: 2
  podManagementPolicy: %s
  template:
    metadata: {annotations: {scheduling.volcano.sh/queue-name: research, volcano.sh/card.name: NVIDIA-H200}}
    spec:
      schedulerName: volcano
      containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 2, cpu: 1, memory: 1Gi}}}]
`, tc.minMember, tc.podManagementPolicy), &set.Object))

		check.Equal(t, "outcome", tc.want, summarize(simulate(t, newClusterWithOneFullNode(), set)))
	}
}

// TestRunWorksOnAnInconsistentSnapshot: objects of a snapshot are read one after the other, so a pod may be on a node
// that is not in it. A node that is not Ready has a pod as well. Neither keeps the new pod from node h200-1.
func TestRunWorksOnAnInconsistentSnapshot(t *testing.T) {
	c := newClusterWithOneFullNode()
	notReady := newNode("h200-2", 8)
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	notReady.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	c.Nodes = append(c.Nodes, notReady)
	c.Pods = append(c.Pods,
		builder.Pod("lab", "on-unknown-node").Running("gone").Queue("research").GPUs(1).Obj(),
		builder.Pod("lab", "on-unready-node").Running("h200-2").Queue("research").GPUs(1).Obj())

	check.Equal(t, "outcome", "new-worker-0@h200-1", summarize(simulate(t, c, newGang("new", "research", 1, 4))))
}

// TestRunNamesAMissingQueue: Volcano skips a job of queue none, which does not exist, and gives no reason. The
// simulation gives one, and its message names the queue.
func TestRunNamesAMissingQueue(t *testing.T) {
	r := simulate(t, newClusterWithOneFullNode(), unstructuredOf(newPod("alone", 1).Queue("none").Obj()))
	check.Equal(t, "reason", v1alpha1.BlockedQueueNotFound, r.Pods[0].Reason)
	check.Contains(t, "message", r.Pods[0].Message, "<none>")
}

// TestRunSaysThatAPodIsGated: no scheduler places a pod with a scheduling gate, although 8 cards are free. So the
// outcome is "gated@", without a node, and the message says why.
func TestRunSaysThatAPodIsGated(t *testing.T) {
	pod := newPod("gated", 1).Queue("research").Obj()
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	r := simulate(t, newClusterWithOneFullNode(), unstructuredOf(pod))
	check.Equal(t, "outcome", "gated@", summarize(r))
	check.Contains(t, "message", r.Pods[0].Message, "scheduling gates")
}

// TestRunPreemptsIfTheActionIsConfigured: queue research uses its whole quota of 8. Job train has two pods of 4
// cards and is elastic here. With Volcano's action preempt a new pod of PriorityClass high takes the place of one
// of them.
func TestRunPreemptsIfTheActionIsConfigured(t *testing.T) {
	c := newClusterWithOneFullNode()
	setQuotaOfResearch(t, c, 8)
	c.Jobs[0].Spec.Policies = nil
	c.Jobs[0].Spec.MinAvailable = 1
	c.PodGroups[0].Spec.MinMember = 1
	c.PodGroups[0].Spec.MinTaskMember = nil

	urgent := newGang("urgent", "research", 1, 4)
	check.NoError(t, unstructured.SetNestedField(urgent.Object, "high", "spec", "priorityClassName"))
	// With preempt only capacity-card selects victims, so other plugins need enablePreemptable: false.
	withPreempt := strings.NewReplacer("cardreclaim\"", "cardreclaim, preempt\"", "name: priority", "name: priority\n        enablePreemptable: false",
		"name: conformance", "name: conformance\n        enablePreemptable: false").Replace(readShippedConfiguration(t))

	outcome := summarize(simulateWith(t, withPreempt, c, urgent))
	check.Contains(t, "outcome", outcome, "- research/train 1 pods map[NVIDIA-H200:4] for urgent", "urgent-worker-0@h200-0")
}

// TestRunNamesTheOtherJobs: without new workloads the result names the jobs of the cluster that start, and those that
// wait. Job z-older needs 2 × 4 cards, and 8 are free. It starts within the quota of 16, and waits without a quota.
func TestRunNamesTheOtherJobs(t *testing.T) {
	c := newClusterWithOneFullNode()
	addWaitingJob(c, true) // with a PodGroup
	r := simulate(t, c)
	check.Must(t, len(r.Others) == 1 && len(r.Waiting) == 0, "others %+v, waiting %+v", r.Others, r.Waiting)
	check.Equal(t, "name, queue and pods", "z-older research 2", fmt.Sprint(r.Others[0].Workload.Name, " ", r.Others[0].Queue, " ", r.Others[0].Pods))
	check.Equal(t, "cards", map[card.Name]card.Count{h200: 8}, r.Others[0].Cards)

	c = newClusterWithOneFullNode()
	setQuotaOfResearch(t, c, 0)
	addWaitingJob(c, true) // with a PodGroup
	r = simulate(t, c)
	check.Must(t, len(r.Others) == 0 && len(r.Waiting) == 1, "others %+v, waiting %+v", r.Others, r.Waiting)
	check.Equal(t, "queue and reason", "research NoQuota", r.Waiting[0].Queue+" "+string(r.Waiting[0].Reason))
}
