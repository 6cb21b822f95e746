package workload

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// The priority classes of pods that keep a cluster alive (Kubernetes,
// pkg/apis/scheduling).
const (
	systemClusterCritical = "system-cluster-critical"
	systemNodeCritical    = "system-node-critical"
)

// Evictable tells whether a running pod may be evicted for another at all: its
// owner allows it on the pod and on the PodGroup, and the cluster does not
// depend on it. group are the annotations of its PodGroup.
//
// The pod's annotation and label volcano.sh/preemptable have Volcano's meaning
// (pkg/scheduler/api/pod_info.go, GetPodPreemptable): the annotation goes
// before the label, a value that is no boolean protects. What is critical is
// what Volcano's plugin conformance protects.
func Evictable(pod *corev1.Pod, group map[string]string) bool {
	switch {
	case pod.Spec.PriorityClassName == systemClusterCritical, pod.Spec.PriorityClassName == systemNodeCritical:
		return false
	case pod.Namespace == metav1.NamespaceSystem:
		return false
	}
	value, set := pod.Annotations[v1beta1.PodPreemptable]
	if !set {
		value, set = pod.Labels[v1beta1.PodPreemptable]
	}
	ofGroup, setByGroup := group[v1beta1.PodPreemptable]
	return allows(value, set) && allows(ofGroup, setByGroup)
}

func allows(value string, set bool) bool {
	if !set {
		return true
	}
	preemptable, err := strconv.ParseBool(value)
	return err == nil && preemptable
}

// AnnotationOutOfSync on a pod of a vcjob, with any value, makes Volcano's job
// controller replace the pod. Unlike an eviction it fires none of the job's policies
// and counts no retry.
const AnnotationOutOfSync = "volcano.sh/controller-out-of-sync"

// ToldToGo tells that a pod of a vcjob is marked for Volcano's job controller,
// which deletes it and makes another one in its place without counting a retry
// of the job (pkg/controllers/job, IsOutOfSyncPod: any value of the annotation).
func ToldToGo(pod *corev1.Pod) bool {
	_, marked := pod.Annotations[AnnotationOutOfSync]
	return marked
}

// EvictedSince tells since when a pod says that a scheduler evicts it, false when it
// does not say so. Volcano's evictor writes that before it deletes the pod, and does
// nothing about a pod that says it already.
func EvictedSince(pod *corev1.Pod) (time.Time, bool) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}
