package simulation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// volcanoJob is a Volcano job of queue q with more lines in its spec, and in its task.
func volcanoJob(spec, task string) string {
	return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec:\n  queue: q\n" + spec + "  tasks:\n  - name: worker\n    replicas: 2\n" + task +
		"    template:\n" + template("      ")
}

// withPolicy is a cluster whose webhook refuses, and sets defaults on jobs of training.
func withPolicy() *Cluster {
	c := newCluster()
	c.Policy = &v1alpha1.ServiceTypePolicy{}
	c.Policy.Spec.Admission = v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassDeny, VCJobEvictionPolicy: v1alpha1.VCJobRestartOnEviction}
	c.Queues[0].Annotations[v1alpha1.AnnotationServiceType] = "training"
	return c
}

func TestAdmissionRefuses(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\n" + strings.Replace(template(""), "metadata: {annotations: {", "metadata: {name: x, annotations: {volcano.sh/card.name: \"NVIDIA-H200|\", ", 1)
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Cluster)
		text   string
		want   string
	}{
		"a wrong card request":  {nil, pod, "the webhook of Cardquota would refuse it: metadata.annotations[volcano.sh/card.name]"},
		"an unknown namespace":  {func(c *Cluster) { c.Namespaces = nil }, volcanoJob("", ""), "there is no namespace lab"},
		"an unknown queue":      {func(c *Cluster) { c.Queues = nil }, volcanoJob("", ""), "the webhook of Volcano would refuse it: there is no queue q"},
		"a closed queue":        {func(c *Cluster) { c.Queues[0].Status.State = v1beta1.QueueStateClosed }, volcanoJob("", ""), "queue q is Closed, not Open"},
		"a queue above others":  {func(c *Cluster) { c.Queues[1].Spec.Parent = "q" }, volcanoJob("", ""), "queue q has queues below it"},
		"a minimum of too many": {nil, volcanoJob("  minAvailable: 3\n", ""), "minAvailable is 3, and its tasks have 2 replicas"},
		"a task's minimum":      {nil, volcanoJob("", "    minAvailable: 3\n"), "minAvailable of task worker is 3"},
		"an order of tasks":     {nil, volcanoJob("", "    dependsOn: {name: [other]}\n"), "leave out dependsOn of task worker"},
		"partitions":            {nil, volcanoJob("", "    partitionPolicy: {totalPartitions: 2, partitionSize: 1}\n"), "leave out partitionPolicy of task worker"},
		"no tasks":              {nil, "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {queue: q}\n", "it has no tasks"},
		"no name":               {nil, strings.Replace(volcanoJob("", ""), "name: x", "labels: {}", 1), "Job without metadata.name"},
		"a PodGroup's queue":    {nil, "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}\nspec: {queue: none}\n", "there is no queue none"},
		"an unknown PodGroup":   {nil, strings.Replace(pod, "volcano.sh/card.name: \"NVIDIA-H200|\", ", "scheduling.k8s.io/group-name: none, ", 1), "names PodGroup none, which does not exist"},
		"a name of any script":  {nil, strings.Replace(strings.Replace(volcanoJob("", ""), "name: x", "name: 訓練", 1), "queue: q", "queue: 研究", 1), "Job lab/訓練: the webhook of Volcano would refuse it: there is no queue 研究"},
	}) {
		c := withPolicy()
		if tc.change != nil {
			tc.change(c)
		}

		_, err := NewWorkloads(c, []*unstructured.Unstructured{parse(t, tc.text)}, "lab")
		check.Refused(t, err, tc.want)
	}
}

// TestAdmissionSetsDefaults: a job of training restarts on evictions, if the policy says so.
func TestAdmissionSetsDefaults(t *testing.T) {
	for _, isSet := range []bool{true, false} {
		c := withPolicy()
		if !isSet {
			c.Policy = nil
		}
		made := check.Value(NewWorkloads(c, []*unstructured.Unstructured{parse(t, volcanoJob("", ""))}, "lab"))(t)
		policies := made[0].Job.Spec.Policies
		check.That(t, isSet == (len(policies) == 1 && policies[0].Event == bus.PodEvictedEvent && policies[0].Action == bus.RestartJobAction), "policies %+v", policies)
	}
}

func TestNewWorkloadsKnowsAllSchedulers(t *testing.T) {
	c := newCluster()
	c.Schedulers = []string{"first", "second"}
	for scheduler, isKnown := range map[string]bool{"first": true, "second": true, "third": false} {
		text := "apiVersion: v1\nkind: Pod\n" + strings.NewReplacer("metadata: {", "metadata: {name: x, ", "schedulerName: volcano", "schedulerName: "+scheduler).Replace(template(""))
		_, err := NewWorkloads(c, []*unstructured.Unstructured{parse(t, text)}, "lab")
		check.That(t, isKnown == (err == nil), "scheduler %s: %v", scheduler, err)
	}
}

func TestMissingPods(t *testing.T) {
	c := newCluster()
	job := builder.Gang("lab", "train", 3, builder.Pod("lab", "train").Scheduler("volcano").GPUs(1)).Queue("q").Obj()
	c.Jobs = []*batch.Job{job}
	ending := builder.Pod("lab", "train-worker-1").Running("a").Obj()
	now := ending.CreationTimestamp
	ending.DeletionTimestamp = &now

	c.Pods = []*corev1.Pod{builder.Pod("lab", "train-worker-0").Running("a").Obj(), ending}
	for phase, want := range map[batch.JobPhase]string{"": "train-worker-1 train-worker-2", batch.Restarting: "train-worker-1 train-worker-2", batch.Completed: "", batch.Aborting: ""} {
		job.Status.State.Phase = phase
		var names []string
		for _, w := range c.MissingPods() {
			check.That(t, w.WaitsForEnqueue && w.Group.Name == "train-"+string(job.UID), "workload %+v", w)
			for _, pod := range w.Pods {
				names = append(names, pod.Name)
			}
		}
		check.Equal(t, fmt.Sprintf("pods in phase %q", phase), want, strings.Join(names, " "))
	}
}

// TestDrainOfGangs: a gang that restarts leaves all nodes, one that ends is gone, and another one
// loses a pod.
func TestDrainOfGangs(t *testing.T) {
	for action, want := range map[bus.Action]string{bus.RestartJobAction: "g-worker-0@ g-worker-1@", bus.AbortJobAction: "", "": "g-worker-0@ g-worker-1@small"} {
		c := newCluster()
		c.Pods = nil

		job := builder.Gang("lab", "g", 2, builder.Pod("lab", "g").Scheduler("volcano").GPUs(1)).Queue("q").Obj()
		job.Spec.Policies = nil
		if action != "" {
			job.Spec.Policies = []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: action}}
		}

		c.Jobs = []*batch.Job{job}
		for i, node := range []string{"a", "small"} {
			pod := newTaskPod(job, &job.Spec.Tasks[0], i)
			pod.Spec.NodeName = node
			pod.Status.Phase = corev1.PodRunning
			c.Pods = append(c.Pods, pod)
		}

		check.NoError(t, c.Drain("a"))
		var got []string
		for _, pod := range c.Pods {
			got = append(got, pod.Name+"@"+pod.Spec.NodeName)
		}

		check.Equal(t, "pods after "+string(action), want, strings.Join(got, " "))
		ended := 0
		for _, evicted := range c.Evicted {
			if evicted.Successor == "" {
				ended++
			}
		}

		check.That(t, (ended == 2) == (action == bus.AbortJobAction) && (len(c.MissingPods()) == 0), "%d pods end, %d are missing", ended, len(c.MissingPods()))
	}
}

// TestTheQueueOfANamespace: Volcano's webhook writes it into PodGroups that name the default queue.
func TestTheQueueOfANamespace(t *testing.T) {
	const group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1}\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {}}\nspec: {schedulerName: volcano, containers: [{name: a, image: a}]}\n"
	const job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec:\n  tasks:\n  - {name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}\n"
	for name, tc := range map[string]struct {
		texts []string
		want  string
	}{
		"a pod":                      {[]string{pod}, "q"},
		"a Volcano job":              {[]string{job}, "q"},
		"a PodGroup":                 {[]string{group, strings.Replace(pod, "annotations: {}", "annotations: {scheduling.k8s.io/group-name: g}", 1)}, "q"},
		"a pod that names its queue": {[]string{strings.Replace(pod, "annotations: {}", "annotations: {scheduling.volcano.sh/queue-name: bad}", 1)}, "bad"},
	} {
		c := newCluster()
		for _, queue := range c.Queues {
			queue.Status.State = v1beta1.QueueStateOpen
		}

		c.Namespaces[0].Annotations = map[string]string{v1beta1.QueueNameAnnotationKey: "q"}
		var objects []*unstructured.Unstructured
		for _, text := range tc.texts {
			objects = append(objects, parse(t, text))
		}

		check.Equal(t, name, tc.want, check.Value(NewWorkloads(c, objects, "lab"))(t)[0].Group.Spec.Queue)
	}
}
