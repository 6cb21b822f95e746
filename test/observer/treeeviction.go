package observer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// drain is the reason of an eviction from a queue that is drained.
const drain evictionAction = "drain"

// drainForbidden returns why a pod may not be evicted by a drain, or "" when it may: its queue or
// an ancestor has the stop-policy HoldAndDrain. A pod that is critical to the system stays.
func (m *clusterState) drainForbidden(victim *podState, at time.Time) string {
	if rule.IsCritical(victim.pod) {
		return "it is critical to the system"
	}
	queue := m.queueOf(victim)
	trees := []*rule.Tree{rule.NewTree(m.queues, m.options.Unmanaged)}
	if m.knowsTree() {
		trees = m.tree.trees.valuesSince(m.windowStart(at))
	}
	for _, t := range trees {
		if q := t.Queue(queue); q != nil && q.Stop == rule.HoldAndDrain {
			return ""
		}
	}
	return "neither its queue <" + queue + "> nor an ancestor has the stop-policy HoldAndDrain"
}

// treeReclaimForbidden checks reclaim between queues of a tree: by the matrix, or by the tree from
// queues that hold more than they deserve; never below a guarantee, and never to borrow. It
// accepts every tree of the window.
func (m *clusterState) treeReclaimForbidden(reclaimer, victim *podState) string {
	why := ""
	for _, t := range m.tree.trees.valuesSince(m.windowStart(m.lastChange)) {
		if why = m.reclaimForbiddenIn(t, reclaimer, victim); why == "" {
			return ""
		}
	}
	return why
}

func (m *clusterState) reclaimForbiddenIn(t *rule.Tree, reclaimer, victim *podState) string {
	mine, theirs := m.queueOf(reclaimer), m.queueOf(victim)
	switch {
	case t.Queue(mine) == nil || t.Queue(theirs) == nil:
		return fmt.Sprintf("is in queue <%s>, which does not exist", mine)
	case mine == theirs:
		return "is in the same queue <" + mine + ">"
	case t.WhyClosed(mine) != "":
		return "is in queue <" + mine + ">, which takes nothing: " + t.WhyClosed(mine)
	case victim.charge == nil:
		return "reclaims from a pod that holds nothing"
	}
	below := t.Below(theirs, mine)
	for card := range victim.charge.Cards {
		remaining := m.useAfterEvictions(card, victim)
		for _, name := range below {
			if left, guarantee := t.UsedIn(name, remaining), t.Queue(name).Guarantee[card]; left < guarantee {
				return fmt.Sprintf("may leave queue <%s> its guarantee of %d of <%s>, and %d are left", name, guarantee, card, left)
			}
		}
	}
	ask := rule.RequestOf(reclaimer.pod, m.inventory)
	cards := slices.DeleteFunc(slices.Sorted(maps.Keys(victim.charge.Cards)), func(card string) bool { return !slices.Contains(ask.Cards, card) })
	if len(cards) == 0 {
		return otherCard
	}
	card := cards[0]
	if used := m.settledUse(mine, card) + ask.Count; used > t.Queue(mine).Deserved[card] {
		return fmt.Sprintf("would hold %d of <%s> in queue <%s>, which deserves %d: no queue evicts in order to borrow", used, card, mine, t.Queue(mine).Deserved[card])
	}
	byMatrix := m.queueReclaimForbidden(reclaimer, victim)
	if byMatrix == "" {
		return ""
	}
	if byTree := m.treeForbids(t, below, reclaimer, victim, card); byTree != "" {
		return byMatrix + ", and " + byTree
	}
	return ""
}

// treeForbids returns why the tree does not let a victim be reclaimed, or "" when it does: its
// queue and each of its ancestors below the common one hold more than they deserve.
func (m *clusterState) treeForbids(t *rule.Tree, below []string, reclaimer, victim *podState, card string) string {
	for _, state := range []*podState{reclaimer, victim} {
		if kind := m.serviceType(state); !m.isKnownType(kind) {
			return fmt.Sprintf("the matrix does not know the type %q", kind)
		}
	}
	remaining := m.useAfterEvictions(card, victim)
	for _, name := range below {
		used := t.UsedIn(name, remaining) + m.largestUnit(t, name, card, victim) + t.UsedIn(name, m.waitingUse(card))
		if deserved := t.Queue(name).Deserved[card]; used <= deserved {
			return fmt.Sprintf("queue <%s> holds %d of <%s>, not more than the %d that it deserves", name, used, card, deserved)
		}
	}
	return ""
}

// waitingUse sums what waiting pods ask of a card, by queue. The session that evicts a pod may
// have placed them, and their bindings may be seen later than the eviction.
func (m *clusterState) waitingUse(card string) rule.TreeUse {
	use := rule.TreeUse{}
	for _, state := range m.pods {
		if ask := rule.RequestOf(state.pod, m.inventory); m.isWaiting(state) && slices.Contains(ask.Cards, card) {
			use[m.queueOf(state)] += ask.Count
		}
	}
	return use
}

// useAfterEvictions returns what is left when a pod and all evicted ones are gone. Pods that ended
// by themselves a moment ago count: the scheduler may not have known.
func (m *clusterState) useAfterEvictions(card string, victim *podState) rule.TreeUse {
	use := m.treeUse(card, func(state *podState) bool { return state != victim && state.evicted == nil })
	since := m.windowStart(m.lastChange)
	for _, e := range m.tree.ended {
		if !e.at.Before(since) {
			use[e.charge.Queue] += e.charge.Cards[card]
		}
	}
	return use
}

// settledUse returns what a queue holds without the pods that were placed a moment ago: they may
// have been placed after the scheduler decided.
func (m *clusterState) settledUse(queue, card string) int64 {
	since := m.windowStart(m.lastChange)
	return m.treeUse(card, func(state *podState) bool { return state.placed.Before(since) })[queue]
}

// unitPeriod is how far apart the marks of pods may be that were evicted together.
const unitPeriod = 10 * time.Second

// largestUnit returns the cards of the last unit that was taken from a subtree, at most: the
// victim, its gang, or another gang that was evicted at the same time. A gang may take its queue
// below what it deserves.
func (m *clusterState) largestUnit(t *rule.Tree, queue, card string, victim *podState) int64 {
	units := map[string]int64{}
	for _, state := range m.pods {
		recent := state == victim || state.evicted != nil && state.evicted.seen.After(m.lastChange.Add(-unitPeriod))
		held := cmp.Or(state.charge, state.terminating)
		if !recent || held == nil || !slices.Contains(t.PathOf(held.Queue), queue) {
			continue
		}
		unit := state.pod.Namespace + "/" + rule.PodGroupName(state.pod)
		if m.isElastic(state) {
			unit += "/" + state.pod.Name
		}
		units[unit] += held.Cards[card]
	}
	most := int64(0)
	for _, n := range units {
		most = max(most, n)
	}
	return most
}

// podsLeftByDrain describes the pods of a PodGroup that stay in a queue that is still drained, ""
// when none does: a drain evicts whole gangs.
func (m *clusterState) podsLeftByDrain(group *v1beta1.PodGroup, now time.Time) string {
	stay := 0
	for _, state := range m.pods {
		if groupKeyOf(state) == client.ObjectKeyFromObject(group) && rule.IsCharged(state.pod) && !m.isLeaving(state, now) && m.drainForbidden(state, now) == "" {
			stay++
		}
	}
	if stay == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods that a drain must take too", stay)
}

func groupKeyOf(state *podState) types.NamespacedName {
	return types.NamespacedName{Namespace: state.pod.Namespace, Name: rule.PodGroupName(state.pod)}
}

// isElastic reports whether a pod is certainly above the minimum of its gang: a Deployment's, of
// which others run.
func (m *clusterState) isElastic(state *podState) bool {
	group := m.groupOf(state.pod)
	if group == nil || group.Spec.MinMember > 1 || m.isGang(groupKeyOf(state)) {
		return false
	}
	running := 0
	for _, other := range m.pods {
		if other.charge != nil && groupKeyOf(other) == groupKeyOf(state) {
			running++
		}
	}
	return running > int(group.Spec.MinMember)
}
