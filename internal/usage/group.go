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
	why, blocked := whyGroup(group)
	entry := v1alpha1.BlockedStatus{
		Workload: controllerOf(group, v1beta1.GroupName, "PodGroup"), Since: group.CreationTimestamp, Reason: why.Reason, Message: why.Message,
	}
	demands := c.demands(group)
	for _, d := range demands {
		if name, ok := c.shownAs(queue, d.names); ok {
			t.queue.Pending[name] = t.queue.Pending[name].Add(d.count)
		}
		if blocked {
			entry.Card, entry.Count = d.text, int64(d.count)
			t.blocked.add(entry)
		}
	}
	if blocked && len(demands) == 0 {
		t.blocked.add(entry)
	}
}

// demand is what a job without pods asks for.
type demand struct {
	text  string
	names []card.Name
	count card.Count
}

// demands reads card.request of a PodGroup and, without a readable one, the
// card resources of its minResources.
func (c *counter) demands(group *v1beta1.PodGroup) []demand {
	var out []demand
	if text, ok := group.Annotations[v1alpha1.AnnotationCardRequest]; ok {
		if totals, err := card.ParseTotals(text); err == nil {
			for _, total := range totals {
				out = append(out, demand{text: total.Request.String(), names: total.Request.Names(), count: total.Count})
			}
			return out
		}
	}
	if group.Spec.MinResources == nil {
		return nil
	}
	resources := make([]corev1.ResourceName, 0, 1)
	for resource := range *group.Spec.MinResources {
		if c.world.Inventory.IsCard(resource) {
			resources = append(resources, resource)
		}
	}
	slices.Sort(resources)
	for _, resource := range resources {
		quantity := (*group.Spec.MinResources)[resource]
		if count := card.CountOf(quantity); count > 0 {
			out = append(out, demand{text: string(resource), names: c.world.Inventory.Named(resource), count: count})
		}
	}
	return out
}
