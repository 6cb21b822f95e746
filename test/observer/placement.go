package observer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// checkPlacement checks a pod that was given a node by this change, against
// the cluster as it was at that very moment.
func (m *clusterState) checkPlacement(state *podState, c change) {
	pod := state.pod
	object := "pod/" + pod.Namespace + "/" + pod.Name
	ask := rule.RequestOf(pod, m.inventory)
	name := m.inventory.CardOn(pod.Spec.NodeName, ask.Resource)
	switch {
	case ask.Denial != "":
		m.addViolation(Card, c.seen, object, "was placed on node %s although it can never run as it is written: %s", pod.Spec.NodeName, ask.Denial)
	case ask.Count == 0:
	case name == "":
		m.addViolation(Card, c.seen, object, "asks for %s and was placed on node %s, which does not name the card", ask.Resource, pod.Spec.NodeName)
	case !ask.Allows(name):
		m.addViolation(Card, c.seen, object, "asks for <%s> and was placed on node %s with <%s>", strings.Join(ask.Named, "|"), pod.Spec.NodeName, name)
	}
	queue := m.namedQueue(state)
	if queue == "" {
		return
	}
	for _, card := range slices.Sorted(maps.Keys(state.charge.Cards)) {
		use, count := m.usage(queue).Cards[card], state.charge.Cards[card]
		if state.charge.Queue != queue {
			use += count // not believed, and placed all the same
		}
		if most, limited := m.maxQuota(queue, card, c.seen); limited && use > most {
			m.addViolation(Quota, c.seen, object, "was placed on node %s with %d of <%s>: queue <%s> now holds %d, and its quota was at most %d in the %s before (revision %d)",
				pod.Spec.NodeName, count, card, queue, use, most, c.seen.Sub(m.windowStart(c.seen)), c.revision)
		}
		m.checkTerminating(object, queue, card, count, c)
	}
}

// namedQueue is the queue that a placed pod is charged to, or that it names in vain.
func (m *clusterState) namedQueue(state *podState) string {
	if state.charge == nil {
		return ""
	}
	return cmp.Or(state.charge.Queue, rule.QueueOf(state.pod, m.groupOf(state.pod), ""))
}

// maxQuota is the largest quota of the window before a moment. It is not
// limited in a queue that may use any card.
func (m *clusterState) maxQuota(queue, card string, at time.Time) (most int64, limited bool) {
	limits, ok := m.limits[queue]
	if !ok {
		return 0, true // no such queue: nothing is allowed
	}
	for _, l := range limits.valuesSince(m.windowStart(at)) {
		if l.AnyCard {
			return 0, false
		}
		most = max(most, l.Cards[card])
	}
	return most, true
}

// historyPeriod is how long what was in force is remembered, longer than any window.
const historyPeriod = 5 * time.Minute

// updateTerminatingCharge counts anew what a pod holds that is being deleted. It is asked
// while the charge is still the last one.
func (m *clusterState) updateTerminatingCharge(state *podState) {
	last := state.charge
	if last == nil {
		last = state.terminating
	}
	state.terminating = nil
	if charge, holds := rule.TerminatingChargeOf(state.pod, m.groupOf(state.pod), m.inventory, last, m.originOf(state.pod)); holds {
		state.terminating = &charge
	}
}

// recordNodeReadiness remembers whether a node works, as seen now.
func (m *clusterState) recordNodeReadiness(node *corev1.Node, c change) {
	if c.deleted {
		delete(m.notReady, node.Name)
		return
	}
	if m.notReady[node.Name] == nil {
		m.notReady[node.Name] = &timeline[bool]{}
	}
	m.notReady[node.Name].setValue(!rule.IsReady(node), c.seen)
}

// checkTerminating checks a placement: what pods hold that end is no way to hold more
// and more. Used and ending together never exceed twice the quota.
func (m *clusterState) checkTerminating(object, queue, card string, count int64, c change) {
	most, limited := m.maxQuota(queue, card, c.seen)
	use, ending := m.usage(queue).Cards[card], m.terminatingIn(queue, card, c.seen)
	if limited && use <= most && use+ending > most+most {
		m.addViolation(Quota, c.seen, object, "was placed with %d of <%s>: queue <%s> now holds %d and %d more by pods that are being deleted, and its quota was at most %d in the %s before (revision %d)",
			count, card, queue, use, ending, most, c.seen.Sub(m.windowStart(c.seen)), c.revision)
	}
}

// terminatingIn recounts a card of a queue that pods hold which are being deleted. Pods
// of a node that is gone, or did not work a moment ago, hold it from nobody.
func (m *clusterState) terminatingIn(queue, card string, at time.Time) int64 {
	var sum int64
	for _, state := range m.pods {
		if state.terminating == nil || state.terminating.Queue != queue {
			continue
		}
		stopped := m.notReady[state.pod.Spec.NodeName]
		if stopped == nil || slices.Contains(stopped.valuesSince(m.windowStart(at)), true) {
			continue
		}
		sum += state.terminating.Cards[card]
	}
	return sum
}
