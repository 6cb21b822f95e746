package workload

import corev1 "k8s.io/api/core/v1"

// Pods of Volcano's own scheduler carry this label, as its installer and its Helm
// chart write it.
const (
	StockSchedulerLabel = "app"
	StockSchedulerApp   = "volcano-scheduler"
	// StockSchedulerNamespace is where they install it.
	StockSchedulerNamespace = "volcano-system"
)

// AtWork tells that what runs in a pod may be at work, as another scheduler may.
// A pod without a node has not started, one that ended will not start again; one
// that is being deleted works until it is gone.
func AtWork(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
