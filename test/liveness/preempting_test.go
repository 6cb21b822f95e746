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
// Only single pods of one card in flat queues are certain: of a gang, preempt places one pod after the other.
func (w *simulation) fitsByPreempting(v *sessionView, u *startUnit) bool {
	_, _, plain := u.cardNeeded()
	if !plain || len(u.pods) != 1 || u.pods[0].apart || v.tree != nil {
		return false
	}
	if !w.preempts || !u.canPreemptJobs() || w.coolsDown(v, u.queue) || v.waitsWithOthers(u) {
		return false
	}
	gone := slices.DeleteFunc(slices.Clone(v.groups), func(g *group) bool { return !v.isCertainVictim(u, g) })
	if v.leaveTooMany(u, gone) {
		return false
	}
	left := nodesOf(gone) // preempt evicts only on the node that the pod gets
	var back []func()
	for _, g := range gone {
		back = append(back, v.takeAway(g))
	}
	fits := len(gone) > 0 && v.mustFit(u.pods, v.roomFor(u)) && v.mustFitOn(left, u)
	for _, undo := range back {
		undo()
	}
	return fits
}

// mustFitOn reports whether the pods of a unit fit some nodes alone.
func (v *sessionView) mustFitOn(nodes map[string]bool, u *startUnit) bool {
	all := v.nodes
	defer func() { v.nodes = all }()
	v.nodes = slices.DeleteFunc(slices.Clone(all), func(n *nodeView) bool { return !nodes[n.name] })
	return v.mustFit(u.pods, v.roomFor(u))
}

// nodesOf returns the nodes of the placed pods of some groups.
func nodesOf(groups []*group) map[string]bool {
	nodes := map[string]bool{}
	for _, g := range groups {
		for _, p := range g.placed {
			nodes[p.node] = true
		}
	}
	return nodes
}

// isCertainVictim reports whether a group can certainly be preempted for a unit, as a whole. The quota that
// a gang releases with its pods on other nodes does not count before they are evicted, so it must be on
// one node.
func (v *sessionView) isCertainVictim(u *startUnit, g *group) bool {
	isElsewhere := func(p *pod) bool { return p.node != g.placed[0].node }
	return !slices.ContainsFunc(g.placed, isElsewhere) && g.queue == u.queue && g.priority < u.priority && len(g.placed) > 0 && !g.isProtected && !g.strange && len(g.leaving)+len(g.promised) == 0
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
