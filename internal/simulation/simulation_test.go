package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

const h200 = "NVIDIA-H200"

func newCluster() *Cluster {
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
	isController := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "runs-5d9", UID: "owner", Controller: &isController}}
	return pod
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	check.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

// template is the rest of a manifest behind the given indentation.
func template(indent string) string {
	lines := []string{
		"metadata: {annotations: {scheduling.volcano.sh/queue-name: q}}",
		"spec:", "  schedulerName: volcano", "  priorityClassName: high",
		"  containers:", "  - {name: a, image: a, resources: {limits: {nvidia.com/gpu: 2, cpu: 1}}}",
	}
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

func TestNewWorkloads(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"Deployment":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  replicas: 2\n  template:\n" + template("    "), "podgroup-whatif-deployment-lab-x q min=1 gpu=2: x-new-0 x-new-1"},
		"StatefulSet": {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x, annotations: {scheduling.volcano.sh/group-min-member: \"3\"}}\nspec:\n  template:\n" + template("    "), "podgroup-whatif-statefulset-lab-x q min=3 gpu=6: x-0"},
		"Job":         {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec:\n  parallelism: 3\n  completions: 2\n  template:\n" + template("    "), "podgroup-whatif-job-lab-x q min=1 gpu=2: x-new-0 x-new-1"},
		"Pod":         {"apiVersion: v1\nkind: Pod\n" + strings.Replace(template(""), "metadata: {", "metadata: {name: x, ", 1), "podgroup-whatif-pod-lab-x q min=1 gpu=2: x"},
		"Volcano job": {
			"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec:\n  queue: q\n  tasks:\n  - name: ps\n    replicas: 1\n    template:\n" + template("      ") +
				"  - name: worker\n    replicas: 3\n    minAvailable: 1\n    template:\n" + template("      "),
			"x-whatif-job-lab-x q min=2 gpu=4: x-ps-0 x-worker-0 x-worker-1 x-worker-2",
		},
	}) {
		w := check.Value(NewWorkloads(newCluster(), []*unstructured.Unstructured{parse(t, tc.text)}, "lab"))(t)[0]
		gpus := (*w.Group.Spec.MinResources)["nvidia.com/gpu"]
		got := fmt.Sprintf("%s %s min=%d gpu=%d:", w.Group.Name, w.Group.Spec.Queue, w.Group.Spec.MinMember, gpus.Value())
		for _, pod := range w.Pods {
			got += " " + pod.Name
			check.That(t, *pod.Spec.Priority == 1000, "priority %v", pod.Spec.Priority)
			check.Equal(t, "PodGroup of the pod", w.Group.Name, pod.Annotations[v1beta1.KubeGroupNameAnnotationKey])
		}

		check.Equal(t, "workload", tc.want, got)
		check.That(t, w.WaitsForEnqueue == (w.Job != nil), "pods wait for the queue: %v", w.WaitsForEnqueue)
	}
}

func TestNewWorkloadsRefuses(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {schedulerName: volcano, containers: [{name: a, image: a}]}\n"

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"another kind":   {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", "is no kind that whatif knows"},
		"unknown field":  {strings.Replace(pod, "spec: {", "spec: {nodeNam: a, ", 1), "nodeNam"},
		"scheduler":      {strings.Replace(pod, "schedulerName: volcano, ", "", 1), "its pods name the scheduler default-scheduler"},
		"no class":       {strings.Replace(pod, "spec: {", "spec: {priorityClassName: none, ", 1), "there is no PriorityClass none"},
		"a node":         {strings.Replace(pod, "spec: {", "spec: {nodeName: a, ", 1), "its pods name node a"},
		"existing one":   {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: runs}\nspec:\n  template:\n" + template("    "), "exists already"},
		"existing pod":   {strings.Replace(pod, "name: x", "name: taken", 1), "exists already"},
		"suspended":      {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec:\n  suspend: true\n  template:\n" + template("    "), "suspended"},
		"too many":       {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  replicas: 2000000\n  template:\n" + template("    "), "more than 10000 pods"},
		"negative":       {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  replicas: -1\n  template:\n" + template("    "), "not negative"},
		"a PodGroup":     {"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}\n", "the files have no pods"},
		"topology":       {"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {networkTopology: {mode: hard}}\n", "network topology"},
		"other template": {"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {schedulerName: other, tasks: [{replicas: 1, template: {spec: {containers: []}}}]}\n", "name the scheduler other"},
	}) {
		_, err := NewWorkloads(newCluster(), []*unstructured.Unstructured{parse(t, tc.text)}, "lab")
		check.Refused(t, err, tc.want)
	}
}

func TestSetQuota(t *testing.T) {
	c := newCluster()
	before := c.Queues[0]
	check.NoError(t, c.SetQuota("q", "NVIDIA-H800", 3, false))
	check.Equal(t, "quota", `{"NVIDIA-H200":8,"NVIDIA-H800":3}`, c.Queues[0].Annotations[v1alpha1.AnnotationCardQuota])
	check.Equal(t, "quota of the snapshot", `{"NVIDIA-H200":8}`, before.Annotations[v1alpha1.AnnotationCardQuota])
	check.Refused(t, c.SetQuota("none", h200, 1, false), "there is no queue none")
	check.Refused(t, c.SetQuota("bad", h200, 1, false), "queue bad")
}

// TestWhatAQueueDeservesStays: a user who raises quota alone leaves deserved as it is written. Admission
// makes users write it in a tree.
func TestWhatAQueueDeservesStays(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deserved   string
		card       card.Name
		count      card.Count
		isLeftOut  bool
		want       string
		wantsQuota string
	}{
		"raised":                           {`{"NVIDIA-H200":8}`, h200, 16, false, `{"NVIDIA-H200":8}`, `{"NVIDIA-H200":16}`},
		"lowered":                          {`{"NVIDIA-H200":8}`, h200, 4, false, `{"NVIDIA-H200":8}`, `{"NVIDIA-H200":4}`},
		"raised, without its own amounts":  {`{"NVIDIA-H200":8}`, h200, 16, true, `{"NVIDIA-H200":16}`, `{"NVIDIA-H200":16}`},
		"lowered, without its own amounts": {`{"NVIDIA-H200":8}`, h200, 4, true, `{"NVIDIA-H200":4}`, `{"NVIDIA-H200":4}`},
		"another card":                     {`{"NVIDIA-H200":6}`, "NVIDIA-H800", 3, true, `{"NVIDIA-H200":6,"NVIDIA-H800":3}`, `{"NVIDIA-H200":8,"NVIDIA-H800":3}`},
		"flat queues":                      {"", h200, 16, true, "", `{"NVIDIA-H200":16}`},
	}) {
		queue := builder.Queue("q").Quota(`{"NVIDIA-H200":8}`)
		if tc.deserved != "" {
			queue.Annotation(v1alpha1.AnnotationCardDeserved, tc.deserved)
		}

		c := &Cluster{Queues: []*v1beta1.Queue{queue.Obj()}}
		check.NoError(t, c.SetQuota("q", tc.card, tc.count, tc.isLeftOut))
		check.Equal(t, "quota", tc.wantsQuota, c.Queues[0].Annotations[v1alpha1.AnnotationCardQuota])
		check.Equal(t, "deserved", tc.want, c.Queues[0].Annotations[v1alpha1.AnnotationCardDeserved])
	}

	c := &Cluster{Queues: []*v1beta1.Queue{builder.Queue("q").Annotation(v1alpha1.AnnotationCardDeserved, "{").Obj()}}
	check.Refused(t, c.SetQuota("q", h200, 1, false), "annotation volcano.sh/card.deserved of queue q")
}

func TestAddNodes(t *testing.T) {
	c := newCluster()
	check.NoError(t, c.AddNodes(2, h200))
	check.NoError(t, c.AddNodes(1, h200))
	names := map[string]bool{}
	for _, node := range c.Nodes {
		names[node.Name] = true
	}
	check.That(t, len(names) == 5, "nodes %v: two have one name", names)
	check.That(t, c.Inventory().Physical()[h200] == 8+2+3*8, "cards %v: the node with most cards is the model", c.Inventory().Physical())
	check.Refused(t, c.AddNodes(1, "NVIDIA-H20"), "no node has NVIDIA-H20")
	check.Refused(t, c.AddNodes(0, h200), "write a number from 1")
}

func TestDrain(t *testing.T) {
	c := newCluster()
	controlled := func(name, kind string) *corev1.Pod {
		pod := builder.Pod("lab", name).Running("a").Obj()
		isController := true
		pod.OwnerReferences = append(pod.OwnerReferences, ownerOf(kind, &isController))
		return pod
	}

	c.Pods = []*corev1.Pod{controlled("moves", "ReplicaSet"), controlled("agent", "DaemonSet"), builder.Pod("lab", "alone").Running("a").Obj(), builder.Pod("lab", "elsewhere").Running("small").Obj()}
	check.NoError(t, c.Drain("a"))

	var got []string
	for _, pod := range c.Pods {
		got = append(got, pod.Name+"@"+pod.Spec.NodeName)
	}

	check.Equal(t, "pods", "moves@ agent@a elsewhere@small", strings.Join(got, " "))
	got = nil
	for _, evicted := range c.Evicted {
		got = append(got, fmt.Sprintf("%s@%s:%t", evicted.Pod.Name, evicted.Pod.Spec.NodeName, evicted.Successor == c.Pods[0].UID))
	}

	check.Equal(t, "evicted", "moves@a:true alone@a:false", strings.Join(got, " "))
	check.That(t, c.Nodes[0].Spec.Unschedulable, "the node takes pods")
	check.Refused(t, c.Drain("b"), "there is no node b")
}

func TestLatestCheckpoint(t *testing.T) {
	at := func(text string) map[string]string { return map[string]string{v1alpha1.AnnotationCheckpointTime: text} }
	latest := LatestCheckpoint(nil, at("2026-11-23T10:00:00Z"), at("2026-11-23T11:00:00Z"), at("tomorrow"))
	check.That(t, latest.Equal(time.Date(2026, 11, 23, 11, 0, 0, 0, time.UTC)), "latest %v", latest)
	check.That(t, LatestCheckpoint(at("")).IsZero(), "a checkpoint without a time")
}

func ownerOf(kind string, isController *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "owner", Controller: isController}
}
