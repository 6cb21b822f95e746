package cardquota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/workload"
)

const (
	// maxNameLength bounds names of objects and service types, and short words. The name of
	// an object has at most 253 bytes.
	maxNameLength = 253
	// maxResourceNameLength bounds the name of an extended resource: a DNS name, a slash
	// and 63 characters.
	maxResourceNameLength = maxNameLength + 1 + 63
	// maxResources bounds the extended resources of one PodGroup's minResources. Volcano
	// writes three for each resource of a job: the name itself, with "requests." and with
	// "limits.".
	maxResources = 64
)

// keptAnnotations are the annotations of pods and PodGroups that any reader of the cache
// needs, with the maximum length of a valid value.
var keptAnnotations = map[string]int{
	v1alpha1.AnnotationCardName:        card.MaxRequestText,
	v1alpha1.AnnotationCardRequest:     card.MaxQuotaText,
	v1alpha1.AnnotationServiceType:     maxNameLength,
	v1beta1.PodPreemptable:             maxNameLength,
	v1beta1.QueueNameAnnotationKey:     maxNameLength,
	batchv1alpha1.QueueNameKey:         maxNameLength,
	v1alpha1.AnnotationChargedQueue:    maxNameLength,
	v1beta1.KubeGroupNameAnnotationKey: maxNameLength,
	workload.AnnotationOutOfSync:       maxNameLength,
	v1alpha1.AnnotationCheckpointTime:  maxNameLength,
}

// keptLabels are the labels of pods that any reader of the cache needs.
var keptLabels = map[string]int{
	workload.PodTemplateHash:     maxNameLength,
	workload.StockSchedulerLabel: maxNameLength,
	v1beta1.PodPreemptable:       maxNameLength,
}

// CacheOptions strip pods, PodGroups and nodes to what the operator reads. The cache holds
// every pod of the cluster, and tenants write pods and PodGroups, so every kept value is
// bounded.
func CacheOptions() cache.Options {
	shared := &sharedParts{}
	return cache.Options{DefaultTransform: stripOwnKinds, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Field: unfinishedPods(), Transform: transformOnly(func(pod *corev1.Pod) *corev1.Pod {
			return stripPod(pod, shared)
		})},
		&corev1.Node{}:      {Transform: transformOnly(stripNode)},
		&v1beta1.PodGroup{}: {Transform: transformOnly(stripGroup)},
	}}
}

// stripOwnKinds drops what managedFields say of a status with many cards. It is as large as the rest
// of the object, and there may be 50 LocalCardQuotas for each CardQuota. What they say of the spec of
// a CardQuota is read.
func stripOwnKinds(object any) (any, error) {
	switch kept := object.(type) {
	case *v1alpha1.CardQuota:
		kept.ManagedFields = slices.DeleteFunc(kept.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" })
	case *v1alpha1.LocalCardQuota:
		kept.ManagedFields = nil
	}
	return object, nil
}

// unfinishedPods selects the pods that may hold cards or be pending.
func unfinishedPods() fields.Selector {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
}

// transformOnly returns a cache transform for one type. Other objects, such as tombstones,
// stay unchanged.
func transformOnly[T any](strip func(*T) *T) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(*T); ok {
			return strip(typed), nil
		}
		return object, nil
	}
}

// stripPod keeps what package workload, the usage count and package enforcement read. Parts that are
// equal to those of other pods are shared.
func stripPod(pod *corev1.Pod, shared *sharedParts) *corev1.Pod {
	meta := stripMeta(pod.ObjectMeta, keptLabels)
	shared.shareMeta(&meta)
	meta.ManagedFields = enforcement.ReducedManagedFields(pod)
	return &corev1.Pod{
		TypeMeta:   pod.TypeMeta,
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName:        pod.Spec.NodeName,
			SchedulerName:   truncateOneOver(pod.Spec.SchedulerName, maxNameLength),
			SchedulingGates: pod.Spec.SchedulingGates[:min(1, len(pod.Spec.SchedulingGates))],
			Containers:      shared.shareContainers(pod.Spec.Containers),
			InitContainers:  shared.shareContainers(pod.Spec.InitContainers),
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

// stripNode keeps what recognises cards, and whether the node is Ready and takes new pods.
// The capacity says how many cards are broken.
func stripNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta, Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity},
	}
	kept.ManagedFields = nil
	if card.IsNodeReady(node) {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return kept
}

// stripGroup keeps what the usage count and admission read. A tenant can write any field of
// a PodGroup, also its status.
func stripGroup(group *v1beta1.PodGroup) *v1beta1.PodGroup {
	kept := &v1beta1.PodGroup{
		TypeMeta:   group.TypeMeta,
		ObjectMeta: stripMeta(group.ObjectMeta, nil),
		Spec: v1beta1.PodGroupSpec{
			Queue: truncateOneOver(group.Spec.Queue, maxNameLength), MinMember: group.Spec.MinMember, MinResources: stripMinResources(group.Spec.MinResources),
		},
		Status: v1beta1.PodGroupStatus{Phase: truncateOneOver(group.Status.Phase, maxNameLength), Running: group.Status.Running},
	}
	if why, blocked := cardquota.PodGroupPendingReason(group); blocked {
		kept.Status.Conditions = []v1beta1.PodGroupCondition{{
			Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue,
			Reason: conditions.Truncate(why.Reason, cardquota.MaxReasonLength), Message: conditions.Truncate(why.Message, conditions.MaxMessageLength),
		}}
	}
	return kept
}

// stripMinResources keeps the resources that can be cards: extended ones, the
// alphabetically first maxResources.
func stripMinResources(minimum *corev1.ResourceList) *corev1.ResourceList {
	if minimum == nil {
		return nil
	}
	var names []corev1.ResourceName
	for name := range *minimum {
		if strings.Contains(string(name), "/") && len(name) <= maxResourceNameLength {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	kept := corev1.ResourceList{}
	for _, name := range names[:min(len(names), maxResources)] {
		kept[name] = (*minimum)[name]
	}
	return &kept
}

// stripMeta keeps the metadata of a tenant's object that the operator reads, within bounds.
func stripMeta(meta metav1.ObjectMeta, labels map[string]int) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		DeletionGracePeriodSeconds: meta.DeletionGracePeriodSeconds,
		Labels:                     stripMap(labels, meta.Labels), Annotations: stripMap(keptAnnotations, meta.Annotations),
	}
	if owner := metav1.GetControllerOf(&meta); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: truncateOneOver(owner.APIVersion, maxNameLength), Kind: truncateOneOver(owner.Kind, maxNameLength), Name: truncateOneOver(owner.Name, maxNameLength),
			UID: truncateOneOver(owner.UID, maxNameLength), Controller: owner.Controller,
		}}
	}
	return kept
}

func stripMap(keep map[string]int, from map[string]string) map[string]string {
	var kept map[string]string
	for key, maxBytes := range keep {
		if value, ok := from[key]; ok {
			if kept == nil {
				kept = make(map[string]string, 1)
			}
			kept[key] = truncateOneOver(value, maxBytes)
		}
	}
	return kept
}

// truncateOneOver keeps one byte more than a valid text has, so that a text that is too
// long stays too long.
func truncateOneOver[S ~string](text S, maxBytes int) S {
	if len(text) <= maxBytes {
		return text
	}
	return S(strings.Clone(string(text[:maxBytes+1]))) // do not keep the whole text alive
}
