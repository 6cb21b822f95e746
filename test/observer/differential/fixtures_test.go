package differential

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/test/observer/rule"
)

// Random objects use few words, so that they match each other.
var (
	models  = []string{"H200", "4090", "910B", "H200-SHARED"}
	domains = []string{"nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/gpu", "huawei.com/npu", "vendor.example/ppu", "amd.com/gpu"}
	cards   = []string{"H200", "4090", "910B", "H200-SHARED", "H200/mig-1g.18gb-mixed", "4090/mig-1g.18gb-mixed", "H200/mig-2g.35gb-mixed",
		"H200/mps-80g*1/2", "4090/mps-80g*1/2", "H200/mps-40g*1/4", "B300"}
	resources = []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "nvidia.com/mig-2g.35gb", "huawei.com/Ascend910",
		"huawei.com/Ascend310", "huawei.com/npu", "vendor.example/ppu", "vendor.example/ppu.shared", "amd.com/gpu", "nvidia.com/hostdev", "huawei.com/rdma", "huawei.com/ai-processor", "nvidia.com/mig-1G", "rdma/hca", "volcano.sh/vgpu-number", "cpu", "memory"}
	quantities = []string{"1", "1", "2", "2", "8", "0", "1500m", "1000000", "1000001", "1e30"}
	nodeNames  = []string{"n0", "n1", "n2", "n3", "n4"}
	queueNames = []string{"q", "r", "default"}
	namespaces = []string{"lab", "evil", "kube-system"}
)

// drawInt draws each number of a range equally often. Rapid's own ranges prefer small numbers,
// so that rare combinations would never occur.
func drawInt(t *rapid.T, least, most int, what string) int {
	for {
		n := 0
		for range bits.Len(uint(most - least)) {
			n *= 2
			if rapid.Bool().Draw(t, what) {
				n++
			}
		}

		if least+n <= most {
			return least + n
		}
	}
}

// sometimes draws a value in one of n cases, and the zero value otherwise.
func sometimes[T any](t *rapid.T, n int, what string, draw func() T) T {
	var zero T
	if drawInt(t, 1, n, "whether "+what) > 1 {
		return zero
	}
	return draw()
}

func oneOf[T any](t *rapid.T, what string, values ...T) T {
	return values[drawInt(t, 0, len(values)-1, what)]
}

func drawResources(t *rapid.T, most int, names []corev1.ResourceName, amounts []string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for range drawInt(t, 0, most, "resources") {
		out[oneOf(t, "resource", names...)] = resource.MustParse(oneOf(t, "quantity", amounts...))
	}
	return out
}

// drawNode draws a node with the labels of feature discovery and administrators, valid and
// invalid.
func drawNode(t *rapid.T, name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	kind := oneOf(t, "type", domains...)
	label := func(key, value string) { node.Labels[key] = value }
	product := func(kind string) {
		label(kind+".product", oneOf(t, "model", models...))
		label(kind+".memory", oneOf(t, "memory", "81559", "40960", "40448", "40447", "24564", "1", "0", "-1", "x", "1023999487", "1023999488"))
	}

	switch drawInt(t, 0, 11, "labels") {
	case 0: // not labelled
	case 1:
		label(kind+".product", oneOf(t, "model", models...)) // without memory
	case 2:
		product(kind)
		product(oneOf(t, "second type", "huawei.com/npu", "nvidia.com/igpu", "vendor.example/ppu"))
	case 3:
		label(kind+".family", "hopper")
		label("huawei.com/rdma.speed", "200")
	case 4:
		product(kind)
		label(kind+".product", "")
	default:
		product(kind)
	}

	drawLabelsOfSlices(t, label)
	if rapid.Bool().Draw(t, "counted") {
		label(kind+".count", oneOf(t, "count", "0", "1", "2", "4", "5", "7", "8", "-1", "x"))
	}

	if replicas := oneOf(t, "replicas", "2", "4", "1", "", "0", "10000", "x", "02"); replicas != "" {
		label(kind+".replicas", replicas)
	}

	drawAllocatable(t, node, kind)
	return node
}

// drawAllocatable draws the resources that a node offers: those of a device plugin, and others.
func drawAllocatable(t *rapid.T, node *corev1.Node, kind string) {
	add := func(names ...corev1.ResourceName) {
		if node.Status.Allocatable == nil {
			node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64")}
		}
		for _, name := range names {
			node.Status.Allocatable[name] = resource.MustParse(oneOf(t, "allocatable", "8", "8", "7", "0"))
		}
	}

	switch drawInt(t, 0, 7, "plugin") {
	case 0, 1, 2:
		add(corev1.ResourceName(kind))
	case 3:
		add("huawei.com/Ascend910")
	case 4:
		add("nvidia.com/gpu", "nvidia.com/mig-1g.18gb")
	case 5:
		add(corev1.ResourceName(kind + ".shared"))
	}

	for range drawInt(t, 0, 2, "more") {
		add(oneOf(t, "another resource", resources...))
	}
}

// drawLabelsOfSlices draws the labels of a MIG profile, or none.
func drawLabelsOfSlices(t *rapid.T, label func(key, value string)) {
	if !rapid.Bool().Draw(t, "of slices") {
		return
	}

	label("nvidia.com/mig-1g.18gb.product", oneOf(t, "product of slices", "H200-MIG-1g.18gb", "H200-MIG-1g.18gb-SHARED"))
	label("nvidia.com/mig-1g.18gb.memory", "18000")
	label("nvidia.com/mig-1g.18gb.replicas", oneOf(t, "replicas of slices", "0", "1", "4", "x"))
	label("nvidia.com/mig-1g.18gb.count", oneOf(t, "count of slices", "", "1", "2", "7"))
}

// inventories are both sides' inventories of the same nodes.
type inventories struct {
	product  *card.Inventory
	observed *rule.Inventory
	nodes    map[string]card.Node
}

func drawInventory(t *rapid.T) inventories {
	known := rapid.SliceOfN(rapid.SampledFrom(resources[:4]), 0, 1).Draw(t, "known before")
	b := inventories{observed: rule.NewInventory(known...), nodes: map[string]card.Node{}}
	for _, name := range nodeNames[:drawInt(t, 1, len(nodeNames)-1, "nodes")] {
		node := drawNode(t, name)
		b.nodes[name] = card.Recognise(node, nil)
		b.observed.Set(name, rule.ReadNode(node))
	}
	b.product = card.NewInventory(b.nodes, known...)
	return b
}

// drawCardName draws volcano.sh/card.name, mostly valid.
func drawCardName(t *rapid.T) string {
	return oneOf(t, "card.name", "H200", "4090", "910B", "B300", "H200|4090", "4090|H200", "4090 | H200 ", "H200|910B", "H200-SHARED",
		"H200/mig-1g.18gb-mixed", "H200/mig-1g.18gb-mixed|4090/mig-1g.18gb-mixed", "H200/mig-1g.18gb-mixed|H200/mig-2g.35gb-mixed",
		"H200|H200/mig-1g.18gb-mixed", "H200/mps-80g*1/2|4090/mps-80g*1/2", "H200/mps-80g*1/2", "H200|H200/mps-80g*1/2", "H 200", "", "H200|H200", "H200|", "B300|H200", manyCards(16), manyCards(17))
}

// manyCards returns n different cards.
func manyCards(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "|C%d", i)
	}
	return text.String()[1:]
}

func drawContainer(t *rapid.T, most int) corev1.Container {
	name := fmt.Sprint("c", drawInt(t, 0, 1000, "name"))
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: drawResources(t, most, append(slices.Clone(resources), "nvidia.com/gpu", "nvidia.com/gpu", "cpu"), quantities)}}
}

// drawPod draws a pod in any state, with anything that its creator can write.
func drawPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(t, "namespace", namespaces...), Annotations: map[string]string{}, Labels: map[string]string{}}}
	note := func(key string, n int, draw func() string) {
		if drawInt(t, 1, n, "whether "+key) == 1 {
			pod.Annotations[key] = draw()
		}
	}

	aQueue := func() string { return oneOf(t, "queue", queueNames...) }
	note("volcano.sh/card.name", 2, func() string { return drawCardName(t) })
	note("cardquota.dev/charged-queue", 3, func() string { return oneOf(t, "charged queue", "q", "r", "") })
	note("scheduling.volcano.sh/queue-name", 2, aQueue)
	note("volcano.sh/queue-name", 3, aQueue)
	note("scheduling.k8s.io/group-name", 2, func() string { return "g" })
	note("scheduling.volcano.sh/group-name", 4, func() string { return "h" })
	note("volcano.sh/preemptable", 3, func() string { return drawBool(t) })
	note("volcano.sh/service.type", 3, func() string { return drawType(t) })

	if drawInt(t, 1, 3, "labelled preemptable") == 1 {
		pod.Labels["volcano.sh/preemptable"] = drawBool(t)
	}

	drawSpec(t, pod)
	pod.Status.Phase = oneOf(t, "phase", corev1.PodRunning, corev1.PodRunning, corev1.PodPending, "", corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown)
	pod.DeletionTimestamp = sometimes(t, 4, "deleted", func() *metav1.Time { now := metav1.Now(); return &now })
	drawOwner(t, pod)

	return pod
}

func drawSpec(t *rapid.T, pod *corev1.Pod) {
	pod.Spec.NodeName = oneOf(t, "node", append([]string{"", "gone"}, nodeNames...)...)
	pod.Spec.SchedulerName = oneOf(t, "scheduler", "volcano", "volcano", "other")
	pod.Spec.PriorityClassName = oneOf(t, "class", "", "", "pc-high", "system-cluster-critical", "system-node-critical")
	pod.Spec.SchedulingGates = sometimes(t, 5, "gated", func() []corev1.PodSchedulingGate { return []corev1.PodSchedulingGate{{Name: "wait"}} })
	for range drawInt(t, 1, 2, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, 2))
	}

	for range drawInt(t, 0, 2, "init containers") {
		c := drawContainer(t, 1)
		c.RestartPolicy = sometimes(t, 2, "sidecar", func() *corev1.ContainerRestartPolicy {
			return ptr.To(corev1.ContainerRestartPolicyAlways)
		})
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}

	pod.Spec.Overhead = sometimes(t, 4, "overhead", func() corev1.ResourceList {
		return drawResources(t, 1, []corev1.ResourceName{"cpu", "memory"}, []string{"100m", "1Gi"})
	})

	if drawInt(t, 1, 5, "resized") == 1 {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Resources: &corev1.ResourceRequirements{Requests: drawResources(t, 1, []corev1.ResourceName{"cpu"}, []string{"7", "1"})}}}
	}
}

func drawOwner(t *rapid.T, pod *corev1.Pod) {
	if drawInt(t, 1, 2, "owned") == 1 {
		controller := drawInt(t, 1, 4, "controller") > 1
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: oneOf(t, "api version", "apps/v1", "batch/v1", "batch.volcano.sh/v1alpha1", "v1"),
			Kind:       oneOf(t, "kind", "ReplicaSet", "ReplicaSet", "Job", "StatefulSet"), Name: "owner", Controller: &controller,
		}}
	}
	if rapid.Bool().Draw(t, "of a template") {
		pod.Labels["pod-template-hash"] = "5d8f"
	}
}

func drawBool(t *rapid.T) string {
	return oneOf(t, "boolean", "true", "false", "1", "0", "", "yes", "TRUE", "true ")
}

func drawType(t *rapid.T) string { return oneOf(t, "service type", "inference", "training", "") }

func drawGroup(t *rapid.T) *v1beta1.PodGroup {
	return sometimes(t, 2, "a PodGroup", func() *v1beta1.PodGroup {
		return &v1beta1.PodGroup{Spec: v1beta1.PodGroupSpec{Queue: oneOf(t, "queue of the PodGroup", "q", "r", "")}}
	})
}
