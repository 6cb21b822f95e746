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
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const h200 = "NVIDIA-H200"

// shippedConf is the configuration that the operator renders from Volcano's.
const shippedConf = "../../schedulerconfig/testdata/render/installer_1_14/rendered.conf"

// newCluster has two nodes of 8 cards. A gang of training has held one of them for an hour, and the
// quota of training is all cards.
func newCluster() *simulation.Cluster {
	c := &simulation.Cluster{
		Namespaces: []*corev1.Namespace{builder.Namespace("lab")},
		Schedulers: []string{"volcano"},
		Nodes:      []*corev1.Node{builder.Node("h200-0").GPUs(h200, 8).Label(corev1.LabelHostname, "h200-0").Obj(), builder.Node("h200-1").GPUs(h200, 8).Label(corev1.LabelHostname, "h200-1").Obj()},
		Queues: []*v1beta1.Queue{
			builder.Queue("root").Obj(), builder.Queue("default").Obj(),
			builder.Queue("chat").Quota(`{"NVIDIA-H200":12}`).ServiceType("inference").Capability("100", "1Ti").Priority(80000).Obj(),
			builder.Queue("research").Quota(`{"NVIDIA-H200":16}`).ServiceType("training").Capability("100", "1Ti").Priority(20000).Obj(),
		},
		PriorityClasses: []*schedulingv1.PriorityClass{builder.PriorityClass("high", 1000)},
	}
	c.Queues[2].Spec.Reclaimable = ptr.To(false)
	c.Queues[3].Spec.Reclaimable = ptr.To(true)
	addRunningGang(c, "train", "h200-0", 2, 4)

	return c
}

// addRunningGang adds a Volcano job of training that runs on one node since an hour.
func addRunningGang(c *simulation.Cluster, name, node string, pods int32, cards int) {
	addGangOf(c, "research", name, node, pods, cards)
}

func addGangOf(c *simulation.Cluster, queue, name, node string, pods int32, cards int) {
	job := builder.Gang("lab", name, pods, builder.Pod("lab", name).Scheduler("volcano").GPUs(cards).CPU("1").Memory("1Gi").Card(h200)).Queue(queue).Obj()
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

// gang is a new Volcano job.
func gang(name, queue string, pods int32, cards int) *unstructured.Unstructured {
	pod := builder.Pod("lab", name).Scheduler("volcano").GPUs(cards).CPU("1").Memory("1Gi").Card(h200)
	return unstructuredOf(builder.Gang("lab", name, pods, pod).Queue(queue).Obj())
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

// shipped returns the configuration that the operator renders.
func shipped(t check.T) string {
	t.Helper()
	return string(check.Value(os.ReadFile(shippedConf))(t))
}

// simulate runs new objects in a cluster.
func simulate(t *testing.T, c *simulation.Cluster, objects ...*unstructured.Unstructured) simulation.Result {
	t.Helper()
	return simulateWith(t, shipped(t), c, objects...)
}

// simulateWith runs new objects in a cluster with a configuration.
func simulateWith(t *testing.T, configuration string, c *simulation.Cluster, objects ...*unstructured.Unstructured) simulation.Result {
	t.Helper()
	result := check.Value(Run(t.Context(), c, workloadsOf(c, objects...), configuration, time.Now()))(t)
	check.That(t, result.IsSettled, "not settled after %d sessions", result.Sessions)
	return result
}

// summary is a result in one line.
func summary(r simulation.Result) string {
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

func TestRunPlacesWhatFits(t *testing.T) {
	r := simulate(t, newCluster(), gang("new", "research", 2, 4))
	check.Equal(t, "outcome", "new-worker-0@h200-1 new-worker-1@h200-1", summary(r))
	check.That(t, r.Pods[0].Cards[0].Name == h200 && r.Pods[0].Cards[0].Count == 4, "holds %v", r.Pods[0].Cards)
}

func TestRunSaysWhyAPodWaits(t *testing.T) {
	c := newCluster()
	check.NoError(t, c.SetQuota("research", h200, 10, false))
	r := simulate(t, c, gang("new", "research", 2, 4))
	check.Equal(t, "outcome", "new-worker-0@ new-worker-1@", summary(r))
	check.Contains(t, "message", r.Pods[0].Message, "research", h200)
}

func TestRunEvictsAsTheSchedulerDoes(t *testing.T) {
	r := simulate(t, newCluster(), gang("serve", "chat", 3, 4))
	check.Contains(t, "outcome", summary(r), "- research/train 2 pods map[NVIDIA-H200:8] for serve")
	for _, p := range r.Pods {
		check.That(t, p.Node != "", "%s waits: %s", p.Name, p.Message)
	}
	check.That(t, len(r.Victims) == 1 && r.Victims[0].CardSeconds >= 8*3600 && r.Victims[0].CardSeconds < 8*3700, "victims %+v", r.Victims)
	check.That(t, r.Victims[0].Restarted == 0, "the victim has no room: %+v", r.Victims[0])
}

// TestRunIsRepeatable: two simulations of one cluster have the same answer, and change nothing in it.
func TestRunIsRepeatable(t *testing.T) {
	c := newCluster()
	before := fmt.Sprint(c.Pods[0], c.Nodes[0], c.PodGroups[0])
	first := summary(simulate(t, c, gang("serve", "chat", 3, 4)))
	check.Equal(t, "second outcome", first, summary(simulate(t, c, gang("serve", "chat", 3, 4))))
	check.Equal(t, "cluster", before, fmt.Sprint(c.Pods[0], c.Nodes[0], c.PodGroups[0]))
}

func TestRunWithAnotherFleet(t *testing.T) {
	c := newCluster()
	check.NoError(t, c.AddNodes(1, h200))
	r := simulate(t, c, gang("serve", "chat", 3, 4))
	check.That(t, len(r.Victims) == 0, "evicts although a node was added: %s", summary(r))

	c = newCluster()
	check.NoError(t, c.Drain("h200-0"))

	r = simulate(t, c, gang("new", "research", 1, 8))
	check.That(t, r.DrainedPods == 2, "%d pods are drained", r.DrainedPods)
	check.That(t, (r.DrainedPlaced == 2 && r.Pods[0].Node == "") || (r.DrainedPlaced == 0 && r.Pods[0].Node == "h200-1"), "one node for two gangs: %+v", r)
	check.That(t, len(r.DrainedWaiting) == 2-r.DrainedPlaced, "%d drained pods wait", len(r.DrainedWaiting))
	for _, p := range r.DrainedWaiting {
		check.That(t, p.Reason != "" && p.Reason != v1alpha1.BlockedOther, "%s waits for %s: %s", p.Name, p.Reason, p.Message)
	}
}

// TestRunNamesWhatADrainCosts: who loses the cards of the node, how much work is lost, and who finds another
// node. Pods without cards are no victims.
func TestRunNamesWhatADrainCosts(t *testing.T) {
	c := newCluster()
	alone := builder.Pod("lab", "alone").Scheduler("volcano").Queue("research").Card(h200).GPUs(2).CPU("1").Memory("1Gi").Running("h200-1").
		Annotation(v1alpha1.AnnotationCheckpointTime, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)).Obj()

	alone.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
	c.Pods = append(c.Pods, alone, builder.Pod("lab", "web").Scheduler("volcano").CPU("1").Running("h200-1").Obj())
	c.Nodes = append(c.Nodes, builder.Node("h200-2").GPUs(h200, 8).Label(corev1.LabelHostname, "h200-2").Obj())
	check.NoError(t, c.Drain("h200-0"))
	check.NoError(t, c.Drain("h200-1"))

	r := simulate(t, c)
	check.Equal(t, "outcome", "- research/train 2 pods map[NVIDIA-H200:8] - research/alone 1 pods map[NVIDIA-H200:2]", summary(r))
	check.That(t, len(r.Victims) == 2 && r.DrainedPods == 2 && r.DrainedPlaced == 2 && r.DrainedEnded == 2, "%+v", r)

	train := r.Victims[0]
	ended := r.Victims[1]
	check.That(t, train.IsDrained && train.Restarted == 2 && train.CardSeconds >= 8*3600 && train.CardSeconds < 8*3700, "%+v", train)
	check.That(t, ended.IsDrained && ended.Restarted == 0 && ended.CardSeconds >= 2*60 && ended.CardSeconds < 2*120, "%+v", ended)
}

// endingContext ends after some questions whether it has ended.
type endingContext struct {
	context.Context
	left *int
}

func (c endingContext) Err() error {
	*c.left--
	if *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRunEndsWithItsContext: whenever it ends, no answer of half a simulation is given, and the next
// simulation is right.
func TestRunEndsWithItsContext(t *testing.T) {
	configuration := shipped(t)
	c := newCluster()
	made := workloadsOf(c, gang("serve", "chat", 3, 4))

	asked := 0
	for left := 0; ; left++ {
		asked = left
		r, err := Run(endingContext{t.Context(), &asked}, c, made, configuration, time.Now())
		if err == nil {
			check.Contains(t, "outcome", summary(r), "- research/train 2 pods map[NVIDIA-H200:8] for serve")
			check.That(t, left > 3*len(r.Pods), "it asks %d times only", left)
			return
		}
		check.That(t, errors.Is(err, context.Canceled) && len(r.Pods) == 0, "error %v, result %+v", err, r)
	}
}

func TestRunRefusesABadConfiguration(t *testing.T) {
	_, err := Run(t.Context(), newCluster(), nil, "actions: \"allocate\"\ntiers: []\n", time.Now())
	check.Says(t, err, "capacity-card")
}

// TestFlagsOfTheProgramStay: other goroutines may read them, for example to start a cluster in a test.
func TestFlagsOfTheProgramStay(t *testing.T) {
	done := make(chan struct{})
	before := pflag.CommandLine
	flags := countFlags()

	go func() {
		defer close(done)
		for range 1000 {
			check.That(t, pflag.CommandLine == before, "the flags of the program are replaced")
		}
	}()

	setOptions()
	<-done
	check.Equal(t, "flags of the program", flags, countFlags())
	check.Equal(t, "default queue", "default", options.ServerOpts.DefaultQueue)
}

func countFlags() (n int) {
	pflag.CommandLine.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// TestAllPodsMayBePlacedAtOnce: Volcano's cache blocks for ever if it cannot pass on a placement, and the
// jobs of the cluster and those of the files may each have the largest number of pods.
func TestAllPodsMayBePlacedAtOnce(t *testing.T) {
	setOptions()
	c := newCluster()
	waits := builder.Gang("lab", "waits", simulation.MaxPods, builder.Pod("lab", "waits").Scheduler("volcano").GPUs(1).CPU("1").Memory("1Gi").Card(h200)).Queue("research").Obj()
	c.Jobs = append(c.Jobs, waits)
	w := newSimulatedCluster(c, workloadsOf(c, gang("new", "research", simulation.MaxPods, 1)), time.Now())
	pods := len(w.pods)
	for _, later := range w.uncreated {
		pods += len(later.Pods)
	}

	check.That(t, pods >= 2*simulation.MaxPods && cap(w.cache.BindFlowChannel) >= pods, "room for %d of %d pods", cap(w.cache.BindFlowChannel), pods)
}
