package action

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// keepsApart tells that two pods cannot be on one node: they want the same port
// of it, or one of them keeps apart from such as the other.
func keepsApart(a, b *corev1.Pod) bool {
	ports := hostPorts(&a.Spec)
	return slices.ContainsFunc(hostPorts(&b.Spec), func(port string) bool { return slices.Contains(ports, port) }) || avoids(a, b) || avoids(b, a)
}

// hostPorts lists the ports of its node that a pod wants.
func hostPorts(spec *corev1.PodSpec) []string {
	var ports []string
	for i := range spec.Containers {
		for _, port := range spec.Containers[i].Ports {
			if port.HostPort > 0 {
				ports = append(ports, fmt.Sprintf("%s/%d", port.Protocol, port.HostPort))
			}
		}
	}
	return ports
}

// avoids tells that a pod must not share its node with another one. Terms over
// namespaces by their labels are left to Volcano to find.
func avoids(pod, other *corev1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		if own := len(term.Namespaces) == 0 && pod.Namespace == other.Namespace; !own && !slices.Contains(term.Namespaces, other.Namespace) {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		return err == nil && term.TopologyKey == corev1.LabelHostname && selector.Matches(labels.Set(other.Labels))
	})
}

// waitsFor tells that a pod cannot be on a node only because pods that are on
// their way out are still there: beside them it could not be, or there are as
// many pods as the node takes. It waits for them, and nobody else is to go.
func (w *wave) waitsFor(c *claim, node *api.NodeInfo) bool {
	leaving := false
	for _, task := range node.Tasks {
		if w.onTheirWay[task.UID] {
			leaving = true
			if keepsApart(c.tasks[0].Pod, task.Pod) {
				return true
			}
		}
	}
	return leaving && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
