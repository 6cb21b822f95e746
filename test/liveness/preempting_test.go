package liveness

import (
	"maps"
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
func (w *sequenceRun) mayPreempt(name string) bool {
	at := slices.IndexFunc(w.last.groups, func(g *group) bool { return g.name == name })
	return at >= 0 && w.last.groups[at].canPreemptJobs()
}

// canPreemptJobs reports whether pods of a group may take the place of other jobs of its queue.
func (g *group) canPreemptJobs() bool {
	return len(g.placed) < g.min || (g.min <= 1 && !g.isVCJob)
}

// fitsByPreempting reports whether a unit would certainly fit without the jobs of lower priority in its
// queue. A job that is not enqueued counts too: its enqueueing must not depend on what it may preempt. In a
// tree only single pods are certain: each pod of a gang may exceed other limits, with other victims for each.
func (w *sequenceRun) fitsByPreempting(v *sessionView, u *startUnit) bool {
	if v.tree != nil && len(u.pods) > 1 {
		return false
	}
	if !w.preempts || !u.canPreemptJobs() || w.coolsDown(v, u.queue) || v.waitsWithOthers(u) {
		return false
	}
	victims := slices.DeleteFunc(slices.Clone(v.groups), func(g *group) bool { return !v.isVictim(u, g) })
	if len(victims) == 0 || v.evictsBeyondQuota(u, victims) {
		return false
	}
	return v.newPreemptionTrial(u, victims).placesAll(u.pods)
}

// preemptionTrial is how preempt may place the pods of a unit: one after the other, in any order. It evicts
// only on the node that a pod gets, and the rest of gangs that break.
type preemptionTrial struct {
	// certain are the nodes without what preempt would evict there, with the quota that is unused then.
	certain     []*nodeView
	certainFree []map[string]int
	// possible are the nodes without all victims, possibleFree is the quota that is unused then.
	possible     []*nodeView
	possibleFree map[string]int
}

func (v *sessionView) newPreemptionTrial(u *startUnit, victims []*group) *preemptionTrial {
	t := &preemptionTrial{}
	for i, n := range v.nodes {
		gone := slices.DeleteFunc(slices.Clone(victims), func(g *group) bool { return !isEvictedWhole(g, n) })
		nodes, free := v.without(u, gone)
		t.certain = append(t.certain, nodes[i])
		t.certainFree = append(t.certainFree, free)
	}
	t.possible, t.possibleFree = v.without(u, victims)
	return t
}

// without returns copies of the nodes, and the unused quota for a unit, once some groups are gone.
func (v *sessionView) without(u *startUnit, gone []*group) (nodes []*nodeView, free map[string]int) {
	mostUsed := v.mostUsedByPreempting(u.queue)
	for _, g := range gone {
		defer v.takeAway(g)()
	}

	for _, n := range v.nodes {
		c := *n
		c.apart = maps.Clone(n.apart)
		nodes = append(nodes, &c)
	}

	free = maps.Clone(v.freeFor(u))
	for card, most := range mostUsed {
		free[card] = min(free[card], max(0, int(most-v.treeUse(card, cardPods)[u.queue])))
	}

	return nodes, free
}

// mostUsedByPreempting returns how many cards a queue of a tree may use by preempting: no more than before
// beyond what it deserves, if another queue may wait for the card within what it deserves.
func (v *sessionView) mostUsedByPreempting(queue string) map[string]int64 {
	mostUsed := map[string]int64{}
	if v.tree == nil {
		return mostUsed
	}

	for card, deserved := range v.tree.Queue(queue).Deserved {
		mayWait := func(g *group) bool {
			return g.queue != queue && slices.ContainsFunc(g.waiting, func(p *pod) bool {
				return p.cards > 0 && (len(p.names) == 0 || slices.Contains(p.names, card))
			})
		}
		if slices.ContainsFunc(v.groups, mayWait) {
			mostUsed[card] = max(deserved, v.treeUse(card, cardPods)[queue])
		}
	}

	return mostUsed
}

// placesAll reports whether each pod certainly gets a node, wherever those before it are.
func (t *preemptionTrial) placesAll(pods []*pod) bool {
	tried := map[string]bool{}
	for i, p := range pods {
		if tried[kindOf(p)] {
			continue
		}

		tried[kindOf(p)] = true
		isCertain := false
		for at := range t.possible {
			isCertain = isCertain || t.certain[at].fitsPod(p, t.certainFree[at])
			if !t.possible[at].fitsPod(p, t.possibleFree) {
				continue
			}

			t.add(p, at, 1)
			rest := t.placesAll(slices.Delete(slices.Clone(pods), i, i+1))
			t.add(p, at, -1)
			if !rest {
				return false
			}
		}

		if !isCertain {
			return false
		}
	}

	return true
}

// add adds a pod to a node, or removes it with sign -1.
func (t *preemptionTrial) add(p *pod, at, sign int) {
	for _, n := range []*nodeView{t.certain[at], t.possible[at]} {
		if sign > 0 {
			n.addPod(p)
		} else {
			n.removePod(p)
		}
	}
	for _, free := range append(t.certainFree, t.possibleFree) {
		free[t.possible[at].card] -= sign * p.cards
	}
}

// isVictim reports whether pods of a group may be preempted for a unit.
func (v *sessionView) isVictim(u *startUnit, g *group) bool {
	return g.queue == u.queue && g.priority < u.priority && len(g.placed) > 0 && !g.isProtected && !g.strange && len(g.releasing)+len(g.pipelined) == 0
}

// isEvictedWhole reports whether preempt may certainly evict a group as a whole on a node: it has more pods there
// than it has above its minimum, or no pods elsewhere.
func isEvictedWhole(g *group, n *nodeView) bool {
	there := 0
	for _, p := range g.placed {
		if p.node == n.name {
			there++
		}
	}
	return there > 0 && (there == len(g.placed) || there > len(g.placed)-g.min)
}

// evictsBeyondQuota reports whether some groups, and the pods that are releasing already, use more of a card than the
// quota of their queue or of an ancestor: more than may be releasing at the same time.
func (v *sessionView) evictsBeyondQuota(u *startUnit, gone []*group) bool {
	return slices.ContainsFunc(v.cards(), func(card string) bool {
		if v.tree != nil {
			return v.evictsBeyondTreeQuota(u, gone, card)
		}

		sum := 0
		for _, g := range v.groups {
			if g.queue != u.queue {
				continue
			}

			pods := g.releasing
			if slices.Contains(gone, g) {
				pods = slices.Concat(g.placed, g.releasing)
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

// waitsWithOthers reports whether another group of a unit's queue may be placed first, or may have reserved
// the quota.
func (v *sessionView) waitsWithOthers(u *startUnit) bool {
	return slices.ContainsFunc(v.groups, func(g *group) bool {
		if g.name == u.name || g.queue != u.queue || len(g.waiting)+len(g.pipelined) == 0 {
			return false
		}
		return g.priority >= u.priority || (g.phase != scheduling.PodGroupPending && g.phase != "")
	})
}

// takeAway removes the placed pods of a group until the returned function is called.
func (v *sessionView) takeAway(g *group) (back func()) {
	placed := g.placed
	returned := v.withdraw(g.placed)
	charge := func(sign int) {
		for _, p := range placed {
			if p.cards > 0 {
				v.queues[g.queue].free[v.cardOf(p)] += sign * p.cards
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
