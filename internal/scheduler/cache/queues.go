package cache

import (
	"maps"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// ForgetQueues forgets the rules of queues that do not exist any more.
func (c *Cache) ForgetQueues(exists func(name string) bool) {
	maps.DeleteFunc(c.queues, func(name string, _ cachedQueue) bool { return !exists(name) })
}

// RulesFor returns the quota and the other rules of a queue. It reads them again only when the queue or
// unmanaged, the rule for queues without a quota, has changed.
func (c *Cache) RulesFor(queue *scheduling.Queue, unmanaged v1alpha1.UnmanagedQueues) *workload.QueueRules {
	known, ok := c.queues[queue.Name]
	// A changed queue is a new object. Only its state Volcano changes in the same object.
	if !ok || known.object != queue || known.unmanaged != unmanaged || known.state != queue.Status.State {
		read := &v1beta1.Queue{ // only what the rules read
			ObjectMeta: queue.ObjectMeta,
			Spec: v1beta1.QueueSpec{
				Parent: queue.Spec.Parent, Weight: queue.Spec.Weight, Capability: queue.Spec.Capability,
				Deserved: queue.Spec.Deserved, Guarantee: v1beta1.Guarantee{Resource: queue.Spec.Guarantee.Resource},
			},
			Status: v1beta1.QueueStatus{State: v1beta1.QueueState(queue.Status.State)},
		}

		rules := workload.QueueRulesFor(read, unmanaged, known.rules) // nil for a new queue
		known = cachedQueue{object: queue, unmanaged: unmanaged, state: queue.Status.State, rules: &rules}
		c.queues[queue.Name] = known
	}

	return known.rules
}
