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
// queues that use more than they deserve; never below a guarantee, and never to borrow. It
// accepts every tree of the window.
func (m *clusterState) treeReclaimForbidden(reclaimer, victim *podState) string {
	why := ""
	for _, t := range m.tree.trees.valuesSince(m.windowStart(m.lastChange)) {
		why = m.reclaimForbiddenIn(t, reclaimer, victim)
		if why == "" {
			return ""
		}
	}
	return why
}

func (m *clusterState) reclaimForbiddenIn(t *rule.Tree, reclaimer, victim *podState) string {
	mine := m.queueOf(reclaimer)
	theirs := m.queueOf(victim)
	switch {
	case t.Queue(mine) == nil || t.Queue(theirs) == nil:
		return fmt.Sprintf("is in queue <%s>, which does not exist", mine)
	case mine == theirs:
		return "is in the same queue <" + mine + ">"
	case t.WhyClosed(mine) != "":
		return "is in queue <" + mine + ">, which takes nothing: " + t.WhyClosed(mine)
	case victim.charge == nil:
		return "reclaims from a pod that uses nothing"
	}

	below := t.Below(theirs, mine)
	if wrong := m.guaranteeForbids(t, below, victim); wrong != "" {
		return wrong
	}

	request := rule.RequestOf(reclaimer.pod, m.inventory)
	cards := slices.DeleteFunc(slices.Sorted(maps.Keys(victim.charge.Cards)), func(card string) bool { return !slices.Contains(request.Cards, card) })
	if len(cards) == 0 && !m.freesCompute(reclaimer, victim) {
		return otherCard
	}
	if wrong := m.borrowsByEviction(t, mine, request, cards); wrong != "" {
		return wrong
	}

	byMatrix := m.queueReclaimForbidden(reclaimer, victim)
	if byMatrix == "" {
		return ""
	}
	if byTree := m.treeForbids(t, below, reclaimer, victim, cards); byTree != "" {
		return byMatrix + ", and " + byTree
	}

	return ""
}

// guaranteeForbids returns which of some queues would keep less than its guarantee without a victim, ""
// for none.
func (m *clusterState) guaranteeForbids(t *rule.Tree, queues []string, victim *podState) string {
	for _, name := range m.reclaimedNames(victim) {
		remaining := m.useAfterEvictions(name, victim)
		for _, queue := range queues {
			left := t.UsedIn(queue, remaining)
			guarantee := t.Queue(queue).GuaranteeOf(name)
			if left < guarantee {
				return fmt.Sprintf("may leave queue <%s> its guarantee of %d of <%s>, and %d are left", queue, guarantee, name, left)
			}
		}
	}
	return ""
}

// borrowsByEviction returns why a pod reclaims more than its queue deserves, or "": of the card that
// its victim uses, or of all its cards if the victim uses none of them; and with reclaimResources
// All of CPU and memory.
func (m *clusterState) borrowsByEviction(t *rule.Tree, queue string, request rule.Request, lost []string) string {
	exceeds := func(name string) string {
		count := m.requested(request, name)
		deserved := t.Queue(queue).DeservedOf(name)
		if used := m.settledUse(queue, name) + count; count > 0 && used > deserved {
			return fmt.Sprintf("would use %d of <%s> in queue <%s>, which deserves %d: no queue evicts in order to borrow", used, name, queue, deserved)
		}
		return ""
	}

	if len(lost) > 0 {
		if why := exceeds(lost[0]); why != "" {
			return why
		}
	} else if len(request.Cards) > 0 && !slices.ContainsFunc(request.Cards, func(card string) bool { return exceeds(card) == "" }) {
		return exceeds(request.Cards[0])
	}

	if !m.options.ReclaimsAll {
		return ""
	}

	return cmp.Or(exceeds(rule.CPU), exceeds(rule.Memory))
}

// treeForbids returns why the tree does not let a victim be reclaimed, or "" when it does: its
// queue and each of its ancestors below the common one use more than they deserve of the needed
// cards. If only CPU or memory is needed, that is true for all cards of the victim, and for its CPU or
// its memory.
func (m *clusterState) treeForbids(t *rule.Tree, below []string, reclaimer, victim *podState, needed []string) string {
	for _, state := range []*podState{reclaimer, victim} {
		if kind := m.serviceType(state); !m.isKnownType(kind) {
			return fmt.Sprintf("the matrix does not know the type %q", kind)
		}
	}

	if len(needed) > 0 {
		return m.borrowsNot(t, below, victim, needed[0])
	}

	for _, card := range slices.Sorted(maps.Keys(victim.charge.Cards)) {
		if why := m.borrowsNot(t, below, victim, card); why != "" {
			return why
		}
	}

	why := "it uses no CPU or memory that counts"
	for _, name := range m.computeOf(victim.charge) {
		why = m.borrowsNot(t, below, victim, name)
		if why == "" {
			return ""
		}
	}

	return why
}

// borrowsNot returns which queue of some uses no more of a name than it deserves, or "".
func (m *clusterState) borrowsNot(t *rule.Tree, queues []string, victim *podState, name string) string {
	remaining := m.useAfterEvictions(name, victim)
	for _, queue := range queues {
		used := t.UsedIn(queue, remaining) + m.largestUnit(t, queue, name, victim) + t.UsedIn(queue, m.waitingUse(name))
		if deserved := t.Queue(queue).DeservedOf(name); used <= deserved {
			return fmt.Sprintf("queue <%s> uses %d of <%s>, not more than the %d that it deserves", queue, used, name, deserved)
		}
	}
	return ""
}

// waitingUse sums what waiting pods ask of a card, CPU or memory, by queue. The session that evicts a pod may
// have placed them, and their bindings may be seen later than the eviction.
func (m *clusterState) waitingUse(name string) rule.TreeUse {
	use := rule.TreeUse{}
	for _, state := range m.pods {
		if m.isWaiting(state) {
			use[m.queueOf(state)] += m.requested(rule.RequestOf(state.pod, m.inventory), name)
		}
	}
	return use
}

// useAfterEvictions returns what is left when a pod and all evicted ones are gone. Pods that ended
// by themselves a moment ago count: the scheduler may not have known.
func (m *clusterState) useAfterEvictions(name string, victim *podState) rule.TreeUse {
	use := m.treeUse(name, func(state *podState) bool { return state != victim && state.evicted == nil })
	since := m.windowStart(m.lastChange)
	for _, e := range m.tree.ended {
		if !e.at.Before(since) {
			use[e.charge.Queue] += m.amountIn(&e.charge, name)
		}
	}
	return use
}

// settledUse returns what a queue uses without the pods that were placed a moment ago: they may
// have been placed after the scheduler decided.
func (m *clusterState) settledUse(queue, name string) int64 {
	since := m.windowStart(m.lastChange)
	return m.treeUse(name, func(state *podState) bool { return state.placed.Before(since) })[queue]
}

// unitPeriod is how far apart the marks of pods may be that were evicted together.
const unitPeriod = 10 * time.Second

// largestUnit returns the cards, CPU or memory of the last unit that was taken from a subtree, at most: the
// victim, its gang, or another gang that was evicted at the same time. A gang may take its queue
// below what it deserves.
func (m *clusterState) largestUnit(t *rule.Tree, queue, name string, victim *podState) int64 {
	units := map[string]int64{}
	for _, state := range m.pods {
		recent := state == victim || (state.evicted != nil && state.evicted.seen.After(m.lastChange.Add(-unitPeriod)))
		charge := cmp.Or(state.charge, state.terminating)
		if !recent || charge == nil || !slices.Contains(t.PathOf(charge.Queue), queue) {
			continue
		}

		unit := state.pod.Namespace + "/" + rule.PodGroupName(state.pod)
		if m.isElastic(state) {
			unit += "/" + state.pod.Name
		}
		units[unit] += m.amountIn(charge, name)
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
