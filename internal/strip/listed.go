package strip

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
)

const (
	// maxListedBytes bounds a pod in a list as it is encoded, and the labels and annotations of a PodGroup.
	maxListedBytes = 64 << 10
	// maxHostPorts bounds the host ports of a pod in a list, and maxImageLength the name of its image.
	maxHostPorts   = 256
	maxImageLength = 1024
	// maxListedConditions bounds the conditions of a PodGroup in a list. The newest are the last ones.
	maxListedConditions = 8
)

// ListedPod drops from a pod what neither a command nor the simulated scheduler reads: what only matters to
// the kubelet. Of a pod that is large all the same it keeps what Pod does, and its priority.
func ListedPod(pod *corev1.Pod) {
	pod.ManagedFields = enforcement.ReducedManagedFields(pod)
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	// Volcano's plugins read the image and the host ports of a pod, which folding drops.
	image := firstImage(pod.Spec.Containers)
	ports := hostPorts(pod.Spec.Containers)

	FoldContainers(pod)
	pod.Spec.Volumes = attachedVolumes(pod.Spec.Volumes)
	pod.Status.PodIPs = nil
	pod.Status.HostIPs = nil
	if pod.Size() > maxListedBytes {
		*pod = *smallPod(pod)
	}

	folded := &pod.Spec.Containers[0]
	folded.Image = image
	folded.Ports = ports

	// Plugins of Volcano read the limits of extended resources, which are equal to the requests.
	folded.Resources.Limits = folded.Resources.Requests
}

// smallPod returns what Pod does, with what decides the order of pods.
func smallPod(pod *corev1.Pod) *corev1.Pod {
	small := Pod(pod)
	small.Spec.Priority = pod.Spec.Priority
	small.Spec.PriorityClassName = pod.Spec.PriorityClassName
	small.Spec.PreemptionPolicy = pod.Spec.PreemptionPolicy
	small.Status.NominatedNodeName = pod.Status.NominatedNodeName
	small.Status.QOSClass = pod.Status.QOSClass
	return small
}

// firstImage returns the image of the first container, within bounds.
func firstImage(containers []corev1.Container) string {
	if len(containers) == 0 {
		return ""
	}
	return truncateOneOver(containers[0].Image, maxImageLength)
}

// hostPorts returns the ports that a pod takes on its node.
func hostPorts(containers []corev1.Container) []corev1.ContainerPort {
	var taken []corev1.ContainerPort
	for i := range containers {
		for _, port := range containers[i].Ports {
			if port.HostPort > 0 && len(taken) < maxHostPorts {
				taken = append(taken, corev1.ContainerPort{
					HostPort: port.HostPort, ContainerPort: port.ContainerPort, Protocol: port.Protocol, HostIP: truncateOneOver(port.HostIP, maxNameLength),
				})
			}
		}
	}
	return taken
}

// attachedVolumes returns the volumes that may tie a pod to some nodes: all but those that each node makes
// for the pod.
func attachedVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		if !isMadeByNode(&v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// isMadeByNode reports whether each node makes the volume for the pod.
func isMadeByNode(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// listedGroupAnnotations are the annotations of a PodGroup that are kept of too many.
var listedGroupAnnotations = map[string]int{
	v1alpha1.AnnotationCardRequest: card.MaxTotalsText,
	v1alpha1.AnnotationServiceType: maxNameLength,
	v1beta1.PodPreemptable:         maxNameLength,
}

// ListedPodGroup drops from a PodGroup what no command reads, and bounds the rest. A tenant can write any
// field of it.
func ListedPodGroup(group *v1beta1.PodGroup) {
	group.ManagedFields = nil
	if textBytes(group.Labels)+textBytes(group.Annotations) > maxListedBytes {
		group.Labels = stripMap(podLabels, group.Labels)
		group.Annotations = stripMap(listedGroupAnnotations, group.Annotations)
	}

	group.Spec.MinResources = boundMinResources(group.Spec.MinResources)

	newest := group.Status.Conditions[max(0, len(group.Status.Conditions)-maxListedConditions):]
	group.Status.Conditions = slices.Clone(newest)
	for i := range group.Status.Conditions {
		c := &group.Status.Conditions[i]
		c.Reason = conditions.Truncate(c.Reason, maxNameLength)
		c.Message = conditions.Truncate(c.Message, maxPodMessage)
	}
}

// boundMinResources keeps the resources of a minimum that matter most.
func boundMinResources(minimum *corev1.ResourceList) *corev1.ResourceList {
	if minimum == nil || len(*minimum) <= maxResources {
		return minimum
	}
	kept := boundRequests(*minimum)
	return &kept
}

// textBytes returns how long some labels or annotations are together, with their keys.
func textBytes(texts map[string]string) int {
	total := 0
	for key, value := range texts {
		total += len(key) + len(value)
	}
	return total
}
