//go:build !windows

package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const h200 = "NVIDIA-H200"

// shippedConf is the configuration that the operator renders from Volcano's.
const shippedConf = "../../schedulerconfig/testdata/render/installer_1_14/rendered.conf"

// newClusterWithOneFullNode has the nodes h200-0 and h200-1 of 8 cards each. Queue research of training has a quota of
// 16. Its gang train, 2 pods of 4 cards, has used node h200-0 for an hour. Queue chat of inference has a quota of 12.
func newClusterWithOneFullNode() *simulation.Cluster {
	c := &simulation.Cluster{
		Namespaces: []*corev1.Namespace{builder.Namespace("lab")},
		Schedulers: []string{"volcano"},
		Nodes:      []*corev1.Node{newNode("h200-0", 8), newNode("h200-1", 8)},
		Queues: []*v1beta1.Queue{
			builder.Queue("root").Obj(), builder.Queue("default").Obj(),
			builder.Queue("chat").Quota(`{"NVIDIA-H200":12}`).ServiceType("inference").Capability("100", "1Ti").Priority(80000).Obj(),
			builder.Queue("research").Quota(`{"NVIDIA-H200":16}`).ServiceType("training").Capability("100", "1Ti").Priority(20000).Obj(),
		},
		PriorityClasses: []*schedulingv1.PriorityClass{builder.PriorityClass("high", 1000)},
	}
	c.Queues[2].Spec.Reclaimable = ptr.To(false)
	c.Queues[3].Spec.Reclaimable = ptr.To(true)
	addRunningGang(c, "research", "train", "h200-0", 2, 4)

	return c
}

func newNode(name string, cards int) *corev1.Node {
	return builder.Node(name).GPUs(h200, cards).Label(corev1.LabelHostname, name).Obj()
}

// newPod is a pod of the scheduler with cards.
func newPod(name string, cards int) *builder.PodBuilder {
	return builder.Pod("lab", name).Scheduler("volcano").GPUs(cards).CPU("1").Memory("1Gi").Card(h200)
}

// addRunningGang adds a Volcano job that runs on one node since an hour: so many pods of so many cards.
func addRunningGang(c *simulation.Cluster, queue, name, node string, pods int32, cards int) {
	job := builder.Gang("lab", name, pods, newPod(name, cards)).Queue(queue).Obj()
	made := workloadsOf(c, unstructuredOf(job))
	made[0].Group.Status.Phase = v1beta1.PodGroupRunning
	c.Jobs = append(c.Jobs, job)
	c.PodGroups = append(c.PodGroups, made[0].Group)
	for _, pod := range made[0].Pods {
		pod.Spec.NodeName = node
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
		c.Pods = append(c.Pods, pod)
	}
}

func unstructuredOf(object any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	utilruntime.Must(err)
	out := &unstructured.Unstructured{Object: content}
	switch object.(type) {
	case *batch.Job:
		out.SetGroupVersionKind(batch.SchemeGroupVersion.WithKind("Job"))
	case *corev1.Pod:
		out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	}

	return out
}

// newGang is a new Volcano job of a queue: so many pods of so many cards.
func newGang(name, queue string, pods int32, cards int) *unstructured.Unstructured {
	return unstructuredOf(builder.Gang("lab", name, pods, newPod(name, cards)).Queue(queue).Obj())
}

// workloadsOf returns what new objects of a cluster create, nothing for no objects.
func workloadsOf(c *simulation.Cluster, objects ...*unstructured.Unstructured) []simulation.Workload {
	if len(objects) == 0 {
		return nil
	}
	made, err := simulation.NewWorkloads(c, objects, "lab")
	utilruntime.Must(err)
	return made
}

// readShippedConfiguration returns the configuration of the scheduler that the operator renders.
func readShippedConfiguration(t check.T) string {
	return string(check.Value(os.ReadFile(shippedConf))(t))
}

// simulate runs new objects in a cluster.
func simulate(t *testing.T, c *simulation.Cluster, objects ...*unstructured.Unstructured) simulation.Result {
	return simulateWith(t, readShippedConfiguration(t), c, objects...)
}

// simulateWith runs new objects in a cluster with a configuration.
func simulateWith(t *testing.T, configuration string, c *simulation.Cluster, objects ...*unstructured.Unstructured) simulation.Result {
	result := check.Value(Run(t.Context(), c, workloadsOf(c, objects...), configuration, time.Now()))(t)
	check.That(t, result.IsSettled, "not settled after %d sessions", result.Sessions)
	return result
}

// setQuotaOfResearch sets the quota of queue research for H200. The queue states no deserved cards, which false would keep.
func setQuotaOfResearch(t *testing.T, c *simulation.Cluster, cards card.Count) {
	check.NoError(t, c.SetQuota("research", h200, cards, false))
}

// summarize returns a result in one line: "POD@NODE" for each new pod, without a node for one that waits. Victims
// follow as "- QUEUE/JOB N pods CARDS for RECLAIMER".
func summarize(r simulation.Result) string {
	var words []string
	for _, p := range r.Pods {
		words = append(words, p.Name+"@"+p.Node)
	}
	for _, v := range r.Victims {
		words = append(words, fmt.Sprintf("- %s/%s %d pods %v", v.Queue, v.Workload.Name, v.Pods, v.Cards))
		for _, reclaimer := range v.For {
			words = append(words, "for "+reclaimer.Name)
		}
	}
	return strings.Join(words, " ")
}

// TestRunPlacesWhatFits: node h200-1 has 8 free cards, and queue research has 16 - 8 = 8 left of its quota. So both pods
// of a new gang, of 4 cards each, get a node.
func TestRunPlacesWhatFits(t *testing.T) {
	r := simulate(t, newClusterWithOneFullNode(), newGang("new", "research", 2, 4))
	check.Equal(t, "outcome", "new-worker-0@h200-1 new-worker-1@h200-1", summarize(r))
	check.Equal(t, "cards of the first pod", []card.Amount{{Name: h200, Count: 4}}, r.Pods[0].Cards)
}

// TestRunSaysWhyAPodWaits: queue research uses 8 cards, and its quota is 10. So a new gang of 2 × 4 cards waits as
// a whole, although node h200-1 has 8 free cards. A pod without a node is "pod@" in the outcome. The message of
// its first pod names the queue and the card.
func TestRunSaysWhyAPodWaits(t *testing.T) {
	c := newClusterWithOneFullNode()
	setQuotaOfResearch(t, c, 10)
	r := simulate(t, c, newGang("new", "research", 2, 4))
	check.Equal(t, "outcome", "new-worker-0@ new-worker-1@", summarize(r))
	check.Contains(t, "message", r.Pods[0].Message, "research", h200)
}

// TestRunEvictsAsTheSchedulerDoes: a gang of inference needs 3 × 4 cards, and 8 are free. So it evicts the training gang
// on node h200-0, which loses 8 cards × one hour of work. No card is left for that gang to start again.
func TestRunEvictsAsTheSchedulerDoes(t *testing.T) {
	r := simulate(t, newClusterWithOneFullNode(), newGang("serve", "chat", 3, 4))
	check.Contains(t, "outcome", summarize(r), "- research/train 2 pods map[NVIDIA-H200:8] for serve")
	for _, p := range r.Pods {
		check.That(t, p.Node != "", "%s waits: %s", p.Name, p.Message)
	}

	check.Must(t, len(r.Victims) == 1, "victims %+v", r.Victims)
	check.That(t, r.Victims[0].CardSeconds >= 8*3600 && r.Victims[0].CardSeconds < 8*3700, "the victim loses %d card-seconds, want about 8 × 3600", r.Victims[0].CardSeconds)
	check.Equal(t, "pods of the victim that start again", 0, r.Victims[0].Restarted)
}

// TestRunIsRepeatable: two simulations on one snapshot, in which an inference gang evicts a training gang, have the same
// answer. They do not change the first pod, node and PodGroup of the snapshot.
func TestRunIsRepeatable(t *testing.T) {
	c := newClusterWithOneFullNode()
	before := fmt.Sprint(c.Pods[0], c.Nodes[0], c.PodGroups[0])
	first := summarize(simulate(t, c, newGang("serve", "chat", 3, 4)))
	check.Equal(t, "second outcome", first, summarize(simulate(t, c, newGang("serve", "chat", 3, 4))))
	check.Equal(t, "snapshot", before, fmt.Sprint(c.Pods[0], c.Nodes[0], c.PodGroups[0]))
}

// TestRunEvictsNothingWithAnAddedNode: a gang of inference needs 3 × 4 cards. 8 are free, and a third node adds 8. So
// the gang needs no card of the training gang.
func TestRunEvictsNothingWithAnAddedNode(t *testing.T) {
	c := newClusterWithOneFullNode()
	check.NoError(t, c.AddNodes(1, h200))
	check.Equal(t, "victims", 0, len(simulate(t, c, newGang("serve", "chat", 3, 4)).Victims))
}

// TestRunPlacesDrainedPodsOnOtherNodes: after a drain of node h200-0 the node h200-1 has 8 cards for two jobs: the
// drained gang of 2 × 4 cards, and a new pod of 8. One of them runs there, and the result says of each drained pod that
// waits why.
func TestRunPlacesDrainedPodsOnOtherNodes(t *testing.T) {
	c := newClusterWithOneFullNode()
	check.NoError(t, c.Drain("h200-0"))
	r := simulate(t, c, newGang("new", "research", 1, 8))
	check.Equal(t, "drained pods", 2, r.DrainedPods)
	check.Equal(t, "drained pods that wait", 2-r.DrainedPlaced, len(r.DrainedWaiting))

	isDrainedGangPlaced := r.DrainedPlaced == 2 && r.Pods[0].Node == ""
	isNewPodPlaced := r.DrainedPlaced == 0 && r.Pods[0].Node == "h200-1"
	check.That(t, isDrainedGangPlaced || isNewPodPlaced, "not exactly one of the two jobs runs: %+v", r)
	for _, p := range r.DrainedWaiting {
		check.That(t, p.Reason != "" && p.Reason != v1alpha1.BlockedOther, "%s waits for %s: %s", p.Name, p.Reason, p.Message)
	}
}

// TestRunSaysWhatADrainCosts: the nodes h200-0 and h200-1 are drained, and node h200-2 is free. The gang train loses 8
// cards × one hour, and both its pods start again on h200-2. The pod alone, of 2 cards and without a controller, ends
// for good, and loses the minute since its checkpoint. The pod web uses no cards, so it is no victim, but ends as well.
func TestRunSaysWhatADrainCosts(t *testing.T) {
	c := newClusterWithOneFullNode()
	aMinuteAgo := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	alone := newPod("alone", 2).Queue("research").Running("h200-1").Annotation(v1alpha1.AnnotationCheckpointTime, aMinuteAgo).Obj()
	alone.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
	c.Pods = append(c.Pods, alone, builder.Pod("lab", "web").Scheduler("volcano").CPU("1").Running("h200-1").Obj())
	c.Nodes = append(c.Nodes, newNode("h200-2", 8))
	check.NoError(t, c.Drain("h200-0"))
	check.NoError(t, c.Drain("h200-1"))

	r := simulate(t, c)
	check.Equal(t, "outcome", "- research/train 2 pods map[NVIDIA-H200:8] - research/alone 1 pods map[NVIDIA-H200:2]", summarize(r))
	// Those that need a new node (both of train), that got one, and that ended for good (alone and web).
	check.Equal(t, "drained, placed again, and ended pods", []int{2, 2, 2}, []int{r.DrainedPods, r.DrainedPlaced, r.DrainedEnded})
	for i, want := range []struct {
		restarted   int
		cardSeconds int64
		tolerance   int64 // for the time that the test takes
	}{{restarted: 2, cardSeconds: 8 * 3600, tolerance: 800}, {restarted: 0, cardSeconds: 2 * 60, tolerance: 120}} {
		victim := r.Victims[i]
		check.That(t, victim.IsDrained, "%s is not drained", victim.Workload.Name)
		check.Equal(t, "pods that start again", want.restarted, victim.Restarted)
		check.That(t, victim.CardSeconds >= want.cardSeconds && victim.CardSeconds < want.cardSeconds+want.tolerance,
			"%s loses %d card-seconds, want about %d", victim.Workload.Name, victim.CardSeconds, want.cardSeconds)
	}
}

// endingContext ends after so many calls of Err.
type endingContext struct {
	context.Context
	callsLeft *int
}

func (c endingContext) Err() error {
	*c.callsLeft--
	if *c.callsLeft < 0 {
		return context.Canceled
	}
	return nil
}

// TestRunEndsWithItsContext: a simulation asks its context again and again whether the user has cancelled it. The test
// runs one simulation after the other. The context of the first one is cancelled at the first question, that of the
// second one at the second question, and so on. Each returns an error and no pods, until one is not cancelled before it
// has finished. Its answer is right, so the cancelled ones left nothing behind. It asked more than three times per pod,
// so a user does not wait long after a cancellation.
func TestRunEndsWithItsContext(t *testing.T) {
	configuration := readShippedConfiguration(t)
	c := newClusterWithOneFullNode()
	workloads := workloadsOf(c, newGang("serve", "chat", 3, 4))

	for calls := 0; ; calls++ {
		callsLeft := calls
		r, err := Run(endingContext{t.Context(), &callsLeft}, c, workloads, configuration, time.Now())
		if err == nil {
			check.Contains(t, "outcome", summarize(r), "- research/train 2 pods map[NVIDIA-H200:8] for serve")
			check.That(t, calls > 3*len(r.Pods), "the simulation asked its context only %d times", calls)
			return
		}

		check.That(t, errors.Is(err, context.Canceled), "error %v", err)
		check.Equal(t, "pods in the result", 0, len(r.Pods))
	}
}

// TestRunRefusesAConfigurationWithoutThePlugin: without the plugin capacity-card no quota of cards is enforced, so the
// answer would not be that of this project's scheduler. The error names the plugin.
func TestRunRefusesAConfigurationWithoutThePlugin(t *testing.T) {
	_, err := Run(t.Context(), newClusterWithOneFullNode(), nil, "actions: \"allocate\"\ntiers: []\n", time.Now())
	check.Says(t, err, "capacity-card")
}

// TestASimulationAddsNoFlagsToTheProgram: Volcano's cache sets Volcano's options, which adds their flags to those of the
// program. The simulator prevents that, so that the help of kubectl cardquota does not list them after a simulation. The
// options have Volcano's defaults all the same, such as the default queue.
func TestASimulationAddsNoFlagsToTheProgram(t *testing.T) {
	simulate(t, newClusterWithOneFullNode(), newGang("new", "research", 2, 4))
	check.That(t, pflag.CommandLine.Lookup("node-selector") == nil, "the program has Volcano's flag --node-selector")
	check.Equal(t, "default queue", "default", options.ServerOpts.DefaultQueue)
}

// TestAllPodsMayBePlacedAtOnce: Volcano's cache passes placements on through a channel, and blocks for ever if that is
// full. A waiting job of the cluster and a new one have the largest number of pods each (MaxPods). The channel has a
// place for every pod.
func TestAllPodsMayBePlacedAtOnce(t *testing.T) {
	c := newClusterWithOneFullNode()
	waiting := builder.Gang("lab", "waiting", simulation.MaxPods, newPod("waiting", 1)).Queue("research").Obj()
	c.Jobs = append(c.Jobs, waiting)
	simulated := newSimulatedCluster(c, workloadsOf(c, newGang("new", "research", simulation.MaxPods, 1)), time.Now())
	pods := len(simulated.pods)
	for _, later := range simulated.uncreated {
		pods += len(later.Pods)
	}

	check.That(t, pods >= 2*simulation.MaxPods, "the cluster has only %d pods", pods)
	check.That(t, cap(simulated.cache.BindFlowChannel) >= pods, "the channel has %d places for %d pods", cap(simulated.cache.BindFlowChannel), pods)
}
