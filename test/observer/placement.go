package observer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/test/observer/rule"
)

// judgePlacement checks a pod that was given a node by this change, against
// the cluster as it was at that very moment.
func (m *machine) judgePlacement(state *podState, c change) {
	pod := state.pod
	object := "pod/" + pod.Namespace + "/" + pod.Name
	ask := rule.AskOf(pod, m.inventory)
	name := m.inventory.On(pod.Spec.NodeName, ask.Resource)
	switch {
	case ask.Refusal != "":
		m.report(Card, c.seen, object, "was placed on node %s although it can never run as it is written: %s", pod.Spec.NodeName, ask.Refusal)
	case ask.Count == 0:
	case name == "":
		m.report(Card, c.seen, object, "asks for %s and was placed on node %s, which does not name the card", ask.Resource, pod.Spec.NodeName)
	case !ask.Allows(name):
		m.report(Card, c.seen, object, "asks for <%s> and was placed on node %s with <%s>", strings.Join(ask.Named, "|"), pod.Spec.NodeName, name)
	}
	queue := m.namedQueue(state)
	if queue == "" {
		return
	}
	for _, card := range slices.Sorted(maps.Keys(state.charge.Cards)) {
		use, count := m.useOf(queue).Cards[card], state.charge.Cards[card]
		if state.charge.Queue != queue {
			use += count // not believed, and placed all the same
		}
		if most, limited := m.mostAllowed(queue, card, c.seen); limited && use > most {
			m.report(Quota, c.seen, object, "was placed on node %s with %d of <%s>: queue <%s> now holds %d, and its quota was at most %d in the %s before (revision %d)",
				pod.Spec.NodeName, count, card, queue, use, most, c.seen.Sub(m.since(c.seen)), c.revision)
		}
		m.judgeEnding(object, queue, card, count, c)
	}
}

// namedQueue is the queue that a placed pod is charged to, or that it names in vain.
func (m *machine) namedQueue(state *podState) string {
	if state.charge == nil {
		return ""
	}
	return cmp.Or(state.charge.Queue, rule.QueueOf(state.pod, m.groupOf(state.pod), ""))
}

// mostAllowed is the largest quota of the window before a moment. It is not
// limited in a queue that may use any card.
func (m *machine) mostAllowed(queue, card string, at time.Time) (most int64, limited bool) {
	limits, ok := m.limits[queue]
	if !ok {
		return 0, true // no such queue: nothing is allowed
	}
	for _, l := range limits.since(m.since(at)) {
		if l.AnyCard {
			return 0, false
		}
		most = max(most, l.Cards[card])
	}
	return most, true
}

// keptFor is how long what was in force is remembered, longer than any window.
const keptFor = 5 * time.Minute
