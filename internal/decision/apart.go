package decision

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// KeepApart tells that two pods cannot be on one node: they want the same port
// of it, or one of them keeps apart from such as the other.
func KeepApart(a, b *corev1.Pod) bool {
	ports := HostPorts(&a.Spec)
	return slices.ContainsFunc(HostPorts(&b.Spec), func(port string) bool { return slices.Contains(ports, port) }) || avoids(a, b) || avoids(b, a)
}

// HostPorts lists the ports of its node that a pod wants, as protocol/port.
func HostPorts(spec *corev1.PodSpec) []string {
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
