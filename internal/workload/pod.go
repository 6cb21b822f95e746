// Package workload turns pods, PodGroups and Queues into the terms of card quota: which queue a
// pod is charged to, which card it uses, and why it may be refused.
//
// The scheduler, the operator and the tests' observer share these rules, so they cannot
// disagree about one object. table_test.go lists the rules, one a line.
package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// IsAssigned reports whether a pod uses its quota: it has a node, has not finished and is not
// terminating. Volcano calls these states allocated (Bound and Running). A terminating pod
// releases its quota at once, while its cards stay in use on the node (see IsTerminating).
func IsAssigned(pod *corev1.Pod) bool {
	isUnfinished := isPendingPhase(pod.Status.Phase) || pod.Status.Phase == corev1.PodRunning
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && isUnfinished
}

// IsPending reports whether a pod waits for a scheduler to place it. A pod with scheduling
// gates does not.
func IsPending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		isPendingPhase(pod.Status.Phase)
}

// isPendingPhase reports whether a phase is Pending, or not set yet.
func isPendingPhase(phase corev1.PodPhase) bool { return phase == corev1.PodPending || phase == "" }

// IsPodGroupPending reports whether a PodGroup, of which there are no pods, waits to be enqueued or for
// its pods.
func IsPodGroupPending(group *v1beta1.PodGroup) bool {
	switch group.Status.Phase {
	case v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, "":
		return group.DeletionTimestamp == nil
	default:
		return false
	}
}

// PodGroupName returns the name of the pod's PodGroup in the pod's namespace,
// "" when it has none yet.
func PodGroupName(pod *corev1.Pod) string { return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] }

// ChargedQueue returns the queue that the scheduler wrote into a pod when it bound the pod, ""
// for a pod without one.
//
// Our scheduler overwrites the annotation when it binds a pod. In a pod that it never bound,
// the creator may have written it: admission denies that, except for exempt accounts and where
// its rules only warn. So a Resolver trusts it only in pods of our schedulers.
func ChargedQueue(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "" // the creator of the pod wrote it
	}
	return pod.Annotations[v1alpha1.AnnotationChargedQueue]
}

// PodGroupQueue returns the queue of a PodGroup.
func PodGroupQueue(group *v1beta1.PodGroup) string {
	return cmp.Or(group.Spec.Queue, DefaultQueue)
}

// DefaultQueue is the queue of a PodGroup that names none, as in Volcano.
const DefaultQueue = "default"

// ServiceTypeFor returns the service type of a workload from the annotations of its queue, pod
// and PodGroup. The queue's type wins, so that a workload never gets more than its queue
// grants. Then come the pod's, the PodGroup's, and ofOwner, the type of the owner's kind.
func ServiceTypeFor(queue, pod, group map[string]string, ofOwner string) string {
	for _, annotations := range []map[string]string{queue, pod, group} {
		if name := annotations[v1alpha1.AnnotationServiceType]; name != "" {
			return name
		}
	}
	return ofOwner
}

// IsTerminating reports whether a pod is being deleted and may still use cards: it has a node
// and has not finished. Cards of a node that is not ready do not count, see NodeReady.
func IsTerminating(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && MayBeRunning(pod)
}

// StillRuns reports whether a pod with a node counts as running, for bills. The kubelet of a ready node
// removes a pod only after its containers ended. No other node says when they end, so a terminating
// pod counts there until its deletionTimestamp: the end of its grace period.
func StillRuns(pod *corev1.Pod, isNodeReady bool, now time.Time) bool {
	return MayBeRunning(pod) && (pod.DeletionTimestamp == nil || isNodeReady || pod.DeletionTimestamp.After(now))
}

// NodeReady reports whether a node's kubelet is ready. The cards of any other node are
// unusable, and its pods cannot terminate, whatever their owner does. A node without the
// condition counts as ready.
func NodeReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// TerminationGracePeriod returns how long a pod may take to terminate: as its deletion says,
// otherwise as the pod says.
func TerminationGracePeriod(pod *corev1.Pod) time.Duration {
	seconds := cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](corev1.DefaultTerminationGracePeriodSeconds))
	// Users can write more seconds than a Duration holds, so a century is the most.
	return time.Duration(min(max(*seconds, 0), 100*366*24*3600)) * time.Second
}

// StartTime returns when the kubelet started a pod, before its init containers, else when the pod
// got its node; zero if unknown. Only the kubelet and the API server write either.
func StartTime(pod *corev1.Pod) time.Time {
	if start := pod.Status.StartTime; start != nil {
		return start.Time
	}
	return BoundTime(pod)
}

// BoundTime returns when the API server bound a pod to its node, zero if the pod does not say.
func BoundTime(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// EndsBefore reports whether the kubelet ends a pod before a time, because of its activeDeadlineSeconds.
func EndsBefore(pod *corev1.Pod, at time.Time) bool {
	deadline := pod.Spec.ActiveDeadlineSeconds
	start := pod.Status.StartTime
	if deadline == nil || start == nil || *deadline > math.MaxInt32 { // a Duration may not hold more seconds
		return false
	}
	return start.Add(time.Duration(*deadline) * time.Second).Before(at)
}

// Pods of Volcano's own scheduler carry this label, as its installer and its Helm
// chart write it.
const (
	StockSchedulerLabel = "app"
	StockSchedulerApp   = "volcano-scheduler"
	// StockSchedulerNamespace is where they install it.
	StockSchedulerNamespace = "volcano-system"
)

// IsFinished reports whether all containers of a pod have ended for good.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// MayBeRunning reports whether containers of a pod may be running: it has a node and has not
// finished. A terminating pod may run until it is gone.
func MayBeRunning(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !IsFinished(pod)
}

// ConflictOnNode reports whether two pods cannot share a node, because of a host port or of
// required pod anti-affinity.
func ConflictOnNode(a, b *corev1.Pod) bool {
	return ConflictBetweenNodes(a, b, true, func(key string) bool { return key == corev1.LabelHostname })
}

// ConflictBetweenNodes is ConflictOnNode for pods on two nodes. sameNode says that the nodes
// are one, sameTopology that they have the same value of a label.
func ConflictBetweenNodes(a, b *corev1.Pod, sameNode bool, sameTopology func(key string) bool) bool {
	ports := HostPorts(&a.Spec)
	return (sameNode && slices.ContainsFunc(HostPorts(&b.Spec), func(port string) bool { return slices.Contains(ports, port) })) ||
		violatesAntiAffinity(a, b, sameTopology) || violatesAntiAffinity(b, a, sameTopology)
}

// HostPorts returns the host ports that a pod requests, as protocol/port.
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

// violatesAntiAffinity reports whether required anti-affinity keeps a pod away from another
// one. It ignores a namespaceSelector, because pods have no labels of their namespace: Volcano checks that
// itself.
func violatesAntiAffinity(pod, other *corev1.Pod, sameTopology func(key string) bool) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		if own := len(term.Namespaces) == 0 && pod.Namespace == other.Namespace; !own && !slices.Contains(term.Namespaces, other.Namespace) {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		return err == nil && sameTopology(term.TopologyKey) && selector.Matches(labels.Set(other.Labels))
	})
}

// RequiredAffinityTerms returns the required affinity and anti-affinity terms of a pod.
func RequiredAffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
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
