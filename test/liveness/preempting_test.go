package liveness

import (
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
)

// outranks reports whether some pod has a higher task priority than some other one.
func outranks(pods, others []*pod) bool {
	return slices.ContainsFunc(pods, func(p *pod) bool {
		return slices.ContainsFunc(others, func(other *pod) bool { return p.rank > other.rank })
	})
}

// mayPreempt reports whether pods of a group may take the place of other jobs of its queue in this
// session: it was below its minimum, or each of its pods is a job of its own.
func (w *simulation) mayPreempt(name string) bool {
	at := slices.IndexFunc(w.last.groups, func(g *group) bool { return g.name == name })
	return at >= 0 && w.last.groups[at].canPreemptJobs()
}

// canPreemptJobs reports whether pods of a group may take the place of other jobs of its queue.
func (g *group) canPreemptJobs() bool {
	return len(g.placed) < g.min || g.min <= 1 && !g.isVCJob
}

// fitsByPreempting reports whether a unit would certainly fit without the jobs of lower priority in its
// queue. A job that is not enqueued counts too: its enqueueing must not depend on what it may preempt.
// Only single pods with cards are certain: of a gang, preempt places one pod after the other.
func (w *simulation) fitsByPreempting(v *sessionView, u *startUnit) bool {
	if len(u.pods) != 1 || u.pods[0].cards == 0 {
		return false
	}
	if !w.preempts || !u.canPreemptJobs() || w.coolsDown(v, u.queue) || v.waitsWithOthers(u) {
		return false
	}
	return slices.ContainsFunc(v.nodes, func(n *nodeView) bool { return v.fitsByPreemptingOn(n, u) })
}

// fitsByPreemptingOn reports whether the pod of a unit would certainly fit a node without the jobs that may
// be preempted there. Preempt evicts only on the node that the pod gets, and the rest of gangs that break.
func (v *sessionView) fitsByPreemptingOn(n *nodeView, u *startUnit) bool {
	gone := slices.DeleteFunc(slices.Clone(v.groups), func(g *group) bool { return !v.isCertainVictim(u, g, n) })
	if len(gone) == 0 || v.leaveTooMany(u, gone) {
		return false
	}
	var back []func()
	for _, g := range gone {
		back = append(back, v.takeAway(g))
	}
	fits := n.fitsPod(u.pods[0], v.roomFor(u))
	for _, undo := range back {
		undo()
	}
	return fits
}

// isCertainVictim reports whether a group can certainly be preempted on a node for a unit, as a whole: it
// has more pods there than it has above its minimum, or no pods elsewhere.
func (v *sessionView) isCertainVictim(u *startUnit, g *group, n *nodeView) bool {
	if g.queue != u.queue || g.priority >= u.priority || g.isProtected || g.strange || len(g.leaving)+len(g.promised) > 0 {
		return false
	}
	there := 0
	for _, p := range g.placed {
		if p.node == n.name {
			there++
		}
	}
	return there > 0 && (there == len(g.placed) || there > len(g.placed)-g.min)
}

// leaveTooMany reports whether some groups, and the pods that leave already, hold more of a card than the
// quota of their queue or of an ancestor: more than may leave at the same time.
func (v *sessionView) leaveTooMany(u *startUnit, gone []*group) bool {
	return slices.ContainsFunc(v.cards(), func(card string) bool {
		if v.tree != nil {
			return v.leaveAboveQuota(u, gone, card)
		}
		sum := 0
		for _, g := range v.groups {
			if g.queue != u.queue {
				continue
			}
			pods := g.leaving
			if slices.Contains(gone, g) {
				pods = slices.Concat(g.placed, g.leaving)
			}
			for _, p := range pods {
				if p.cards > 0 && v.cardOf(p) == card {
					sum += p.cards
				}
			}
		}
		return sum > v.queues[u.queue].quota[card]
	})
}

// waitsWithOthers reports whether another group of a unit's queue may go first, or may have reserved
// the quota.
func (v *sessionView) waitsWithOthers(u *startUnit) bool {
	return slices.ContainsFunc(v.groups, func(g *group) bool {
		if g.name == u.name || g.queue != u.queue || len(g.waiting)+len(g.promised) == 0 {
			return false
		}
		return g.priority >= u.priority || g.phase != scheduling.PodGroupPending && g.phase != ""
	})
}

// takeAway removes the placed pods of a group until the returned function is called.
func (v *sessionView) takeAway(g *group) (back func()) {
	placed, returned := g.placed, v.withdraw(g.placed)
	charge := func(sign int) {
		for _, p := range placed {
			if p.cards > 0 {
				v.queues[g.queue].room[v.cardOf(p)] += sign * p.cards
			}
		}
	}
	charge(1)
	g.placed = nil
	return func() {
		charge(-1)
		g.placed = placed
		returned()
	}
}
