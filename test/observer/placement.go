package observer

import (
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/decision"
)

// judgePlacement checks a pod that was given a node by this change, against
// the cluster as it was at that very moment.
func (m *machine) judgePlacement(state *podState, c change) {
	pod := state.pod
	object := "pod/" + pod.Namespace + "/" + pod.Name
	ask := decision.AskOf(pod, m.inventory)
	name, known := m.inventory.On(pod.Spec.NodeName, ask.Resource)
	switch {
	case ask.Refusal != nil:
		m.report(Card, c.seen, object, "was placed on node %s although it can never run as it is written: %s", pod.Spec.NodeName, ask.Refusal.Message)
	case ask.Count == 0:
	case !known:
		m.report(Card, c.seen, object, "asks for %s and was placed on node %s, which does not name the card", ask.Resource, pod.Spec.NodeName)
	case !ask.Request.Allows(name):
		m.report(Card, c.seen, object, "asks for <%s> and was placed on node %s with <%s>", ask.Request, pod.Spec.NodeName, name)
	}
	if state.charge == nil || state.charge.Queue == "" {
		return
	}
	queue := state.charge.Queue
	for _, held := range state.charge.Cards {
		use := m.use(queue, held.Name)
		if most, limited := m.mostAllowed(queue, held.Name, c.seen); limited && use > most {
			m.report(Quota, c.seen, object, "was placed on node %s with %d of <%s>: queue <%s> now holds %d, and its quota was at most %d in the %s before (revision %d)",
				pod.Spec.NodeName, held.Count, held.Name, queue, use, most, m.options.QuotaWindow, c.revision)
		}
		m.judgeEnding(object, queue, held, c)
	}
}

// use recounts a card of a queue.
func (m *machine) use(queue string, name card.Name) card.Count {
	var sum card.Count
	for _, state := range m.pods {
		if state.charge == nil || state.charge.Queue != queue {
			continue
		}
		for _, held := range state.charge.Cards {
			if held.Name == name {
				sum = sum.Add(held.Count)
			}
		}
	}
	return sum
}

// mostAllowed is the largest quota of the window before a moment. It is not
// limited in a queue that may use any card.
func (m *machine) mostAllowed(queue string, name card.Name, at time.Time) (most card.Count, limited bool) {
	limits, ok := m.limits[queue]
	if !ok {
		return 0, true // no such queue: nothing is allowed
	}
	for _, l := range limits.since(at.Add(-m.options.QuotaWindow)) {
		if l.AnyCard {
			return 0, false
		}
		most = max(most, l.Cards[name])
	}
	return most, true
}

// keptFor is how long what was in force is remembered, longer than any window.
const keptFor = 5 * time.Minute
