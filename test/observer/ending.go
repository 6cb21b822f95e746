package observer

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// recountEnding counts anew what a pod holds that is being deleted. It is asked
// while the charge is still the last one.
func (m *machine) recountEnding(state *podState) {
	last := state.charge
	if last == nil {
		last = state.ending
	}
	state.ending = nil
	if charge, holds := rule.TerminatingChargeOf(state.pod, m.groupOf(state.pod), m.inventory, last, m.originOf(state.pod)); holds {
		state.ending = &charge
	}
}

// noteStopped remembers whether a node works, as seen now.
func (m *machine) noteStopped(node *corev1.Node, c change) {
	if c.deleted {
		delete(m.stopped, node.Name)
		return
	}
	if m.stopped[node.Name] == nil {
		m.stopped[node.Name] = &timeline[bool]{}
	}
	m.stopped[node.Name].set(!rule.IsReady(node), c.seen)
}

// judgeEnding checks a placement: what pods hold that end is no way to hold more
// and more. Used and ending together never exceed twice the quota.
func (m *machine) judgeEnding(object, queue, card string, count int64, c change) {
	most, limited := m.mostAllowed(queue, card, c.seen)
	use, ending := m.useOf(queue).Cards[card], m.endingIn(queue, card, c.seen)
	if limited && use <= most && use+ending > most+most {
		m.report(Quota, c.seen, object, "was placed with %d of <%s>: queue <%s> now holds %d and %d more by pods that are being deleted, and its quota was at most %d in the %s before (revision %d)",
			count, card, queue, use, ending, most, c.seen.Sub(m.since(c.seen)), c.revision)
	}
}

// endingIn recounts a card of a queue that pods hold which are being deleted. Pods
// of a node that is gone, or did not work a moment ago, hold it from nobody.
func (m *machine) endingIn(queue, card string, at time.Time) int64 {
	var sum int64
	for _, state := range m.pods {
		if state.ending == nil || state.ending.Queue != queue {
			continue
		}
		stopped := m.stopped[state.pod.Spec.NodeName]
		if stopped == nil || slices.Contains(stopped.since(m.since(at)), true) {
			continue
		}
		sum += state.ending.Cards[card]
	}
	return sum
}
