package cardquota

import (
	"cmp"
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

// blockedKey is what makes two blocked pods one entry.
type blockedKey struct {
	workload     v1alpha1.WorkloadReference
	card, reason string
}

type blockedSet map[blockedKey]v1alpha1.BlockedStatus

// add joins a pod to its workload's entry. Of different messages the first in
// the alphabet stays, so that the order of pods does not matter, and of times
// the earliest.
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

// oldestFirst returns who waits longest.
func (s blockedSet) oldestFirst() []v1alpha1.BlockedStatus {
	out := slices.SortedFunc(maps.Values(s), func(a, b v1alpha1.BlockedStatus) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace), cmp.Compare(a.Workload.Name, b.Workload.Name),
			cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.APIGroup, b.Workload.APIGroup),
			cmp.Compare(a.Card, b.Card), cmp.Compare(a.Reason, b.Reason))
	})
	return out[:min(len(out), MaxBlocked)]
}

// podPendingReason finds why a waiting pod waits: it can never run as it is written, its
// own condition, or the condition of its PodGroup. It is false for a pod that
// no scheduler has looked at yet.
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

// PodGroupPendingReason finds why a PodGroup waits in its newest Unschedulable condition.
func PodGroupPendingReason(group *v1beta1.PodGroup) (workload.Refusal, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return workload.Refusal{Reason: condition.Reason, Message: condition.Message}, true
		}
	}
	return workload.Refusal{}, false
}

// PodTemplateHash is the label by which a Deployment tells its ReplicaSets
// apart; the ReplicaSet's name ends with it.
const PodTemplateHash = "pod-template-hash"

// workloadReference names what a pod belongs to: its controller, a Deployment instead
// of its ReplicaSet, or the pod itself.
func workloadReference(pod *corev1.Pod) v1alpha1.WorkloadReference {
	out := controllerReference(pod, "", "Pod")
	if hash := pod.Labels[PodTemplateHash]; out.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(out.Name, "-"+hash); ok {
			out.Kind, out.Name = "Deployment", deployment
		}
	}
	return out
}

// controllerReference names the controller of an object, or the object itself.
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

// countPodGroup counts a PodGroup: as a member of a queue in which its pods run, or that
// takes its namespace, and, as long as it has no pods, by what it says the job will
// ask for.
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

// countPodGroupRequest counts what a PodGroup without pods says the job will ask for.
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
	for _, d := range request.Demands {
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
	if blocked && len(request.Demands) == 0 {
		t.blocked.add(entry)
	}
}

// resourceForCards is which of some resources stands for card names.
func (c *counter) resourceForCards(names []card.Name, candidates corev1.ResourceList) string {
	for _, resource := range c.input.Inventory.Resources() {
		if _, ok := candidates[resource]; ok && slices.Equal(c.input.Inventory.NamesFor(resource), names) {
			return string(resource)
		}
	}
	return ""
}
