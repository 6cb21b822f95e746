package cardquota

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// podGroupLag is how long the PodGroup of a new pod may be unknown: pods and PodGroups come by watches of
// their own, and a list of one is older than that of the other.
const podGroupLag = 30 * time.Second

// MayAwaitPodGroup reports whether a pod is so new that its PodGroup may exist although it is not known yet.
// A count without a time has read both at once.
func MayAwaitPodGroup(pod *corev1.Pod, now time.Time) bool {
	return !now.IsZero() && now.Sub(pod.CreationTimestamp.Time) < podGroupLag
}

// podPendingReason returns why a pod is pending: its PodGroup does not exist, the refusal of its request,
// its own condition, or the condition of its PodGroup. It returns nil for a pod that no scheduler has
// tried yet.
func (c *counter) podPendingReason(pod *corev1.Pod, facts *podFacts) (message string, stated *blocked.StatedReason) {
	group := facts.groupOrNil()
	refusal := facts.request.Denied
	isMissing := facts.group != nil && group == nil && !c.input.LacksPodGroups
	if isMissing && !MayAwaitPodGroup(pod, c.input.Now) {
		refusal = &workload.Refusal{
			Code: workload.CodePodGroupNotFound, Object: pod.Namespace + "/" + workload.PodGroupName(pod), Other: v1beta1.KubeGroupNameAnnotationKey,
		}
	}

	// A request that no scheduler can serve waits for the user, whatever its last condition says.
	if refusal != nil {
		return refusal.Message(), &blocked.StatedReason{Refusal: refusal}
	}

	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message, facts.statedReasonFor(condition.Reason, condition.Message)
		}
	}

	// Volcano tries no pod of a gang that is not enqueued, so only its PodGroup says why.
	if group == nil {
		return "", nil
	}
	why, isPending := PodGroupPendingReason(group)
	if !isPending {
		return "", nil
	}
	return why.Message, facts.statedReasonFor(why.Reason, why.Message)
}

// PodGroupPendingReason returns why a PodGroup is pending: its newest Unschedulable condition.
func PodGroupPendingReason(group *v1beta1.PodGroup) (v1beta1.PodGroupCondition, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return condition, true
		}
	}
	return v1beta1.PodGroupCondition{}, false
}

// countPodGroup counts a PodGroup as a member of a queue in which its pods run, or that
// allows its namespace. While the PodGroup has no pods, its own request counts as pending, in a queue
// that allows its namespace.
func (c *counter) countPodGroup(group *v1beta1.PodGroup) {
	if group.Status.Phase == v1beta1.PodGroupCompleted {
		return
	}
	queue := workload.PodGroupQueue(group)
	t := c.usageFor(queue)

	// A PodGroup keeps the Queue from being removed as long as pods of it run, allowed or not.
	isAllowed := c.allowsNamespace(queue, group.Namespace)
	if group.Status.Running > 0 || isAllowed {
		t.usage.Members.PodGroups++
	}

	// A tenant can name any queue, and must not fill its status with PodGroups that never start
	// there.
	if !isAllowed || !c.allowsAbove(queue, group.Namespace) {
		return
	}
	if !workload.IsPodGroupPending(group) || c.facts.recordOf(types.NamespacedName{Namespace: group.Namespace, Name: group.Name}).hasPods {
		return
	}
	c.countPodGroupRequest(t, queue, group)
}

// countPodGroupRequest counts the request of a PodGroup without pods as pending.
func (c *counter) countPodGroupRequest(t *queueUsage, queue string, group *v1beta1.PodGroup) {
	why, isBlocked := PodGroupPendingReason(group)
	request, refusal := blocked.GroupRequest(&c.resolver, group, why.Message)
	t.addPending(group.CreationTimestamp)

	statedReason := blocked.ReadStatedReason(why.Reason, why.Message, "")
	if refusal != nil {
		why.Message = refusal.Message()
		statedReason = blocked.StatedReason{Refusal: refusal}
		isBlocked = true
	}

	w := waiting{
		entry:        v1alpha1.BlockedStatus{Workload: workload.ControllerReference(group, v1beta1.GroupName, "PodGroup"), Since: group.CreationTimestamp, Message: why.Message},
		statedReason: &statedReason,
	}

	for _, d := range request.Cards {
		if name, ok := c.displayedCard(queue, d.Names); ok {
			t.usage.Pending[name] = t.usage.Pending[name].Add(d.Count)
		}

		if isBlocked {
			w.request = blocked.Request{Names: d.Names, Count: d.Count, IsJob: true}
			w.entry.Card = card.NewRequest(d.Names...).String()
			w.entry.Count = int64(d.Count)
			if _, isWritten := workload.CardRequestAnnotation(group); !isWritten && group.Spec.MinResources != nil {
				w.entry.Card = cmp.Or(c.resourceForCards(d.Names, *group.Spec.MinResources), w.entry.Card)
			}
			t.waiting = append(t.waiting, w)
		}
	}

	// A refused request has no cards to list, but its reason must still be shown.
	if isBlocked && len(request.Cards) == 0 {
		t.waiting = append(t.waiting, w)
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
