package strip

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/workload"
)

// podAnnotations are the annotations of pods that a reader of the cache needs, with the maximum length of a
// valid value.
var podAnnotations = map[string]int{
	v1alpha1.AnnotationCardName:        card.MaxRequestText,
	v1alpha1.AnnotationServiceType:     maxNameLength,
	v1beta1.PodPreemptable:             maxNameLength,
	v1beta1.QueueNameAnnotationKey:     maxNameLength,
	batchv1alpha1.QueueNameKey:         maxNameLength,
	v1alpha1.AnnotationChargedQueue:    maxNameLength,
	v1beta1.KubeGroupNameAnnotationKey: maxNameLength,
	workload.AnnotationOutOfSync:       maxNameLength,
	v1alpha1.AnnotationCheckpointTime:  maxNameLength,
}

// podLabels are the labels of pods that a reader of the cache needs.
var podLabels = map[string]int{
	workload.PodTemplateHash:     maxNameLength,
	workload.StockSchedulerLabel: maxNameLength,
	v1beta1.PodPreemptable:       maxNameLength,
}

// maxPodMessage bounds why a pod waits, in bytes. A refusal names up to 16 cards of 160 bytes.
const maxPodMessage = 4 << 10

// Pod returns what package workload, the usage count and package enforcement read of a pod: at most some
// 30 KiB, and usually two.
func Pod(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		TypeMeta: pod.TypeMeta, ObjectMeta: stripMeta(&pod.ObjectMeta, podLabels, podAnnotations),
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, SchedulerName: truncateOneOver(pod.Spec.SchedulerName, maxNameLength),
			Containers: pod.Spec.Containers, InitContainers: pod.Spec.InitContainers, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime,
			ContainerStatuses: pod.Status.ContainerStatuses, InitContainerStatuses: pod.Status.InitContainerStatuses,
		},
	}
	FoldContainers(kept)

	kept.ManagedFields = enforcement.ReducedManagedFields(pod)
	kept.Status.Conditions = stripConditions(pod.Status.Conditions)
	if len(pod.Spec.SchedulingGates) > 0 {
		kept.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: truncateOneOver(pod.Spec.SchedulingGates[0].Name, maxResourceNameLength)}}
	}

	return kept
}

// PodMetadata returns a pod of which only the metadata is known, with what Pod keeps of that.
func PodMetadata(meta *metav1.ObjectMeta) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: stripMeta(meta, nil, podAnnotations)}
}

// stripConditions keeps the conditions that say whether a scheduler has placed the pod, and why not, and
// whether its node can resize it.
func stripConditions(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodResizePending} {
		i := slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == kind })
		if i < 0 {
			continue
		}

		c := &all[i]
		kept = append(kept, corev1.PodCondition{
			Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: conditions.Truncate(c.Reason, maxNameLength), Message: conditions.Truncate(c.Message, maxPodMessage),
		})
	}

	return kept
}
