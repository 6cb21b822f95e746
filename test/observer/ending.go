package observer

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

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
