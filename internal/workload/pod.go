package workload

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// Counted tells whether a pod holds its cards now: it is assigned to a node,
// has not finished and is not being deleted. These are the states that Volcano
// calls allocated (Bound and Running); a pod that is terminating gives its
// quota back at once, while its cards stay busy on the node (see Ending).
func Counted(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == "")
}

// Waiting tells whether a pod waits for a node and nothing but a scheduler
// keeps it waiting: gated pods are not waiting.
func Waiting(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
}

// PodGroupName returns the name of the pod's PodGroup in the pod's namespace,
// "" when it has none yet.
func PodGroupName(pod *corev1.Pod) string { return pod.Annotations[v1alpha1.AnnotationPodGroup] }

// ChargedQueue returns the queue that was written into a pod when it was bound
// to its node, "" for a pod that has none, or was bound by somebody else.
//
// Our scheduler overwrites whatever stands there when it binds the pod. Besides, who
// made a pod may have written it where our scheduler never bound it: a pod of another
// scheduler, or one that was created with its node. Admission refuses both while its
// rules are in force (package bypass), and changes to whoever may not update Queues;
// it does not where they only warn, or for exempt accounts, and did not in older
// versions. So Trust believes it of pods of our schedulers alone.
func ChargedQueue(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "" // whoever made the pod wrote it
	}
	return pod.Annotations[v1alpha1.AnnotationChargedQueue]
}

// QueueOf returns the queue that pays for a pod: the one that was last charged,
// where that is known; else the one that was written down when it was bound;
// else its PodGroup's queue; without a PodGroup (it is deleted for a moment while
// a vcjob restarts) the one its own annotations name. "" is no queue: the pod was
// placed by somebody else and names none.
func QueueOf(pod *corev1.Pod, group *v1beta1.PodGroup, lastCharged string) string {
	charged := ChargedQueue(pod)
	switch {
	case lastCharged != "":
		return lastCharged
	case charged != "":
		return charged
	case group != nil:
		return QueueOfGroup(group)
	case pod.Annotations[v1alpha1.AnnotationQueueName] != "":
		return pod.Annotations[v1alpha1.AnnotationQueueName]
	default:
		return pod.Annotations[v1alpha1.AnnotationJobQueueName]
	}
}

// QueueOfGroup returns the queue of a PodGroup.
func QueueOfGroup(group *v1beta1.PodGroup) string {
	if group.Spec.Queue != "" {
		return group.Spec.Queue
	}
	return DefaultQueue
}

// DefaultQueue is the queue of a PodGroup that names none, as in Volcano.
const DefaultQueue = "default"

// ServiceTypeOf returns the service type of a workload from the annotations of
// its queue, pod and PodGroup. The queue's decides when it has one, so that a
// workload can never claim more than its queue grants; otherwise the pod's,
// then the PodGroup's, then the one that its owner's kind stands for.
func ServiceTypeOf(queue, pod, group map[string]string, ofOwner string) string {
	for _, annotations := range []map[string]string{queue, pod, group} {
		if name := annotations[v1alpha1.AnnotationServiceType]; name != "" {
			return name
		}
	}
	return ofOwner
}
