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

// checkPlacement checks a pod that this change gave a node, against the cluster at that moment.
func (m *clusterState) checkPlacement(state *podState, c change) {
	pod := state.pod
	object := "pod/" + pod.Namespace + "/" + pod.Name
	request := rule.RequestOf(pod, m.inventory)
	name := m.inventory.CardOn(pod.Spec.NodeName, request.Resource)
	switch {
	case request.Denial != "":
		m.addViolation(Card, c.seen, object, "was placed on node %s although it can never run as it is written: %s", pod.Spec.NodeName, request.Denial)
	case request.Count == 0:
	case name == "":
		m.addViolation(Card, c.seen, object, "asks for %s and was placed on node %s, which does not name the card", request.Resource, pod.Spec.NodeName)
	case !request.Allows(name):
		m.addViolation(Card, c.seen, object, "asks for <%s> and was placed on node %s with <%s>", strings.Join(request.Named, "|"), pod.Spec.NodeName, name)
	}

	if always, _ := m.isTreeSince(m.windowStart(c.seen)); always {
		m.checkTreePlacement(state, c)
		return
	}

	queue := m.namedQueue(state)
	if queue == "" {
		return
	}

	for _, card := range slices.Sorted(maps.Keys(state.charge.Cards)) {
		use := m.usage(queue).Cards[card]
		count := state.charge.Cards[card]
		if state.charge.Queue != queue {
			use += count // its record does not count, and it is placed all the same
		}

		if most, limited := m.maxQuota(queue, card, c.seen); limited && use > most {
			m.addViolation(Quota, c.seen, object, "was placed on node %s with %d of <%s>: queue <%s> now uses %d, and its quota was at most %d in the %s before (revision %d)",
				pod.Spec.NodeName, count, card, queue, use, most, c.seen.Sub(m.windowStart(c.seen)), c.revision)
		}
		m.checkTerminating(object, queue, card, count, c)
	}
}

// namedQueue returns the queue that a placed pod is charged to, or that it names without being
// allowed to.
func (m *clusterState) namedQueue(state *podState) string {
	if state.charge == nil {
		return ""
	}
	return cmp.Or(state.charge.Queue, rule.QueueOf(state.pod, m.groupOf(state.pod), ""))
}

// maxQuota returns the largest quota in the window before a moment. It is unlimited in a queue
// that may use any card.
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

// historyPeriod is how long former values are kept; it is longer than any window.
const historyPeriod = 5 * time.Minute

// updateTerminatingCharge recomputes what a terminating pod uses. It must run before the last
// charge is replaced.
func (m *clusterState) updateTerminatingCharge(state *podState) {
	last := state.charge
	if last == nil {
		last = state.terminating
	}
	state.terminating = nil
	if charge, isCharged := rule.TerminatingChargeOf(state.pod, m.groupOf(state.pod), m.inventory, last, m.originOf(state.pod)); isCharged {
		state.terminating = &charge
	}
}

// recordNodeReadiness records whether a node is ready.
func (m *clusterState) recordNodeReadiness(node *corev1.Node, c change) {
	if c.deleted {
		delete(m.notReady, node.Name)
		return
	}
	setValueOf(m.notReady, node.Name, !rule.IsReady(node), c.seen)
}

// checkTerminating checks that terminating pods do not let a queue use ever more: used and
// terminating cards together never exceed twice the quota.
func (m *clusterState) checkTerminating(object, queue, card string, count int64, c change) {
	most, limited := m.maxQuota(queue, card, c.seen)
	use := m.usage(queue).Cards[card]
	ending := m.terminatingIn(queue, card, c.seen)
	if limited && use <= most && use+ending > most+most {
		m.addViolation(Quota, c.seen, object, "was placed with %d of <%s>: queue <%s> now uses %d and %d more by pods that are being deleted, and its quota was at most %d in the %s before (revision %d)",
			count, card, queue, use, ending, most, c.seen.Sub(m.windowStart(c.seen)), c.revision)
	}
}

// terminatingIn returns how many cards of a queue terminating pods use. Pods on a node that is
// gone, or was not ready a moment ago, do not count.
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
