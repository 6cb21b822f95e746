package observer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/test/observer/rule"
)

// The scheduler states on a waiting pod to which node it nominated it. If pods were evicted from that
// node for it, the pod wants what they free.

// keptPeriod is how long freed cards are kept for a pod: a little less than the scheduler's five minutes.
const keptPeriod = 4*time.Minute + 30*time.Second

// failedAfter is how long an eviction may lead to no deletion until it has failed.
const failedAfter = time.Minute

// nomination is the node to which a pod is nominated, and since when the observer knows that.
type nomination struct {
	node  string
	since time.Time
}

// suspicion is a violation that later changes may excuse: the scheduler states nominations at the end of
// a session, after evictions and bindings.
type suspicion struct {
	object, message string
	at              time.Time
	// isExcused reports whether it is none after all.
	isExcused func() bool
}

// recordNomination records to which node a pod is nominated.
func (m *clusterState) recordNomination(state *podState, seen time.Time) {
	if node := state.pod.Status.NominatedNodeName; node != state.nominated.node {
		state.nominated = nomination{node: node, since: seen}
	}
}

// checkSuspicions reports the suspicions that no change has excused.
func (m *clusterState) checkSuspicions(now time.Time) []string {
	var open []string
	m.suspicions = slices.DeleteFunc(m.suspicions, func(s suspicion) bool {
		switch {
		case m.excused[Eviction] > 0 || !m.options.Concerns(s.object) || s.isExcused():
			return true
		case now.Sub(s.at) < evictionLag:
			open = append(open, s.object+" "+s.message)
			return false
		}
		m.addViolation(Eviction, s.at, s.object, "%s", s.message)
		return true
	})

	return open
}

// evictionFor returns the first eviction whose cards a waiting pod wants and may expect, nil without
// one. What the pod may use has not changed since.
func (m *clusterState) evictionFor(state *podState, now time.Time) *eviction {
	node := state.nominated.node
	if node == "" || !m.isWaiting(state) || m.tree.unschedulable[node] {
		return nil
	}
	at := slices.IndexFunc(m.evictions, func(e *eviction) bool {
		return e.node == node && e.by.evictsWholeGangs() && e.reclaimers[state.pod.UID] && now.Sub(e.seen) < keptPeriod
	})
	if at < 0 || m.hasQuotaChanged(m.queueOf(state), m.evictions[at].seen) {
		return nil
	}
	return m.evictions[at]
}

// hasQuotaChanged reports whether what a queue may use has changed since a moment.
func (m *clusterState) hasQuotaChanged(queue string, since time.Time) bool {
	limits := m.limits[queue]
	return limits == nil || len(limits.valuesSince(since)) > 1 || (m.knowsTree() && len(m.tree.trees.valuesSince(since)) > 1)
}

// freeOn returns the cards of a resource, the CPU and the memory of a node that are free once all
// pods have ended that are being deleted or were evicted before a moment, and not long before.
func (m *clusterState) freeOn(node string, request rule.Request, before time.Time) amount {
	free := amount{cards: m.nodes[node].Cards[request.Resource].Count, milliCPU: m.tree.allocatable[node][rule.CPU], memory: m.tree.allocatable[node][rule.Memory]}
	for _, state := range m.pods {
		isGoing := state.evicted != nil && state.evicted.seen.Before(before) && before.Sub(state.evicted.seen) < failedAfter
		if state.pod.Spec.NodeName != node || !rule.IsCharged(state.pod) || isGoing {
			continue
		}

		ofPod := rule.RequestOf(state.pod, m.inventory)
		used := amountOf(ofPod)
		if ofPod.Resource != request.Resource {
			used.cards = 0
		}
		free = free.subtract(used)
	}

	return free
}

// checkKeptCards checks a pod that was just placed: it must not use cards that were freed for a pod
// which still waits for them. Who preempts gets the card.
func (m *clusterState) checkKeptCards(state *podState, before nomination, c change) {
	node := state.pod.Spec.NodeName
	request := rule.RequestOf(state.pod, m.inventory)
	if request.Count == 0 || before.node == node {
		return
	}

	needed := int64(0)
	wants := []*podState{}
	for _, other := range m.pods {
		e := m.evictionFor(other, c.seen)
		if e == nil || other.nominated.node != node || m.mayUseFreed(state, other, e) {
			continue
		}

		if want := rule.RequestOf(other.pod, m.inventory); want.Resource == request.Resource {
			needed += want.Count
			wants = append(wants, other)
		}
	}

	free := m.freeOn(node, request, c.seen).cards
	if len(wants) == 0 || free >= needed || free+request.Count < needed {
		return
	}

	m.suspicions = append(m.suspicions, suspicion{
		object: podObject(state), at: c.seen,
		message: fmt.Sprintf("was placed on node %s with %d of the cards that were freed there for %s, and %d are left", node, request.Count, namesOf(wants), free),
		isExcused: func() bool {
			return slices.ContainsFunc(wants, func(want *podState) bool { return want.nominated.node != node || !m.isWaiting(want) })
		},
	})
}

// mayUseFreed reports whether a pod may use what was freed for another one: it belongs to the same job, or
// has the higher priority in the same queue. What was reclaimed is kept only from pods from which the
// other one may reclaim, and in a tree from those that borrow: others could reclaim cards themselves.
func (m *clusterState) mayUseFreed(state, other *podState, e *eviction) bool {
	mine := m.queueOf(state)
	theirs := m.queueOf(other)
	if rule.PodGroupName(state.pod) != "" && groupKeyOf(state) == groupKeyOf(other) {
		return true
	}
	if e.by == preempt {
		higher, lower := m.comparedPriorities(state.pod, other.pod)
		return mine == theirs && higher > lower
	}
	if m.knowsTree() {
		return mine == theirs || !m.borrows(state)
	}

	return m.queueReclaimForbidden(other, state) != ""
}

// borrows reports whether the queue of a pod uses more than it deserves of a card of the pod.
func (m *clusterState) borrows(state *podState) bool {
	queue := m.currentTree().Queue(m.queueOf(state))
	if queue == nil || state.charge == nil {
		return false
	}
	for card := range state.charge.Cards {
		if m.usage(m.queueOf(state)).Cards[card] > queue.DeservedOf(card) {
			return true
		}
	}
	return false
}

// checkWantedTwice checks an eviction: it must not be for pods only for which others were evicted
// before, while these end or what they freed is kept.
func (m *clusterState) checkWantedTwice(e *eviction) {
	if !e.by.evictsWholeGangs() || len(e.reclaimers) == 0 {
		return
	}

	var wants []*podState
	for uid := range e.reclaimers {
		state, known := m.pods[uid]
		if !known || !m.isServedBefore(state, e.seen) {
			return
		}
		wants = append(wants, state)
	}

	m.suspicions = append(m.suspicions, suspicion{
		object: e.victim, at: e.seen,
		message:   fmt.Sprintf("was evicted (%s) for no other pod than %s, for which others were evicted before, and what these free suffices", e.by, namesOf(wants)),
		isExcused: func() bool { return m.isRestOfGang(e) },
	})
}

// isServedBefore reports whether a waiting pod fits on its nominated node, beside all other pods that
// want what is freed there, without an eviction that was seen now.
func (m *clusterState) isServedBefore(state *podState, now time.Time) bool {
	first := m.evictionFor(state, now)
	known := now.Add(-evictionLag)
	if first == nil || !first.seen.Before(known) || !state.nominated.since.Before(known) {
		return false
	}

	node := state.nominated.node
	request := rule.RequestOf(state.pod, m.inventory)
	needed := amount{}
	queue := m.queueOf(state)
	card := m.inventory.CardOn(node, request.Resource)

	ofQueue := int64(0)
	for _, other := range m.pods {
		if m.evictionFor(other, now) == nil {
			continue
		}
		want := rule.RequestOf(other.pod, m.inventory)
		if other.nominated.node == node && want.Resource == request.Resource {
			needed = needed.add(amountOf(want))
		}
		if m.queueOf(other) == queue && want.Allows(card) {
			ofQueue += want.Count
		}
	}

	most, limited := m.maxQuota(queue, card, now)
	isWithinQuota := !limited || m.usage(queue).Cards[card]+ofQueue <= most
	return isWithinQuota && m.freeOn(node, request, known).isAtLeast(needed)
}

// isRestOfGang reports whether a pod was evicted with its gang, of which another pod was evicted before
// and no pod stays.
func (m *clusterState) isRestOfGang(e *eviction) bool {
	isOther := func(other *eviction) bool {
		return other != e && other.group == e.group && other.by == e.by && e.seen.Sub(other.seen).Abs() < m.options.PlacedWithin
	}
	if !slices.ContainsFunc(m.evictions, isOther) {
		return false
	}

	for _, state := range m.pods {
		if groupKeyOf(state) == e.group && rule.IsCharged(state.pod) && state.evicted == nil {
			return false
		}
	}

	return true
}

func podObject(state *podState) string { return "pod/" + state.pod.Namespace + "/" + state.pod.Name }

// namesOf returns the names of pods in order.
func namesOf(states []*podState) string {
	var names []string
	for _, state := range states {
		names = append(names, types.NamespacedName{Namespace: state.pod.Namespace, Name: state.pod.Name}.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
