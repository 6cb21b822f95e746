// Package workload is the table of rules that turns pods, PodGroups, Queues
// and nodes into what card quota means by them: which queue a pod belongs to,
// which card it holds, whether it counts, and why it may be refused.
//
// The scheduler, the operator and the observer of the tests all ask this
// package, so that they can disagree about when they look but never about what
// they see. The rules are spelled out, one line each, in table_test.go.
package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// IsAssigned tells whether a pod holds its cards now: it is assigned to a node,
// has not finished and is not being deleted. These are the states that Volcano
// calls allocated (Bound and Running); a pod that is terminating gives its
// quota back at once, while its cards stay busy on the node (see Ending).
func IsAssigned(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == "")
}

// IsPending tells whether a pod waits for a node and nothing but a scheduler
// keeps it waiting: gated pods are not waiting.
func IsPending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
}

// PodGroupName returns the name of the pod's PodGroup in the pod's namespace,
// "" when it has none yet.
func PodGroupName(pod *corev1.Pod) string { return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] }

// ChargedQueue returns the queue that was written into a pod when it was bound
// to its node, "" for a pod that has none, or was bound by somebody else.
//
// Our scheduler overwrites it when it binds the pod. Who made a pod that our scheduler
// never bound may have written it: admission refuses that, but not where its rules only
// warn, or for exempt accounts. So a Resolver believes it of pods of our schedulers alone.
func ChargedQueue(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "" // whoever made the pod wrote it
	}
	return pod.Annotations[v1alpha1.AnnotationChargedQueue]
}

// PodGroupQueue returns the queue of a PodGroup.
func PodGroupQueue(group *v1beta1.PodGroup) string {
	return cmp.Or(group.Spec.Queue, DefaultQueue)
}

// DefaultQueue is the queue of a PodGroup that names none, as in Volcano.
const DefaultQueue = "default"

// ServiceTypeFor returns the service type of a workload from the annotations of
// its queue, pod and PodGroup. The queue's decides when it has one, so that a
// workload can never claim more than its queue grants; otherwise the pod's,
// then the PodGroup's, then the one that its owner's kind stands for.
func ServiceTypeFor(queue, pod, group map[string]string, ofOwner string) string {
	for _, annotations := range []map[string]string{queue, pod, group} {
		if name := annotations[v1alpha1.AnnotationServiceType]; name != "" {
			return name
		}
	}
	return ofOwner
}

// IsTerminating tells whether a pod that is being deleted may still hold its cards: it
// was given a node and has not finished. The node must be there as well, see
// Works.
func IsTerminating(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && MayBeRunning(pod)
}

// NodeReady tells whether a node's kubelet reports that pods run there. Cards of a
// node that does not are of use to nobody, and its pods are not ending but stuck:
// nothing that their owner does makes them go. A node that does not say is taken
// to work.
func NodeReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// TerminationGracePeriod is how long a pod may take to end: as the deletion says, before that as
// the pod itself does.
func TerminationGracePeriod(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	// Absurd ones are no longer than a century, which a Duration holds.
	return time.Duration(min(max(seconds, 0), 100*366*24*3600)) * time.Second
}

// Pods of Volcano's own scheduler carry this label, as its installer and its Helm
// chart write it.
const (
	StockSchedulerLabel = "app"
	StockSchedulerApp   = "volcano-scheduler"
	// StockSchedulerNamespace is where they install it.
	StockSchedulerNamespace = "volcano-system"
)

// MayBeRunning tells that what runs in a pod may be at work, as another scheduler may.
// A pod without a node has not started, one that ended will not start again; one
// that is being deleted works until it is gone.
func MayBeRunning(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// ConflictOnNode tells that two pods cannot be on one node: they want the same port
// of it, or one of them keeps apart from such as the other.
func ConflictOnNode(a, b *corev1.Pod) bool {
	return ConflictBetweenNodes(a, b, true, func(key string) bool { return key == corev1.LabelHostname })
}

// ConflictBetweenNodes is ConflictOnNode for two nodes. same tells that they are one, near
// that they have the same value of a label.
func ConflictBetweenNodes(a, b *corev1.Pod, sameNode bool, sameTopology func(key string) bool) bool {
	ports := HostPorts(&a.Spec)
	return sameNode && slices.ContainsFunc(HostPorts(&b.Spec), func(port string) bool { return slices.Contains(ports, port) }) ||
		violatesAntiAffinity(a, b, sameTopology) || violatesAntiAffinity(b, a, sameTopology)
}

// HostPorts lists the ports of its node that a pod wants, as protocol/port.
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

// violatesAntiAffinity tells that a pod must not be near another one. Terms over namespaces by
// their labels are left to Volcano to find.
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

// RequiredAffinityTerms lists what a pod requires of its neighbours, near or far.
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
