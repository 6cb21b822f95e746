package simulation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const h200 = "NVIDIA-H200"

// newSmallCluster has node a with 8 cards and the cordoned node small with 2. The queues are q with a quota of 8, bad
// with a quota that cannot be read, and default. There are the pod taken and a pod of Deployment runs in namespace lab,
// and PriorityClass high with value 1000.
func newSmallCluster() *Cluster {
	return &Cluster{
		Namespaces:      []*corev1.Namespace{builder.Namespace("lab")},
		Schedulers:      []string{"volcano"},
		Nodes:           []*corev1.Node{builder.Node("a").GPUs(h200, 8).Obj(), builder.Node("small").GPUs(h200, 2).Cordoned().Obj()},
		Queues:          []*v1beta1.Queue{builder.Queue("q").Quota(`{"NVIDIA-H200":8}`).Obj(), builder.Queue("bad").Quota(`{`).Obj(), builder.Queue("default").Obj()},
		PriorityClasses: []*schedulingv1.PriorityClass{builder.PriorityClass("high", 1000)},
		Pods:            []*corev1.Pod{builder.Pod("lab", "taken").Obj(), podOfDeployment()},
	}
}

// podOfDeployment is a pod of the Deployment "runs" in the cluster.
func podOfDeployment() *corev1.Pod {
	pod := builder.Pod("lab", "runs-5d9-x7").Label(workload.PodTemplateHash, "5d9").Obj()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "runs-5d9", UID: "owner", Controller: ptr.To(true)}}
	return pod
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	check.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

// podTemplate is a pod template for queue q with 2 cards and PriorityClass high, behind an indentation.
func podTemplate(indent string) string {
	lines := []string{
		"metadata: {annotations: {scheduling.volcano.sh/queue-name: q}}",
		"spec:", "  schedulerName: volcano", "  priorityClassName: high",
		"  containers:", "  - {name: a, image: a, resources: {limits: {nvidia.com/gpu: 2, cpu: 1}}}",
	}
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

// podsWithNodes lists the pods of a cluster: "a@n" on a node, "a@" without.
func podsWithNodes(c *Cluster) string {
	var names []string
	for _, pod := range c.Pods {
		names = append(names, pod.Name+"@"+pod.Spec.NodeName)
	}
	return strings.Join(names, " ")
}

// TestNewWorkloadsCreatesWhatTheControllersWould: whatif reads manifests, and creates the PodGroup and the
// pods that the controllers would create. Each pod requests 2 cards, and has PriorityClass high of priority
// 1000. The minResources of the PodGroup are those of its minimum. That is one pod, unless an annotation or
// the tasks of a Volcano job say more. A Job creates no more pods than completions. A StatefulSet creates a
// pod once the one before it runs; whatif notes that (oneByOne) for gangs. Only pods of a Volcano job wait
// until Volcano enqueues their PodGroup. Each row wants name and queue of the PodGroup, its minimum and
// cards, and the pods. whatif makes up the names that contain "whatif" or "new".
func TestNewWorkloadsCreatesWhatTheControllersWould(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ manifest, want string }{
		"a Deployment with 2 replicas": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  replicas: 2\n  template:\n" + podTemplate("    "),
			"podgroup-whatif-deployment-lab-x q min=1 cards=2 oneByOne=false: x-new-0 x-new-1"},
		"a StatefulSet with 3 replicas and group-min-member 3": {
			"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x, annotations: {scheduling.volcano.sh/group-min-member: \"3\"}}\n" +
				"spec:\n  replicas: 3\n  template:\n" + podTemplate("    "),
			"podgroup-whatif-statefulset-lab-x q min=3 cards=6 oneByOne=true: x-0 x-1 x-2"},
		"a Job with parallelism 3 and 2 completions": {
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec:\n  parallelism: 3\n  completions: 2\n  template:\n" + podTemplate("    "),
			"podgroup-whatif-job-lab-x q min=1 cards=2 oneByOne=false: x-new-0 x-new-1"},
		"a Pod": {
			"apiVersion: v1\nkind: Pod\n" + strings.Replace(podTemplate(""), "metadata: {", "metadata: {name: x, ", 1),
			"podgroup-whatif-pod-lab-x q min=1 cards=2 oneByOne=false: x"},
		"a Volcano job with a task of one pod, and one of 3 pods with minAvailable 1": {
			"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec:\n  queue: q\n  tasks:\n" +
				"  - name: ps\n    replicas: 1\n    template:\n" + podTemplate("      ") +
				"  - name: worker\n    replicas: 3\n    minAvailable: 1\n    template:\n" + podTemplate("      "),
			"x-whatif-job-lab-x q min=2 cards=4 oneByOne=false: x-ps-0 x-worker-0 x-worker-1 x-worker-2"},
	}) {
		w := check.Value(NewWorkloads(newSmallCluster(), []*unstructured.Unstructured{parse(t, tc.manifest)}, "lab"))(t)[0]
		cards := (*w.Group.Spec.MinResources)["nvidia.com/gpu"]
		got := fmt.Sprintf("%s %s min=%d cards=%d oneByOne=%t:", w.Group.Name, w.Group.Spec.Queue, w.Group.Spec.MinMember, cards.Value(), w.OneByOne)
		for _, pod := range w.Pods {
			got += " " + pod.Name
			check.Equal(t, "priority, that of class high", 1000, *pod.Spec.Priority)
			check.Equal(t, "PodGroup of the pod", w.Group.Name, pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
		}

		check.Equal(t, "PodGroup, queue and pods", tc.want, got)
		check.Equal(t, "pods wait until their PodGroup is enqueued", w.Job != nil, w.WaitsForEnqueue)
	}
}

// TestNewWorkloadsRefusesWhatItCannotSimulate: whatif refuses a manifest that the scheduler would not schedule, that
// the cluster has already, or that it does not understand. An answer about it would be wrong. Deployment runs and pod
// taken exist.
func TestNewWorkloadsRefusesWhatItCannotSimulate(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {schedulerName: volcano, containers: [{name: a, image: a}]}\n"
	const volcanoJob = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\n"
	deployment := func(name, spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n" + spec + "  template:\n" + podTemplate("    ")
	}

	for t, tc := range check.Cases(t, map[string]struct{ manifest, want string }{
		"a Service":                          {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", "is no kind that whatif knows"},
		"an unknown field nodeNam":           {strings.Replace(pod, "spec: {", "spec: {nodeNam: a, ", 1), "nodeNam"},
		"no schedulerName":                   {strings.Replace(pod, "schedulerName: volcano, ", "", 1), "its pods name the scheduler default-scheduler"},
		"an unknown PriorityClass":           {strings.Replace(pod, "spec: {", "spec: {priorityClassName: none, ", 1), "there is no PriorityClass none"},
		"a nodeName":                         {strings.Replace(pod, "spec: {", "spec: {nodeName: a, ", 1), "its pods name node a"},
		"a Deployment that exists":           {deployment("runs", ""), "exists already"},
		"a pod that exists":                  {strings.Replace(pod, "name: x", "name: taken", 1), "exists already"},
		"a suspended Job":                    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec:\n  suspend: true\n  template:\n" + podTemplate("    "), "suspended"},
		"10,001 replicas":                    {deployment("x", "  replicas: 10001\n"), "more than 10000 pods"},
		"-1 replicas":                        {deployment("x", "  replicas: -1\n"), "not negative"},
		"a PodGroup without pods":            {"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}\n", "the files have no pods"},
		"a hard network topology":            {volcanoJob + "spec: {networkTopology: {mode: hard}}\n", "network topology"},
		"another scheduler in a Volcano job": {volcanoJob + "spec: {schedulerName: other, tasks: [{replicas: 1, template: {spec: {containers: []}}}]}\n", "name the scheduler other"},
	}) {
		_, err := NewWorkloads(newSmallCluster(), []*unstructured.Unstructured{parse(t, tc.manifest)}, "lab")
		check.Refused(t, err, tc.want)
	}
}

// TestSetQuotaChangesOneCardOfAQueue: the quota of queue q gets an entry for H800 beside that of H200. The Queue of the
// snapshot is not changed, because others read it. A queue that does not exist, or whose quota cannot be read, is
// refused.
func TestSetQuotaChangesOneCardOfAQueue(t *testing.T) {
	c := newSmallCluster()
	before := c.Queues[0]
	check.NoError(t, c.SetQuota("q", "NVIDIA-H800", 3, false)) // false: deserved is written, see the next test
	check.Equal(t, "quota", `{"NVIDIA-H200":8,"NVIDIA-H800":3}`, c.Queues[0].Annotations[v1alpha1.AnnotationCardQuota])
	check.Equal(t, "quota of the snapshot", `{"NVIDIA-H200":8}`, before.Annotations[v1alpha1.AnnotationCardQuota])

	check.Refused(t, c.SetQuota("none", h200, 1, false), "there is no queue none")
	check.Refused(t, c.SetQuota("bad", h200, 1, false), "queue bad")
}

// TestSetQuotaLeavesDeservedThatIsWritten: in a tree a CardQuota may leave deserved out. The operator then
// writes the quota as deserved into the Queue. So the Queue has the annotation in both cases, and isLeftOut
// says which it is. Deserved that is left out follows a new quota. A user who wrote deserved and changes the
// quota alone keeps it. The quota is 8 cards H200 before.
func TestSetQuotaLeavesDeservedThatIsWritten(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deserved                string // of the Queue, "" in flat queues
		card                    card.Name
		newQuota                card.Count
		isLeftOut               bool
		wantQuota, wantDeserved string
	}{
		"deserved is written, the quota is raised: stays": {
			deserved: `{"NVIDIA-H200":8}`, card: h200, newQuota: 16, wantQuota: `{"NVIDIA-H200":16}`, wantDeserved: `{"NVIDIA-H200":8}`},
		"deserved is written, the quota is lowered: stays": {
			deserved: `{"NVIDIA-H200":8}`, card: h200, newQuota: 4, wantQuota: `{"NVIDIA-H200":4}`, wantDeserved: `{"NVIDIA-H200":8}`},
		"deserved is left out, the quota is raised: follows": {
			deserved: `{"NVIDIA-H200":8}`, card: h200, newQuota: 16, isLeftOut: true, wantQuota: `{"NVIDIA-H200":16}`, wantDeserved: `{"NVIDIA-H200":16}`},
		"deserved is left out, the quota is lowered: follows": {
			deserved: `{"NVIDIA-H200":8}`, card: h200, newQuota: 4, isLeftOut: true, wantQuota: `{"NVIDIA-H200":4}`, wantDeserved: `{"NVIDIA-H200":4}`},
		"deserved is left out, a quota for H800: only its entry follows, and that of H200, here 6, stays": {
			deserved: `{"NVIDIA-H200":6}`, card: "NVIDIA-H800", newQuota: 3, isLeftOut: true,
			wantQuota: `{"NVIDIA-H200":8,"NVIDIA-H800":3}`, wantDeserved: `{"NVIDIA-H200":6,"NVIDIA-H800":3}`},
		"flat queues have no deserved": {card: h200, newQuota: 16, isLeftOut: true, wantQuota: `{"NVIDIA-H200":16}`},
	}) {
		queue := builder.Queue("q").Quota(`{"NVIDIA-H200":8}`)
		if tc.deserved != "" {
			queue.Annotation(v1alpha1.AnnotationCardDeserved, tc.deserved)
		}

		c := &Cluster{Queues: []*v1beta1.Queue{queue.Obj()}}
		check.NoError(t, c.SetQuota("q", tc.card, tc.newQuota, tc.isLeftOut))
		check.Equal(t, "quota", tc.wantQuota, c.Queues[0].Annotations[v1alpha1.AnnotationCardQuota])
		check.Equal(t, "deserved", tc.wantDeserved, c.Queues[0].Annotations[v1alpha1.AnnotationCardDeserved])
	}
}

// TestSetQuotaRefusesDeservedThatCannotBeRead: the annotation of what queue q deserves is no JSON. So a new quota of the
// queue is refused, and the error names annotation and queue.
func TestSetQuotaRefusesDeservedThatCannotBeRead(t *testing.T) {
	c := &Cluster{Queues: []*v1beta1.Queue{builder.Queue("q").Annotation(v1alpha1.AnnotationCardDeserved, "{").Obj()}}
	check.Refused(t, c.SetQuota("q", h200, 1, false), "annotation volcano.sh/card.deserved of queue q")
}

// TestAddedNodesAreCopiesOfTheLargestNodeWithTheCard: node a has 8 cards, and the cordoned node small has 2. First 2 and
// then 1 new nodes are added. They get names of their own, and have 8 cards each, like node a. A card that no node has,
// and a number below one, are refused.
func TestAddedNodesAreCopiesOfTheLargestNodeWithTheCard(t *testing.T) {
	c := newSmallCluster()
	check.NoError(t, c.AddNodes(2, h200))
	check.NoError(t, c.AddNodes(1, h200))
	names := map[string]bool{}
	for _, node := range c.Nodes {
		names[node.Name] = true
	}

	check.Equal(t, "different names of nodes", 5, len(names))
	check.Equal(t, "cards of all nodes", 8+2+3*8, c.Inventory().Physical()[h200])
	check.Refused(t, c.AddNodes(1, "NVIDIA-H20"), "no node has NVIDIA-H20")
	check.Refused(t, c.AddNodes(0, h200), "write a number from 1")
}

// TestDrainEvictsThePodsOfANode: a drain cordons the node and evicts its pods, as kubectl drain --force does. For
// a pod of a ReplicaSet, a successor of the same name waits for another node. A pod without a controller ends and
// has no successor. A pod of a DaemonSet stays, and so does a pod of another node. "agent@a" is pod agent on node
// a, "moves@" a pod without a node.
func TestDrainEvictsThePodsOfANode(t *testing.T) {
	c := newSmallCluster()
	c.Pods = []*corev1.Pod{
		podOf("ReplicaSet", "moves"), podOf("DaemonSet", "agent"),
		builder.Pod("lab", "alone").Running("a").Obj(), builder.Pod("lab", "elsewhere").Running("small").Obj(),
	}
	check.NoError(t, c.Drain("a"))
	check.Equal(t, "pods", "moves@ agent@a elsewhere@small", podsWithNodes(c))
	check.That(t, c.Nodes[0].Spec.Unschedulable, "the node is not cordoned")

	check.Must(t, len(c.Evicted) == 2, "%d pods are evicted, want moves and alone", len(c.Evicted))
	check.Equal(t, "first evicted pod", "moves@a", c.Evicted[0].Pod.Name+"@"+c.Evicted[0].Pod.Spec.NodeName)
	check.Equal(t, "its successor", c.Pods[0].UID, c.Evicted[0].Successor)
	check.Equal(t, "second evicted pod", "alone@a", c.Evicted[1].Pod.Name+"@"+c.Evicted[1].Pod.Spec.NodeName)
	check.Equal(t, "its successor", "", c.Evicted[1].Successor)
	check.Refused(t, c.Drain("b"), "there is no node b")
}

// podOf is a pod on node a with a controller of a kind.
func podOf(kind, name string) *corev1.Pod {
	pod := builder.Pod("lab", name).Running("a").Obj()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
	return pod
}
