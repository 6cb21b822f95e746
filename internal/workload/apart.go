package workload

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
	return KeepApartWhere(a, b, true, func(key string) bool { return key == corev1.LabelHostname })
}

// KeepApartWhere is KeepApart for two nodes. same tells that they are one, near
// that they have the same value of a label.
func KeepApartWhere(a, b *corev1.Pod, same bool, near func(key string) bool) bool {
	ports := HostPorts(&a.Spec)
	return same && slices.ContainsFunc(HostPorts(&b.Spec), func(port string) bool { return slices.Contains(ports, port) }) ||
		avoids(a, b, near) || avoids(b, a, near)
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

// avoids tells that a pod must not be near another one. Terms over namespaces by
// their labels are left to Volcano to find.
func avoids(pod, other *corev1.Pod, near func(key string) bool) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		if own := len(term.Namespaces) == 0 && pod.Namespace == other.Namespace; !own && !slices.Contains(term.Namespaces, other.Namespace) {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		return err == nil && near(term.TopologyKey) && selector.Matches(labels.Set(other.Labels))
	})
}

// Terms lists what a pod requires of its neighbours, near or far.
func Terms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil {
		return nil
	}
	var terms []corev1.PodAffinityTerm
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}
