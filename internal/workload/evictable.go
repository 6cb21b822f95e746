package workload

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// The priority classes of pods that keep a cluster alive (Kubernetes,
// pkg/apis/scheduling).
const (
	SystemClusterCritical = "system-cluster-critical"
	SystemNodeCritical    = "system-node-critical"
)

// IsEvictable reports whether a scheduler may evict a running pod for another one. The owner
// must allow it on the pod and on the PodGroup, and the cluster must not depend on the pod.
// group has the annotations of its PodGroup.
//
// The pod's annotation and label volcano.sh/preemptable have Volcano's meaning
// (pkg/scheduler/api/pod_info.go, GetPodPreemptable): the annotation wins over the label, and a
// value that is no boolean protects the pod. The critical pods are those that Volcano's plugin
// conformance protects.
func IsEvictable(pod *corev1.Pod, group map[string]string) bool {
	if IsCritical(pod) {
		return false
	}
	value, set := pod.Annotations[v1beta1.PodPreemptable]
	if !set {
		value, set = pod.Labels[v1beta1.PodPreemptable]
	}
	return allowsPreemption(value, set) && GroupAllowsEviction(group)
}

// GroupAllowsEviction reports whether the annotations of a PodGroup let a scheduler evict its
// pods for others.
func GroupAllowsEviction(group map[string]string) bool {
	value, set := group[v1beta1.PodPreemptable]
	return allowsPreemption(value, set)
}

// IsCritical reports whether the cluster depends on a pod. Such a pod is never evicted.
func IsCritical(pod *corev1.Pod) bool {
	class := pod.Spec.PriorityClassName
	return class == SystemClusterCritical || class == SystemNodeCritical || pod.Namespace == metav1.NamespaceSystem
}

// allowsPreemption reports whether a value of volcano.sh/preemptable lets a pod be evicted, as one that is not
// set does.
func allowsPreemption(value string, set bool) bool {
	if !set {
		return true
	}
	preemptable, err := strconv.ParseBool(value)
	return err == nil && preemptable
}

// AnnotationOutOfSync on a pod of a vcjob, with any value, makes Volcano's job
// controller replace the pod (pkg/controllers/job, IsOutOfSyncPod), see EvictionPolicy.
const AnnotationOutOfSync = "volcano.sh/controller-out-of-sync"

// IsMarkedOutOfSync reports whether a pod of a vcjob carries AnnotationOutOfSync.
func IsMarkedOutOfSync(pod *corev1.Pod) bool {
	_, marked := pod.Annotations[AnnotationOutOfSync]
	return marked
}

// EvictedSince returns when a scheduler marked a pod for eviction, and false for a pod without
// that mark. Volcano's evictor writes the mark before it deletes the pod, and skips a pod that
// has it.
func EvictedSince(pod *corev1.Pod) (time.Time, bool) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// EvictionPolicy is how a job reacts to the eviction of its pods.
//
// The rules are those of Volcano's job controller v1.14.1 (pkg/controllers/job). A deleted pod
// raises PodEvicted, and before that, when its containers end, PodFailed or TaskCompleted. Each
// policy that reacts counts as a retry of the job, and after spec.maxRetry of them the job is
// Failed for good. A pod that carries AnnotationOutOfSync raises none of these events.
type EvictionPolicy struct {
	// Inelastic jobs do not continue without some of their pods: a policy ends or restarts pods
	// when one is evicted.
	Inelastic bool
	// Terminates reports whether the job's policy ends the job on eviction. The scheduler
	// deletes the pods of such a job, so that the policy sees it, and recreates those of other
	// jobs, so that no policy reacts.
	Terminates bool
}

// EvictionPolicyFor returns the eviction policy of a job. The policies of a task win over those
// of the job.
func EvictionPolicyFor(job *batch.Job) EvictionPolicy {
	ofJob, _ := evictionPolicyIn(job.Spec.Policies)
	if len(job.Spec.Tasks) == 0 {
		return ofJob
	}

	var policy EvictionPolicy
	for i := range job.Spec.Tasks {
		// An eviction can hit a pod of any task, so the most severe reaction counts for the job.
		ofTask, answered := evictionPolicyIn(job.Spec.Tasks[i].Policies)
		if !answered {
			ofTask = ofJob
		}
		policy.Inelastic = policy.Inelastic || ofTask.Inelastic
		policy.Terminates = policy.Terminates || ofTask.Terminates
	}

	return policy
}

// evictionPolicyIn returns how policies react to an eviction, and false when none does. The
// first one that handles evictions decides.
func evictionPolicyIn(policies []batch.LifecyclePolicy) (EvictionPolicy, bool) {
	first := slices.IndexFunc(policies, HandlesEviction)
	if first < 0 {
		return EvictionPolicy{}, false
	}

	switch policies[first].Action {
	// These actions leave the other pods running, so pods above the minimum can go alone.
	case "", bus.SyncJobAction, bus.EnqueueAction:
		return EvictionPolicy{}, true
	case bus.AbortJobAction, bus.TerminateJobAction, bus.CompleteJobAction:
		return EvictionPolicy{Inelastic: true, Terminates: true}, true
	default: // it restarts the job, a task or a pod
		return EvictionPolicy{Inelastic: true}, true
	}
}

// HandlesEviction reports whether a policy reacts to evictions.
func HandlesEviction(policy batch.LifecyclePolicy) bool {
	events := append([]bus.Event{policy.Event}, policy.Events...)
	return slices.Contains(events, bus.PodEvictedEvent) || slices.Contains(events, bus.AnyEvent)
}

// VCJobOwner returns the name of the Volcano job that controls an object, "" when
// none does.
func VCJobOwner(object metav1.Object) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batch.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}

// ManagedByVCJob reports whether Volcano's job controller manages an object as a pod of the job
// that owns it. The controller reads annotations (job_controller_handler.go) and ignores a pod
// that only names the job as its owner.
func ManagedByVCJob(object metav1.Object) bool {
	owner := VCJobOwner(object)
	annotations := object.GetAnnotations()
	_, err := strconv.ParseInt(annotations[batch.JobVersion], 10, 32)
	return owner != "" && annotations[batch.JobNameKey] == owner && err == nil
}
