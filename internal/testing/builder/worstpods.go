package builder

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
)

// WorstPods returns pods that are about as large as an API server stores them, by what makes them large.
// etcd takes 1.5 MiB, to which the API server adds defaults and who wrote which field. A scheduling gate
// keeps them pending.
func WorstPods(namespace string) map[string]*corev1.Pod {
	changes := map[string]func(*corev1.Pod){
		"containers":      func(pod *corev1.Pod) { pod.Spec.Containers = manyContainers(5_000, nil) },
		"limits":          func(pod *corev1.Pod) { pod.Spec.Containers = manyContainers(4_000, oneLimit) },
		"init-containers": func(pod *corev1.Pod) { pod.Spec.InitContainers = manyContainers(4_000, oneLimit) },
		"sidecars":        addManySidecars,
		"resources":       func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = manyResources(12_000, "x.io/r%05d") },
		"cards": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = manyResources(9_000, "nvidia.com/mig-%05d")
		},
		"long-resources": addLongResources,
		"gates":          func(pod *corev1.Pod) { pod.Spec.SchedulingGates = manyGates(3_000) },
		"metadata":       addManyMetadata,
		"ports":          func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = manyPorts(6_000) },
		"environment": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1_400_000)}}
		},
	}

	pods := map[string]*corev1.Pod{}
	for what, change := range changes {
		pods[what] = Pod(namespace, "worst-"+what).Gated().With(change).Obj()
	}

	return pods
}

// manyContainers returns containers, each with the limit of its own resource, or without one.
func manyContainers(count int, limit func(i int) corev1.ResourceList) []corev1.Container {
	containers := make([]corev1.Container, count)
	for i := range containers {
		containers[i] = corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "i"}
		if limit != nil {
			containers[i].Resources.Limits = limit(i)
		}
	}
	return containers
}

func oneLimit(i int) corev1.ResourceList { return manyResources(1, fmt.Sprintf("x.io/r%d-%%d", i)) }

// addManySidecars lets init containers and sidecars take turns, each with a resource of its own. A sum that
// looks at all sidecars for each of them takes very long.
func addManySidecars(pod *corev1.Pod) {
	pod.Spec.InitContainers = manyContainers(4_000, oneLimit)
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].Name = fmt.Sprintf("s%d", i)
		if i%2 == 0 {
			pod.Spec.InitContainers[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
	}
}

// addLongResources requests as many resources with the longest names as fit. Of them and of the longest
// annotations most is kept.
func addLongResources(pod *corev1.Pod) {
	name := strings.Repeat(strings.Repeat("a", 62)+".", 4)[:240] + "a/" + strings.Repeat("r", 50) + "%05d"
	pod.Spec.Containers[0].Resources.Limits = manyResources(1_000, name)
	pod.Annotations = map[string]string{v1alpha1.AnnotationCardName: strings.Repeat("N", 200<<10)}
}

func manyResources(count int, format string) corev1.ResourceList {
	list := make(corev1.ResourceList, count)
	for i := range count {
		list[corev1.ResourceName(fmt.Sprintf(format, i))] = resource.MustParse("1")
	}
	return list
}

func manyGates(count int) []corev1.PodSchedulingGate {
	gates := make([]corev1.PodSchedulingGate, count)
	for i := range gates {
		gates[i].Name = fmt.Sprintf("%s/%s%05d", strings.Repeat("g", 60), strings.Repeat("g", 50), i)
	}
	return gates
}

func manyPorts(count int) []corev1.ContainerPort {
	ports := make([]corev1.ContainerPort, count)
	for i := range ports {
		ports[i] = corev1.ContainerPort{ContainerPort: int32(i + 1), HostPort: int32(i + 1), Protocol: corev1.ProtocolTCP}
	}
	return ports
}

// addManyMetadata adds labels, owners and the annotations that an API server takes, 256 KiB in all.
func addManyMetadata(pod *corev1.Pod) {
	labels := map[string]string{}
	for i := range 3_000 {
		labels[fmt.Sprintf("l%05d", i)] = strings.Repeat("v", 60)
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("o%d", i), UID: "u"})
	}
	maps.Copy(labels, pod.Labels)
	pod.Labels = labels
	pod.Annotations = map[string]string{v1alpha1.AnnotationCardRequest: strings.Repeat("x", 250<<10)}
}
