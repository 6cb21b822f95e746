package usage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// group counts a PodGroup: as a member of a queue in which its pods run, or that
// takes its namespace, and,
// as long as it has no pods, by what it says the job will ask for.
func (c *counter) group(group *v1beta1.PodGroup) {
	if group.Status.Phase == v1beta1.PodGroupCompleted {
		return
	}
	queue := workload.QueueOfGroup(group)
	t := c.tally(queue)
	if group.Status.Running > 0 || c.admits(queue, group.Namespace) {
		t.queue.Members++
	}
	waits := group.Status.Phase == v1beta1.PodGroupPending || group.Status.Phase == v1beta1.PodGroupInqueue || group.Status.Phase == ""
	if !waits || group.DeletionTimestamp != nil || c.peopled[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] {
		return
	}
	total, written := workload.TotalOf(group)
	request, refusal := c.resolver.GroupRequest(total, written, group.Spec.MinResources)
	why, blocked := whyGroup(group)
	if refusal != nil {
		why, blocked = *refusal, true
	}
	entry := v1alpha1.BlockedStatus{
		Workload: controllerOf(group, v1beta1.GroupName, "PodGroup"), Since: group.CreationTimestamp, Reason: why.Reason, Message: why.Message,
	}
	for _, d := range request.Demands {
		if name, ok := c.shownAs(queue, d.Names); ok {
			t.queue.Pending[name] = t.queue.Pending[name].Add(d.Count)
		}
		if blocked {
			entry.Card, entry.Count = card.RequestOf(d.Names...).String(), int64(d.Count)
			if !written {
				entry.Card = c.resourceOf(d.Names, *group.Spec.MinResources)
			}
			t.blocked.add(entry)
		}
	}
	if blocked && len(request.Demands) == 0 {
		t.blocked.add(entry)
	}
}

// resourceOf is which of some resources stands for card names.
func (c *counter) resourceOf(names []card.Name, among corev1.ResourceList) string {
	for _, resource := range c.world.Inventory.Resources() {
		if _, ok := among[resource]; ok && slices.Equal(c.world.Inventory.Named(resource), names) {
			return string(resource)
		}
	}
	return ""
}
