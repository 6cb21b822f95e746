package observer

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/test/observer/rule"
)

// victimProtected returns why no action may evict a pod, or "" when one may.
func (m *clusterState) victimProtected(by evictionAction, victim *podState) string {
	pod := victim.pod
	switch {
	case rule.IsCritical(pod):
		return "it is critical to the system"
	case !rule.IsPreemptable(pod.Annotations, pod.Labels):
		return "it is not preemptable"
	}

	if group := m.groupOf(pod); group != nil && !rule.IsPreemptable(group.Annotations, nil) {
		return "its PodGroup is not preemptable"
	}
	if by == preempt {
		return ""
	}

	queue, ok := m.queues[m.queueOf(victim)]
	switch {
	case !ok:
		return fmt.Sprintf("its queue <%s> does not exist, so it is not known to be reclaimable", m.queueOf(victim))
	case queue.Spec.Reclaimable != nil && !*queue.Spec.Reclaimable:
		return "its queue <" + queue.Name + "> is not reclaimable"
	}

	return ""
}

// reclaimForbidden returns why a victim may not be evicted for a pod, or "" when it may.
func (m *clusterState) reclaimForbidden(by evictionAction, reclaimer, victim *podState) string {
	policy := reclaimer.pod.Spec.PreemptionPolicy
	if policy != nil && *policy == corev1.PreemptNever {
		return "has the preemptionPolicy Never"
	}
	if by == preempt {
		return m.preemptionForbidden(reclaimer, victim)
	}

	if always, sometimes := m.isTreeSince(m.windowStart(m.lastChange)); sometimes {
		if wrong := m.treeReclaimForbidden(reclaimer, victim); wrong == "" || always {
			return wrong
		}
	}

	if wrong := m.queueReclaimForbidden(reclaimer, victim); wrong != "" {
		return wrong
	}
	usesCard := slices.ContainsFunc(rule.RequestOf(reclaimer.pod, m.inventory).Cards, func(n string) bool { return victim.usesCard(n) })
	if !usesCard && !m.freesCompute(reclaimer, victim) {
		return otherCard
	}

	return ""
}

// otherCard is why a pod is not evicted for another one on its own account. It may be evicted
// with its gang.
const otherCard = "does not ask for the card"

// preemptionForbidden checks preemption: within a queue, the higher priority evicts the lower
// one, on a node whose card it may use.
func (m *clusterState) preemptionForbidden(reclaimer, victim *podState) string {
	request := rule.RequestOf(reclaimer.pod, m.inventory)
	on := m.inventory.CardOn(victim.pod.Spec.NodeName, request.Resource)
	higher, lower := m.comparedPriorities(reclaimer.pod, victim.pod)
	switch {
	case m.queueOf(reclaimer) != m.queueOf(victim):
		return fmt.Sprintf("is in queue <%s>, not in <%s>", m.queueOf(reclaimer), m.queueOf(victim))
	case higher <= lower:
		return fmt.Sprintf("has priority %d, not more than %d", higher, lower)
	case request.Count > 0 && !slices.Contains(request.Cards, on):
		return otherCard
	}

	return ""
}

// queueReclaimForbidden checks reclaim across queues: the reclaim matrix decides, then the
// priority of the queues.
func (m *clusterState) queueReclaimForbidden(reclaimer, victim *podState) string {
	mine := m.queues[m.queueOf(reclaimer)]
	theirs := m.queues[m.queueOf(victim)]
	from := m.serviceType(reclaimer)
	of := m.serviceType(victim)
	if mine == nil || theirs == nil {
		return fmt.Sprintf("is in queue <%s>, which does not exist", m.queueOf(reclaimer))
	}

	limits := rule.LimitsOf(mine, m.options.Unmanaged)
	isUnlimited := limits.AnyCard && len(rule.RequestOf(reclaimer.pod, m.inventory).Cards) > 0
	switch {
	case mine.Name == theirs.Name:
		return "is in the same queue <" + mine.Name + ">"
	case limits.Closed != "":
		return "is in queue <" + mine.Name + ">, which takes nothing"
	case isUnlimited && !m.knowsTree():
		return "is in queue <" + mine.Name + ">, which has no quota of cards that it could take back"
	case !slices.Contains(m.options.ReclaimFrom[from], of):
		return fmt.Sprintf("is of type %q, which may not reclaim from %q", from, of)
	case mine.Spec.Priority <= theirs.Spec.Priority:
		return fmt.Sprintf("is in queue <%s> of priority %d, not more than the %d of <%s>", mine.Name, mine.Spec.Priority, theirs.Spec.Priority, theirs.Name)
	}

	return ""
}

func (state *podState) usesCard(card string) bool {
	return state.charge != nil && state.charge.Cards[card] > 0
}

// queueOf returns the queue that a pod is or will be charged to.
func (m *clusterState) queueOf(state *podState) string {
	if state.charge != nil {
		return state.charge.Queue
	}
	return rule.QueueOf(state.pod, m.groupOf(state.pod), "")
}

// serviceType returns the service type of the queue, else of the pod, else of its PodGroup,
// else of its owner's kind.
func (m *clusterState) serviceType(state *podState) string {
	var ofQueue, ofGroup map[string]string
	if queue, ok := m.queues[m.queueOf(state)]; ok {
		ofQueue = queue.Annotations
	}
	if group := m.groupOf(state.pod); group != nil {
		ofGroup = group.Annotations
	}
	return rule.ServiceType(ofQueue, state.pod.Annotations, ofGroup, rule.OwnerServiceType(state.pod, m.options.OwnerKinds))
}

// comparedPriorities returns the priorities that Volcano compares for two pods: their own
// within a PodGroup, else those of their PodGroups.
func (m *clusterState) comparedPriorities(a, b *corev1.Pod) (of, than int32) {
	if a.Namespace == b.Namespace && rule.PodGroupName(a) == rule.PodGroupName(b) {
		return podPriority(a), podPriority(b)
	}
	return m.groupPriority(a), m.groupPriority(b)
}

func podPriority(pod *corev1.Pod) int32 {
	if n, err := strconv.ParseInt(pod.Annotations["volcano.sh/task-priority"], 10, 32); err == nil {
		return int32(n)
	}
	return ptr.Deref(pod.Spec.Priority, 1)
}

func (m *clusterState) groupPriority(pod *corev1.Pod) int32 {
	group := m.groupOf(pod)
	if group == nil {
		return podPriority(pod) // its PodGroup is gone; Volcano had it when it decided
	}
	if class, ok := m.classes[group.Spec.PriorityClassName]; ok {
		return class.Value
	}

	for _, class := range m.classes {
		if class.GlobalDefault {
			return class.Value
		}
	}

	return 0
}
