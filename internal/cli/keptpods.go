package cli

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"cardquota.dev/operator/internal/enforcement"
)

// maxSharedLists bounds how many lists of resources are known. Users can write any number of them.
const maxSharedLists = 10_000

// keptPods drops from the objects of a list what neither a command nor the simulated scheduler reads.
// The resources of a pod take more memory than the rest of what stays, so pods share equal lists.
// Nothing changes the resources of a listed pod.
type keptPods struct {
	lists map[string]corev1.ResourceList
}

// dropUnread drops what is not read of an object.
func (k *keptPods) dropUnread(object runtime.Object) error {
	if pod, ok := object.(*corev1.Pod); ok {
		k.dropUnreadOfPod(pod)
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	accessor.SetManagedFields(nil)
	return nil
}

// dropUnreadOfPod drops what only matters to the kubelet: programs, files and their states.
func (k *keptPods) dropUnreadOfPod(pod *corev1.Pod) {
	pod.ManagedFields = enforcement.ReducedManagedFields(pod)
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	spec, status := &pod.Spec, &pod.Status
	spec.InitContainers, spec.Containers, spec.EphemeralContainers = k.keepContainers(spec.InitContainers), k.keepContainers(spec.Containers), nil
	spec.Volumes = attachedVolumes(spec.Volumes)
	status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses = k.keepResized(status.InitContainerStatuses), k.keepResized(status.ContainerStatuses), nil
	status.PodIPs, status.HostIPs = nil, nil
}

// keepContainers returns what the scheduler reads of containers.
func (k *keptPods) keepContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		kept = append(kept, corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: k.shareResources(c.Resources), RestartPolicy: c.RestartPolicy})
	}
	return kept
}

// keepResized returns what an in-place resize changes.
func (k *keptPods) keepResized(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		if s.Resources == nil && s.AllocatedResources == nil {
			continue
		}
		resized := corev1.ContainerStatus{Name: s.Name, AllocatedResources: k.shareList(s.AllocatedResources)}
		if s.Resources != nil {
			resources := k.shareResources(*s.Resources)
			resized.Resources = &resources
		}
		kept = append(kept, resized)
	}
	return kept
}

// shareResources returns resources that are equal to the given ones.
func (k *keptPods) shareResources(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: k.shareList(r.Requests), Limits: k.shareList(r.Limits), Claims: r.Claims}
}

// shareList returns a list that is equal to the given one.
func (k *keptPods) shareList(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return nil
	}
	var key []byte
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		key = fmt.Appendf(key, "%s=%s,", name, quantity.String())
	}
	if known, ok := k.lists[string(key)]; ok {
		return known
	}
	if k.lists == nil || len(k.lists) >= maxSharedLists {
		k.lists = map[string]corev1.ResourceList{} // pods keep what they have
	}
	k.lists[string(key)] = list
	return list
}

// attachedVolumes returns the volumes that may tie a pod to some nodes: all but those that each node makes
// for the pod.
func attachedVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		if v.EmptyDir == nil && v.HostPath == nil && v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && v.DownwardAPI == nil {
			kept = append(kept, v)
		}
	}
	return kept
}
