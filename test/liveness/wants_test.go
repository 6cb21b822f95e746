package liveness

import (
	"fmt"
	"slices"
	"time"
)

// keptPeriod is how long freed cards are certainly kept: a little less than the five minutes of the
// scheduler, which begin when it sees that they are free.
const keptPeriod = 5*time.Minute - 2*time.Second

// longestKeptPeriod is how long freed cards may be kept after the last pod has ended that was evicted with
// them.
const longestKeptPeriod = 5*time.Minute + 2*time.Second

// want is what a session evicted pods for: pods of one group that it pipelined.
type want struct {
	reclaimRecord
	group string
	// preempts reports whether the victims were of the group's own queue.
	preempts bool
	// nodes are where the pods were pipelined last, by UID.
	nodes map[string]string
	// victims are the evicted pods by UID, lastSeen is when one of them was on its node last.
	victims  map[string]bool
	lastSeen time.Time
}

// recordWants records for which group a session evicted pods, if that is certain, and where the pods of
// older records were pipelined.
func (w *sequenceRun) recordWants(now *sessionView, victims map[string]int) {
	for name, known := range w.wants {
		at := slices.IndexFunc(now.groups, func(g *group) bool { return g.name == name })
		if at < 0 || !known.mayKeepCards(now) {
			delete(w.wants, name)
			continue
		}
		known.follow(now.groups[at])
	}

	by := now.onlyReclaimer()
	if by == nil || !w.tookFor(now, by, victims) {
		w.recordPossibleWants(now, victims)
		return
	}

	made := &want{group: by.name, preempts: true, nodes: map[string]string{}, victims: w.taken, lastSeen: time.Now()}
	made.reclaimRecord = reclaimRecord{at: time.Now(), placed: now.placedPods(), pipelined: map[string]bool{}}
	for name := range victims {
		made.from = name
		made.preempts = made.preempts && now.groupNamed(name).queue == by.queue
	}

	made.follow(by)
	w.wants[by.name] = made
}

// recordPossibleWants records the groups for one of which a session evicted pods, if it is not certain for
// which.
func (w *sequenceRun) recordPossibleWants(now *sessionView, victims map[string]int) {
	if len(victims) == 0 {
		return
	}
	for _, g := range now.groups {
		if len(g.pipelined) > 0 {
			w.possibleWants[g.name] = true
		}
	}
}

// mayHaveWant reports whether pods were evicted for a group, or may have been.
func (w *sequenceRun) mayHaveWant(name string) bool {
	return w.wants[name] != nil || w.possibleWants[name]
}

// mayKeepCards reports whether cards may still be kept for a want. That is longer than isWithdrawn lets them
// be missed: also while what the pods need is missing for a moment, or their victims end slowly.
func (of *want) mayKeepCards(now *sessionView) bool {
	isVictim := func(p *pod) bool { return of.victims[p.uid] }
	if slices.ContainsFunc(now.groups, func(g *group) bool { return slices.ContainsFunc(g.releasing, isVictim) }) {
		of.lastSeen = time.Now()
	}
	return time.Since(of.lastSeen) <= longestKeptPeriod
}

// tookFor reports whether a group is the reason of all evictions of a session.
func (w *sequenceRun) tookFor(now *sessionView, by *group, victims map[string]int) bool {
	for name := range victims {
		g := now.groupNamed(name)
		if w.isDrained(g.queue) || w.unfinished[name] || !w.mayTake(now, by, g) {
			return false
		}
	}
	return len(victims) > 0
}

// follow records the nodes to which pods of a group are pipelined.
func (of *want) follow(g *group) {
	for _, p := range g.pipelined {
		if _, known := of.nodes[p.uid]; known || len(of.pipelined) == 0 || of.pipelined[p.uid] {
			of.nodes[p.uid] = p.node
		}
	}
	if len(of.pipelined) == 0 {
		for uid := range of.nodes {
			of.pipelined[uid] = true
		}
	}
}

// openPods returns the pods of a want that are not placed yet and still could be.
func (v *sessionView) openPods(of *want) []*pod {
	g := v.groupNamed(of.group)
	if g.strange {
		return nil
	}
	return slices.DeleteFunc(slices.Concat(g.waiting, g.pipelined), func(p *pod) bool { return !of.pipelined[p.uid] })
}

// checkKeptCards reports a pod that a session placed on cards which were freed for another one:
// who preempts gets the card.
func (w *sequenceRun) checkKeptCards(before, now *sessionView) string {
	old := before.placedPods()
	for _, of := range w.wants {
		if w.isWithdrawn(before, of) {
			continue
		}

		needed := map[string]int{}
		for _, p := range now.openPods(of) {
			if p.node == "" { // not pipelined
				needed[of.nodes[p.uid]] += p.cards
			}
		}

		used := w.usedByRight(now, of, old)
		for _, g := range now.groups {
			if w.mayUseKept(now, g, of) {
				continue
			}
			for _, p := range g.placed {
				if !old[p.uid] && p.cards > 0 && needed[p.node] > now.soonFree(p.node)+used[p.node] {
					return fmt.Sprintf("took what was freed for another: %s is on %s, where %s was evicted for %s", p.name, p.node, of.from, of.group)
				}
			}
		}
	}

	return ""
}

// usedByRight returns the cards of each node that new pods use which may use what was freed for a want.
func (w *sequenceRun) usedByRight(now *sessionView, of *want, old map[string]bool) map[string]int {
	used := map[string]int{}
	for _, g := range now.groups {
		if !w.mayUseKept(now, g, of) {
			continue
		}
		for _, p := range g.placed {
			if !old[p.uid] {
				used[p.node] += p.cards
			}
		}
	}

	return used
}

// isWithdrawn reports whether nothing need be kept for a want in a session: it is too old, its group is
// gone, or its pods no longer fit their quota or their nodes.
func (w *sequenceRun) isWithdrawn(v *sessionView, of *want) bool {
	isGroup := func(g *group) bool { return g.name == of.group }
	if !slices.ContainsFunc(v.groups, isGroup) || time.Since(of.at) > keptPeriod || w.disturbed.After(of.at) {
		return true
	}

	pods := v.openPods(of)
	g := v.groupNamed(of.group)
	if len(pods) == 0 || len(g.waiting)+len(g.pipelined)+len(g.placed) < g.min || w.coolsDown(v, g.queue) {
		return true
	}

	sum := map[string]int{}
	free := v.freeFor(&startUnit{g, pods})
	for _, p := range pods {
		at := v.nodeNamed(of.nodes[p.uid])
		sum[at.card] += p.cards
		if at.closed || at.down || sum[at.card] > free[at.card] {
			return true
		}
	}

	return false
}

// mayUseKept reports whether a group may use what was freed for a want: it is the same one, or its own
// want is open, or it has precedence. What was preempted is kept from all but jobs of higher priority in
// the same queue. What was reclaimed is kept only from those from which the group may take cards, and in
// a tree from those that borrow: others could take cards themselves.
func (w *sequenceRun) mayUseKept(v *sessionView, g *group, of *want) bool {
	owner := v.groupNamed(of.group)
	switch {
	case g.name == of.group || w.mayHaveWant(g.name):
		return true
	case of.preempts:
		return g.queue == owner.queue && g.priority > owner.priority
	case g.queue == owner.queue:
		return true
	case v.tree != nil:
		return !v.borrows(g)
	}

	return !w.mayTake(v, owner, g)
}

// mayKeepQuotaFrom reports whether quota of a group's queue may be kept for another group of it, for which pods
// were evicted.
func (w *sequenceRun) mayKeepQuotaFrom(now *sessionView, g *group) bool {
	for name, of := range w.wants {
		isThere := slices.ContainsFunc(now.groups, func(other *group) bool { return other.name == name })
		if name != g.name && isThere && now.groupNamed(name).queue == g.queue && len(now.openPods(of)) > 0 {
			return true
		}
	}
	return false
}

// borrows reports whether the queue of a group uses more than it deserves of a card that the group has.
func (v *sessionView) borrows(g *group) bool {
	return slices.ContainsFunc(g.placed, func(p *pod) bool {
		card := v.cardOf(p)
		return p.cards > 0 && v.tree.UsedIn(g.queue, v.treeUse(card, placedPods)) > v.tree.Queue(g.queue).Deserved[card]
	})
}

func (v *sessionView) nodeNamed(name string) *nodeView {
	return v.nodes[slices.IndexFunc(v.nodes, func(n *nodeView) bool { return n.name == name })]
}

// soonFree returns the cards of a node that are free once all releasing pods have ended.
func (v *sessionView) soonFree(node string) int {
	n := v.nodeNamed(node)
	free := n.cards
	for _, p := range n.releasing {
		free += p.cards
	}
	return free
}

// startsBefore reports whether pods of a job of higher priority of the same queue started in this session.
func (w *sequenceRun) startsBefore(now *sessionView, by *group) bool {
	wasPlaced := w.last.placedPods()
	return slices.ContainsFunc(now.groups, func(g *group) bool {
		hasPriority := g.queue == by.queue && g.priority > by.priority
		return hasPriority && slices.ContainsFunc(g.placed, func(p *pod) bool { return p.cards > 0 && !wasPlaced[p.uid] })
	})
}

// checkWantedTwice reports evictions for pods for which others were evicted a moment ago, while these
// end or what they freed is kept.
func (w *sequenceRun) checkWantedTwice(now *sessionView, by, of *group) string {
	last := w.wants[by.name]
	if last == nil || w.isWithdrawn(w.last, last) || !w.isSupplied(now, last) {
		return ""
	}
	if slices.ContainsFunc(by.pipelined, func(p *pod) bool { return !last.pipelined[p.uid] }) {
		return "" // it wants more now
	}
	if w.startsBefore(now, by) {
		return "" // the other job has used quota that was free for it
	}
	return fmt.Sprintf("evicted twice for the same: %s for %s, %s after %s", of.name, by.name, time.Since(last.at), last.from)
}

// isSupplied reports whether the nodes of a want have enough cards for all wants there, once the pods
// have ended that were evicted before this session.
func (w *sequenceRun) isSupplied(now *sessionView, of *want) bool {
	needed := map[string]int{}
	for name, other := range w.wants {
		if !slices.ContainsFunc(now.groups, func(g *group) bool { return g.name == name }) {
			continue
		}
		for _, p := range now.openPods(other) {
			if p.node != other.nodes[p.uid] {
				needed[other.nodes[p.uid]] += p.cards
			}
		}
	}

	for _, node := range of.nodes {
		free := now.soonFree(node)
		for _, p := range now.nodeNamed(node).releasing {
			if w.taken[p.uid] {
				free -= p.cards
			}
		}

		if needed[node] > free {
			return false
		}
	}

	return true
}

// isAwaited reports whether free cards may be kept from a group for a job that lacks more of them: in flat
// queues one that may reclaim from it, in a tree any other one.
func (v *sessionView) isAwaited(g *group) bool {
	return slices.ContainsFunc(v.groups, func(other *group) bool {
		waits := other.queue != g.queue && len(other.waiting) > 0
		return waits && (v.tree != nil || v.byMatrix(other.queue, g.queue))
	})
}

// checkEndingSuffices reports evictions for a group which fits once the pods have ended that were
// evicted or deleted before.
func (w *sequenceRun) checkEndingSuffices(now *sessionView, victims map[string]int) string {
	by := now.onlyReclaimer()
	if by == nil || !w.tookFor(now, by, victims) {
		return ""
	}
	if w.coolsDown(now, by.queue) || now.isAwaited(by) || len(w.wants) > 0 {
		return ""
	}

	v := w.recountWithoutEnding()
	if v.fitsWithout(v.groupNamed(by.name)) {
		return fmt.Sprintf("evicted beside pods that end: %v for %s, which fits without that", victims, by.name)
	}

	return ""
}

// recountWithoutEnding recounts the session as if the pods had ended that were evicted or deleted before it.
func (w *sequenceRun) recountWithoutEnding() *sessionView {
	v := w.recount()
	for _, n := range v.nodes {
		for _, p := range n.releasing {
			if !w.taken[p.uid] && !n.down {
				n.removePod(p)
			}
		}
	}

	for _, g := range v.groups {
		g.releasing = slices.DeleteFunc(g.releasing, func(p *pod) bool {
			if w.taken[p.uid] || p.object.DeletionTimestamp != nil {
				return false
			}
			v.queues[g.queue].free[v.cardOf(p)] += p.cards
			return true
		})
	}

	return v
}
