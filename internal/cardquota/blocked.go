package cardquota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// blockedKey identifies the entry that blocked pods share.
type blockedKey struct {
	workload     v1alpha1.WorkloadReference
	card, reason string
}

type blockedSet map[blockedKey]v1alpha1.BlockedStatus

// add counts a pod in the entry of its workload. The entry keeps the earliest time and the
// alphabetically first message, so the order of pods does not matter.
func (s blockedSet) add(b v1alpha1.BlockedStatus) {
	key := blockedKey{b.Workload, b.Card, b.Reason}
	if had, ok := s[key]; ok {
		b.Count = int64(card.Count(b.Count).Add(card.Count(had.Count)))
		b.Message = min(b.Message, had.Message)
		if had.Since.Before(&b.Since) {
			b.Since = had.Since
		}
	}
	s[key] = b
}

// oldestFirst returns the MaxBlocked entries that have waited longest.
func (s blockedSet) oldestFirst() []v1alpha1.BlockedStatus {
	out := slices.SortedFunc(maps.Values(s), compareBlocked)
	return out[:min(len(out), MaxBlocked)]
}

// podPendingReason returns why a pod is pending: the refusal of its request, its own
// condition, or the condition of its PodGroup. It returns false for a pod that no scheduler
// has tried yet.
func podPendingReason(pod *corev1.Pod, group *v1beta1.PodGroup, refusal *workload.Refusal) (workload.Refusal, bool) {
	if refusal != nil {
		return *refusal, true
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return workload.Refusal{Reason: condition.Reason, Message: condition.Message}, true
		}
	}
	if group != nil {
		return PodGroupPendingReason(group)
	}
	return workload.Refusal{}, false
}

// PodGroupPendingReason returns why a PodGroup is pending, from its newest Unschedulable
// condition.
func PodGroupPendingReason(group *v1beta1.PodGroup) (workload.Refusal, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return workload.Refusal{Reason: condition.Reason, Message: condition.Message}, true
		}
	}
	return workload.Refusal{}, false
}

// PodTemplateHash is the label by which a Deployment distinguishes its ReplicaSets. The
// name of a ReplicaSet ends with its value.
const PodTemplateHash = "pod-template-hash"

// workloadReference returns the controller of a pod, the Deployment instead of its
// ReplicaSet, or the pod itself.
func workloadReference(pod *corev1.Pod) v1alpha1.WorkloadReference {
	out := controllerReference(pod, "", "Pod")
	if hash := pod.Labels[PodTemplateHash]; out.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(out.Name, "-"+hash); ok {
			out.Kind, out.Name = "Deployment", deployment
		}
	}
	return out
}

// controllerReference returns the controller of an object, or the object itself.
func controllerReference(object metav1.Object, group, kind string) v1alpha1.WorkloadReference {
	out := v1alpha1.WorkloadReference{APIGroup: group, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		out.Kind, out.Name = owner.Kind, owner.Name
		if out.APIGroup = ""; strings.Contains(owner.APIVersion, "/") {
			out.APIGroup, _, _ = strings.Cut(owner.APIVersion, "/")
		}
	}
	return out
}

// countPodGroup counts a PodGroup as a member of a queue in which its pods run, or that
// allows its namespace. While the PodGroup has no pods, its own request counts as pending.
func (c *counter) countPodGroup(group *v1beta1.PodGroup) {
	if group.Status.Phase == v1beta1.PodGroupCompleted {
		return
	}
	queue := workload.PodGroupQueue(group)
	t := c.usageFor(queue)
	if group.Status.Running > 0 || c.allowsNamespace(queue, group.Namespace) {
		t.usage.Members++
	}
	waits := group.Status.Phase == v1beta1.PodGroupPending || group.Status.Phase == v1beta1.PodGroupInqueue || group.Status.Phase == ""
	if !waits || group.DeletionTimestamp != nil || c.groupsWithPods[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] {
		return
	}
	c.countPodGroupRequest(t, queue, group)
}

// countPodGroupRequest counts the request of a PodGroup without pods as pending.
func (c *counter) countPodGroupRequest(t *queueUsage, queue string, group *v1beta1.PodGroup) {
	total, written := workload.CardRequestAnnotation(group)
	request, refusal := c.resolver.PodGroupRequest(total, written, group.Spec.MinResources)
	why, blocked := PodGroupPendingReason(group)
	if refusal != nil {
		why, blocked = *refusal, true
	}
	entry := v1alpha1.BlockedStatus{
		Workload: controllerReference(group, v1beta1.GroupName, "PodGroup"), Since: group.CreationTimestamp, Reason: why.Reason, Message: why.Message,
	}
	for _, d := range request.Cards {
		if name, ok := c.displayedCard(queue, d.Names); ok {
			t.usage.Pending[name] = t.usage.Pending[name].Add(d.Count)
		}
		if blocked {
			entry.Card, entry.Count = card.NewRequest(d.Names...).String(), int64(d.Count)
			if !written {
				entry.Card = c.resourceForCards(d.Names, *group.Spec.MinResources)
			}
			t.blocked.add(entry)
		}
	}
	if blocked && len(request.Cards) == 0 {
		t.blocked.add(entry)
	}
}

// resourceForCards returns the candidate resource whose cards are the given names, "" for
// none.
func (c *counter) resourceForCards(names []card.Name, candidates corev1.ResourceList) string {
	for _, resource := range c.input.Inventory.Resources() {
		if _, ok := candidates[resource]; ok && slices.Equal(c.input.Inventory.NamesFor(resource), names) {
			return string(resource)
		}
	}
	return ""
}
