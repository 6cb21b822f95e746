package observer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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
