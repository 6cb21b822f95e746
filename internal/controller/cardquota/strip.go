package cardquota

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
)

// CacheOptions keep of the cluster's pods, PodGroups and nodes only what is
// counted: unfinished pods, without the parts that say how they run. Caches hold
// every pod of the cluster, so every field counts ten thousand times; and who may
// make pods and PodGroups decides what is in them, so that nothing is kept of any
// length.
func CacheOptions() cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field:     unfinished(),
			Transform: strip(stripPod),
		},
		&corev1.Node{}:      {Transform: strip(stripNode)},
		&v1beta1.PodGroup{}: {Transform: strip(stripGroup)},
	}}
}

// unfinished selects the pods that may hold cards or wait for them.
func unfinished() fields.Selector {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
}

// strip makes a cache transform of a function over one type; anything else (a
// tombstone) passes.
func strip[T any](keep func(*T) *T) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(*T); ok {
			return keep(typed), nil
		}
		return object, nil
	}
}

// stripPod keeps what the decision table, the recount and the proof of
// enforcement read.
func stripPod(pod *corev1.Pod) *corev1.Pod {
	meta := tenantsMeta(pod.ObjectMeta, keptLabels)
	meta.ManagedFields = enforcement.Reduce(pod)
	return &corev1.Pod{
		TypeMeta:   pod.TypeMeta,
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName:        pod.Spec.NodeName,
			SchedulerName:   clipped(pod.Spec.SchedulerName, longestName),
			SchedulingGates: pod.Spec.SchedulingGates[:min(1, len(pod.Spec.SchedulingGates))],
			Containers:      stripContainers(pod.Spec.Containers),
			InitContainers:  stripContainers(pod.Spec.InitContainers),
			Overhead:        pod.Spec.Overhead,
			Resources:       pod.Spec.Resources,
		},
		Status: corev1.PodStatus{
			Phase:                 pod.Status.Phase,
			Conditions:            pod.Status.Conditions,
			Resize:                pod.Status.Resize,
			ContainerStatuses:     stripStatuses(pod.Status.ContainerStatuses),
			InitContainerStatuses: stripStatuses(pod.Status.InitContainerStatuses),
		},
	}
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(containers))
	for i, c := range containers {
		kept[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return kept
}

// stripStatuses keeps what an in-place resize changes.
func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		if s.Resources != nil || s.AllocatedResources != nil {
			kept = append(kept, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources})
		}
	}
	return kept
}

// stripNode keeps what cards are recognised by, and whether the node is Ready.
func stripNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		TypeMeta:   node.TypeMeta,
		ObjectMeta: stripMeta(node.ObjectMeta),
		Status:     corev1.NodeStatus{Allocatable: node.Status.Allocatable},
	}
	if card.Ready(node) {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return kept
}

func stripMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.ManagedFields = nil
	return meta
}
