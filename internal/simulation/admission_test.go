package simulation

import (
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

// volcanoJob is a manifest of a Volcano job of queue q with 2 replicas of task worker, with more lines in its spec, and
// in its task.
func volcanoJob(spec, task string) string {
	return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec:\n  queue: q\n" + spec +
		"  tasks:\n  - name: worker\n    replicas: 2\n" + task + "    template:\n" + podTemplate("      ")
}

// newClusterWithPolicy is a small cluster with a ServiceTypePolicy: webhooks refuse workloads that bypass the
// scheduler, and let Volcano jobs of training restart on evictions. Queue q is of training.
func newClusterWithPolicy() *Cluster {
	c := newSmallCluster()
	c.Policy = &v1alpha1.ServiceTypePolicy{}
	c.Policy.Spec.Admission = v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassDeny, VCJobEvictionPolicy: v1alpha1.VCJobRestartOnEviction}
	c.Queues[0].Annotations[v1alpha1.AnnotationServiceType] = "training"
	return c
}

// TestNewWorkloadsRefusesWhatAdmissionWouldRefuse: the API server would refuse these manifests: by the webhooks of
// Cardquota or of Volcano, or because an object that they name is missing. whatif says so, and gives no answer
// about objects that cannot exist. It also refuses two fields that it cannot simulate, dependsOn and
// partitionPolicy. volcanoJob is a Volcano job of queue q, with 2 replicas of task worker.
func TestNewWorkloadsRefusesWhatAdmissionWouldRefuse(t *testing.T) {
	const podGroup = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}\nspec: {queue: none}\n"
	podWith := func(annotation string) string {
		return "apiVersion: v1\nkind: Pod\n" + strings.Replace(podTemplate(""), "metadata: {annotations: {", "metadata: {name: x, annotations: {"+annotation+", ", 1)
	}
	inChinese := strings.NewReplacer("name: x", "name: 訓練", "queue: q", "queue: 研究").Replace(volcanoJob("", ""))

	for t, tc := range check.Cases(t, map[string]struct {
		change   func(*Cluster)
		manifest string
		want     string
	}{
		"a card name that ends with |": {manifest: podWith(`volcano.sh/card.name: "NVIDIA-H200|"`),
			want: "the webhook of Cardquota would refuse it: metadata.annotations[volcano.sh/card.name]"},
		"a namespace that does not exist": {change: func(c *Cluster) { c.Namespaces = nil }, manifest: volcanoJob("", ""),
			want: "there is no namespace lab"},
		"a queue that does not exist": {change: func(c *Cluster) { c.Queues = nil }, manifest: volcanoJob("", ""),
			want: "the webhook of Volcano would refuse it: there is no queue q"},
		"a closed queue": {change: func(c *Cluster) { c.Queues[0].Status.State = v1beta1.QueueStateClosed }, manifest: volcanoJob("", ""),
			want: "queue q is Closed, not Open"},
		"a queue with queues below it": {change: func(c *Cluster) { c.Queues[1].Spec.Parent = "q" }, manifest: volcanoJob("", ""),
			want: "queue q has queues below it"},
		"minAvailable 3 of 2 replicas":             {manifest: volcanoJob("  minAvailable: 3\n", ""), want: "minAvailable is 3, and its tasks have 2 replicas"},
		"minAvailable 3 of a task with 2 replicas": {manifest: volcanoJob("", "    minAvailable: 3\n"), want: "minAvailable of task worker is 3"},
		"dependsOn, which whatif cannot simulate": {manifest: volcanoJob("", "    dependsOn: {name: [other]}\n"),
			want: "leave out dependsOn of task worker"},
		"partitionPolicy, which whatif cannot simulate": {manifest: volcanoJob("", "    partitionPolicy: {totalPartitions: 2, partitionSize: 1}\n"),
			want: "leave out partitionPolicy of task worker"},
		"a Volcano job without tasks": {manifest: "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {queue: q}\n",
			want: "it has no tasks"},
		"no name": {manifest: strings.Replace(volcanoJob("", ""), "name: x", "labels: {}", 1), want: "Job without metadata.name"},
		"a PodGroup of a queue that does not exist": {manifest: podGroup, want: "there is no queue none"},
		"a pod of a PodGroup that does not exist": {manifest: podWith("scheduling.k8s.io/group-name: none"),
			want: "names PodGroup none, which does not exist"},
		"names in Chinese are printed as written": {manifest: inChinese,
			want: "Job lab/訓練: the webhook of Volcano would refuse it: there is no queue 研究"},
	}) {
		c := newClusterWithPolicy()
		if tc.change != nil {
			tc.change(c)
		}

		_, err := NewWorkloads(c, []*unstructured.Unstructured{parse(t, tc.manifest)}, "lab")
		check.Refused(t, err, tc.want)
	}
}

// TestNewWorkloadsSetsTheDefaultsOfAdmission: the ServiceTypePolicy says that Volcano jobs of training restart when a
// pod is evicted (RestartOnEviction). The webhooks write that into each new job of queue q, which is of training, and
// so does whatif. Without a ServiceTypePolicy the job stays as written.
func TestNewWorkloadsSetsTheDefaultsOfAdmission(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*Cluster)
		want   []batch.LifecyclePolicy
	}{
		"the ServiceTypePolicy says so": {func(*Cluster) {}, []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}},
		"there is no ServiceTypePolicy": {func(c *Cluster) { c.Policy = nil }, nil},
	}) {
		c := newClusterWithPolicy()
		tc.change(c)

		made := check.Value(NewWorkloads(c, []*unstructured.Unstructured{parse(t, volcanoJob("", ""))}, "lab"))(t)
		check.Equal(t, "policies of the job", tc.want, made[0].Job.Spec.Policies)
	}
}

// TestNewWorkloadsKnowsAllSchedulerNames: the scheduler of the cluster serves pods of the schedulerNames first and
// second. A pod of another name is refused.
func TestNewWorkloadsKnowsAllSchedulerNames(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ schedulerName, wantError string }{
		"first: no error":               {"first", ""},
		"second: no error":              {"second", ""},
		"third, which is none: refused": {"third", "its pods name the scheduler third"},
	}) {
		c := newSmallCluster()
		c.Schedulers = []string{"first", "second"}
		manifest := "apiVersion: v1\nkind: Pod\n" + strings.NewReplacer("metadata: {", "metadata: {name: x, ", "schedulerName: volcano", "schedulerName: "+tc.schedulerName).Replace(podTemplate(""))
		_, err := NewWorkloads(c, []*unstructured.Unstructured{parse(t, manifest)}, "lab")
		check.Says(t, err, tc.wantError)
	}
}

// TestMissingPodsOfAJobAreThoseThatVolcanoCreates: a Volcano job has 3 replicas. The pod of replica 0 runs, that of
// replica 1 is terminating, and there is none of replica 2. Volcano creates the last two, unless the job has finished
// or is about to. They wait until the PodGroup of the job, NAME-UID, is enqueued.
func TestMissingPodsOfAJobAreThoseThatVolcanoCreates(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		phase batch.JobPhase
		want  string
	}{
		"a job without a phase yet: pods 1 and 2": {"", "train-worker-1 train-worker-2"},
		"phase Restarting: pods 1 and 2":          {batch.Restarting, "train-worker-1 train-worker-2"},
		"phase Completed: none":                   {batch.Completed, ""},
		"phase Aborting: none":                    {batch.Aborting, ""},
	}) {
		job := builder.Gang("lab", "train", 3, builder.Pod("lab", "train").Scheduler("volcano").GPUs(1)).Queue("q").Obj()
		job.Status.State.Phase = tc.phase
		terminating := builder.Pod("lab", "train-worker-1").Running("a").Obj()
		terminating.DeletionTimestamp = &terminating.CreationTimestamp

		c := newSmallCluster()
		c.Jobs = []*batch.Job{job}
		c.Pods = []*corev1.Pod{builder.Pod("lab", "train-worker-0").Running("a").Obj(), terminating}
		var names []string
		for _, w := range c.MissingPods() {
			check.That(t, w.WaitsForEnqueue, "the pods do not wait until their PodGroup is enqueued")
			check.Equal(t, "PodGroup", "train-"+string(job.UID), w.Group.Name)
			for _, pod := range w.Pods {
				names = append(names, pod.Name)
			}
		}
		check.Equal(t, "missing pods", tc.want, strings.Join(names, " "))
	}
}

// TestDrainFollowsThePolicyOfAVolcanoJob: a Volcano job has one pod on node a, which is drained, and one on node
// small. The job's policy for evicted pods decides what happens to both pods. Afterwards the simulation has no
// missing pods to create: the pods that wait are in the snapshot, and those that ended are not created again.
// "g-worker-0@" is a pod without a node, "g-worker-1@small" one on node small.
func TestDrainFollowsThePolicyOfAVolcanoJob(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		action    bus.Action
		wantPods  string
		wantEnded int
	}{
		"RestartJob: both pods wait for a node": {bus.RestartJobAction, "g-worker-0@ g-worker-1@", 0},
		"AbortJob: both pods end":               {bus.AbortJobAction, "", 2},
		"no policy: the pod of node a waits":    {"", "g-worker-0@ g-worker-1@small", 0},
	}) {
		job := builder.Gang("lab", "g", 2, builder.Pod("lab", "g").Scheduler("volcano").GPUs(1)).Queue("q").Obj()
		job.Spec.Policies = nil
		if tc.action != "" {
			job.Spec.Policies = []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: tc.action}}
		}

		c := newSmallCluster()
		c.Jobs = []*batch.Job{job}
		c.Pods = nil
		for i, node := range []string{"a", "small"} {
			pod := newTaskPod(job, &job.Spec.Tasks[0], i)
			pod.Spec.NodeName = node
			pod.Status.Phase = corev1.PodRunning
			c.Pods = append(c.Pods, pod)
		}

		check.NoError(t, c.Drain("a"))
		check.Equal(t, "pods", tc.wantPods, podsWithNodes(c))
		ended := 0
		for _, evicted := range c.Evicted {
			if evicted.Successor == "" { // no pod waits in its place
				ended++
			}
		}
		check.Equal(t, "pods that end", tc.wantEnded, ended)
		check.Equal(t, "workloads with missing pods", 0, len(c.MissingPods()))
	}
}

// TestAWorkloadGetsTheQueueOfItsNamespace: namespace lab names queue q. Volcano's webhook writes that into PodGroups
// that would be in the default queue, and so does whatif. A pod that names its queue, here queue bad, keeps it.
func TestAWorkloadGetsTheQueueOfItsNamespace(t *testing.T) {
	const group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 1}\n"
	const job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\n" +
		"spec:\n  tasks:\n  - {name: a, replicas: 1, template: {spec: {containers: [{name: a, image: a}]}}}\n"
	podWith := func(annotations string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {" + annotations + "}}\n" +
			"spec: {schedulerName: volcano, containers: [{name: a, image: a}]}\n"
	}

	for t, tc := range check.Cases(t, map[string]struct {
		manifests []string
		want      string
	}{
		"a pod":                      {[]string{podWith("")}, "q"},
		"a Volcano job":              {[]string{job}, "q"},
		"a PodGroup and its pod":     {[]string{group, podWith("scheduling.k8s.io/group-name: g")}, "q"},
		"a pod that names queue bad": {[]string{podWith("scheduling.volcano.sh/queue-name: bad")}, "bad"},
	}) {
		c := newSmallCluster()
		c.Namespaces[0].Annotations = map[string]string{v1beta1.QueueNameAnnotationKey: "q"}
		for _, queue := range c.Queues {
			queue.Status.State = v1beta1.QueueStateOpen // admission refuses work in any other state
		}

		var objects []*unstructured.Unstructured
		for _, manifest := range tc.manifests {
			objects = append(objects, parse(t, manifest))
		}
		check.Equal(t, "queue", tc.want, check.Value(NewWorkloads(c, objects, "lab"))(t)[0].Group.Spec.Queue)
	}
}
