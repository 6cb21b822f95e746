package queueusage

import (
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// GroupOf returns the group of a pod or PodGroup, such as its namespace. queue is the queue to which it is charged, ""
// for none.
type GroupOf func(namespace, queue string) string

// CountBy returns what all pods use and request, by group. It counts cards as Count does, but also waiting pods of other
// schedulers and pods without a queue. So it also counts on a cluster without Volcano. It counts no members, and does not
// say why something waits.
func CountBy(input Input, groupOf GroupOf) map[string]Usage {
	c := newCounter(input)
	for _, pod := range input.Pods {
		c.countPodBy(pod, groupOf)
	}

	for _, group := range input.PodGroups {
		if c.waitsWithoutPods(group) {
			queue := workload.PodGroupQueue(group)
			c.addPendingGroup(c.usageFor(groupOf(group.Namespace, queue)), queue, group)
		}
	}

	out := make(map[string]Usage, len(c.queues))
	for name, usage := range c.queues {
		out[name] = *usage
	}

	return out
}

// countPodBy adds a pod to its group. A terminating pod counts for none, because it releases its quota at once.
func (c *counter) countPodBy(pod *corev1.Pod, groupOf GroupOf) {
	if workload.IsFinished(pod) {
		return
	}

	facts := c.facts.factsOf(&c.resolver, pod)
	group := facts.groupOrNil()
	if facts.group != nil {
		facts.group.hasPods = true
	}

	switch {
	case workload.IsAssigned(pod):
		charge := c.chargeOf(facts, pod, group)
		c.usageFor(groupOf(pod.Namespace, charge.Queue)).addCharge(charge)
	case workload.IsPending(pod):
		queue := c.resolver.Queue(pod, group, "")
		usage := c.usageFor(groupOf(pod.Namespace, queue))
		usage.addPending(pod.CreationTimestamp)
		c.addPendingCards(usage, queue, facts.request.Names, facts.request.Count)
	}
}

// CardsInUse returns the cards that the pods use. A pod that may use one of several counts once, unlike in Used.
func (u Usage) CardsInUse() map[card.Name]card.Count {
	used := make(map[card.Name]card.Count, len(u.Used))
	for name, count := range u.Used {
		if distinct := count.Sub(u.Repeated[name]); distinct > 0 {
			used[name] = distinct
		}
	}
	return used
}
