package liveness

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// checkTree checks what a session did in a tree of queues.
func (w *sequenceRun) checkTree(before, now *sessionView, victims map[string]int) string {
	if now.tree == nil {
		return ""
	}
	if wrong := now.checkTreePlacements(before); wrong != "" {
		return wrong
	}

	for name := range victims {
		queue := now.groupNamed(name).queue
		if w.isDrained(queue) {
			continue
		}
		if wrong := w.checkTakenFrom(now, queue); wrong != "" {
			return wrong
		}
	}

	return w.checkTreeReclaimers(now, victims)
}

// recordLosses records the queues from which a session took pods. They may not borrow for a while.
func (w *sequenceRun) recordLosses(now *sessionView, victims map[string]int) {
	queues := map[string]bool{}
	for name := range victims {
		queues[now.groupNamed(name).queue] = true
	}
	for queue := range queues {
		if !w.isDrained(queue) {
			w.lostCards[queue] = append(w.lostCards[queue], time.Now())
		}
	}
}

func (v *sessionView) groupNamed(name string) *group {
	return v.groups[slices.IndexFunc(v.groups, func(g *group) bool { return g.name == name })]
}

// newPods selects the pods that were not placed before.
func newPods(before *sessionView, pods func(*group) []*pod) func(*group) []*pod {
	old := before.placedPods()
	return func(g *group) []*pod {
		return slices.DeleteFunc(slices.Clone(pods(g)), func(p *pod) bool { return old[p.uid] })
	}
}

// cards returns the cards of all nodes.
func (v *sessionView) cards() []string {
	cards := map[string]bool{}
	for _, n := range v.nodes {
		cards[n.card] = true
	}
	return slices.Sorted(maps.Keys(cards))
}

// checkTreePlacements checks the pods that the session placed or pipelined.
func (v *sessionView) checkTreePlacements(before *sessionView) string {
	for _, card := range v.cards() {
		claimed := v.treeUse(card, claimedPods)
		placed := v.treeUse(card, newPods(before, placedPods))
		for queue := range v.treeUse(card, newPods(before, claimedPods)) {
			if why := v.tree.WhyClosed(queue); why != "" {
				return fmt.Sprintf("placed in a closed queue: %s: %s", queue, why)
			}
			if why := v.tree.AboveQuota(queue, card, claimed); why != "" {
				return fmt.Sprintf("placed above a quota: queue %s: %s", queue, why)
			}
		}

		for queue, count := range placed {
			if why := v.tree.TakesGuarantee(queue, card, count, claimed, v.schedulable(card, claimedPods)); why != "" {
				return fmt.Sprintf("took a guarantee: queue %s: %s", queue, why)
			}
		}

		unreclaimable := v.treeUse(card, v.unreclaimableOf(placedPods))
		for queue := range v.treeUse(card, v.unreclaimableOf(newPods(before, placedPods))) {
			if why := v.tree.AboveDeserved(queue, card, unreclaimable); why != "" {
				return fmt.Sprintf("borrowed for good: queue %s: %s", queue, why)
			}
		}
	}
	return ""
}

// mayTakeInTree reports whether the types and the kinds of queues let one group reclaim from
// another: by the matrix, or by the tree. The amounts are checked for the session as a whole.
func (v *sessionView) mayTakeInTree(by, of *group) bool {
	reclaimer := v.queues[by.queue]
	victim := v.queues[of.queue]
	if !victim.gives || v.tree.WhyClosed(by.queue) != "" {
		return false
	}
	return v.byMatrix(by.queue, of.queue) || (isKnownType(reclaimer.kind) && isKnownType(victim.kind))
}

// byMatrix reports whether a queue may reclaim from another by the reclaim matrix.
func (v *sessionView) byMatrix(by, of string) bool {
	reclaimer := v.queues[by]
	victim := v.queues[of]
	return reclaimer.kind == "inference" && victim.kind == "training" && victim.gives && victim.priority < reclaimer.priority
}

// reclaimersOf returns the queues of pipelined pods that may reclaim from a queue.
func (w *sequenceRun) reclaimersOf(v *sessionView, queue string) []string {
	var out []string
	for _, by := range v.groups {
		if len(by.pipelined) > 0 && by.queue != queue && v.mayTakeInTree(by, &group{queue: queue}) {
			out = append(out, by.queue)
		}
	}
	return out
}

// checkTakenFrom checks a queue from which the session took pods, and each of its ancestors below
// the common one with every possible reclaimer: what it uses stays at its guarantee or above. By
// the tree it used more than it deserves before the last unit was taken.
func (w *sequenceRun) checkTakenFrom(v *sessionView, queue string) string {
	reclaimers := w.reclaimersOf(v, queue)
	if len(reclaimers) == 0 || w.mayPreemptIn(v, queue) {
		return "" // preempt, or a drain
	}

	for _, name := range v.tree.PathOf(queue) {
		inside := func(by string) bool { return slices.Contains(v.tree.PathOf(by), name) }
		if slices.ContainsFunc(reclaimers, inside) {
			return ""
		}

		byMatrix := slices.ContainsFunc(reclaimers, func(by string) bool { return v.byMatrix(by, queue) })
		for _, card := range v.cards() {
			taken, largest := w.takenIn(v, name, card)
			left := v.tree.UsedIn(name, v.treeUse(card, claimedPods))
			q := v.tree.Queue(name)
			switch {
			case taken == 0:
			case left < q.Guarantee[card]:
				return fmt.Sprintf("taken from a guarantee: queue %s keeps %d of %s, and is guaranteed %d", name, left, card, q.Guarantee[card])
			case !byMatrix && left+largest <= q.Deserved[card] && w.isNeeded(v, queue, card):
				return fmt.Sprintf("taken from what is deserved: queue %s keeps %d of %s, after %d in units of at most %d, and deserves %d", name, left, card, taken, largest, q.Deserved[card])
			}
		}
	}

	return ""
}

// mayPreemptIn reports whether a group of a queue may have evicted another one of it.
func (w *sequenceRun) mayPreemptIn(v *sessionView, queue string) bool {
	return w.preempts && slices.ContainsFunc(v.groups, func(g *group) bool { return g.queue == queue && len(g.pipelined) > 0 })
}

// isNeeded reports whether some pipelined pod outside of a queue is on a card.
func (w *sequenceRun) isNeeded(v *sessionView, queue, card string) bool {
	return slices.ContainsFunc(v.groups, func(g *group) bool {
		return g.queue != queue && slices.ContainsFunc(g.pipelined, func(p *pod) bool { return v.cardOf(p) == card })
	})
}

// takenIn returns the cards that the session took from a subtree, and those of the largest unit: a
// whole job, or a single pod of one that stays.
func (w *sequenceRun) takenIn(v *sessionView, queue, card string) (sum, largest int64) {
	for _, g := range v.groups {
		if !slices.Contains(v.tree.PathOf(g.queue), queue) {
			continue
		}

		unit := int64(0)
		for _, p := range g.releasing {
			if w.taken[p.uid] && v.cardOf(p) == card {
				sum += int64(p.cards)
				if len(g.placed) > 0 {
					unit = 0
				}
				unit += int64(p.cards)
				largest = max(largest, unit)
			}
		}
	}
	return sum, largest
}

// isLeftOver reports whether cards beyond what a queue deserves are left over from the victims of a session:
// the queue needed each of them for what it deserves, some of them can only be evicted as whole gangs, and only elastic
// pods borrow what that leaves.
func (w *sequenceRun) isLeftOver(v *sessionView, card string, needed, beyond, elastic int64) bool {
	sum := int64(0)
	least := int64(math.MaxInt64)
	for _, g := range v.groups {
		unit := int64(0)
		for _, p := range g.releasing {
			if !w.taken[p.uid] || v.cardOf(p) != card {
				continue
			}

			sum += int64(p.cards)
			unit += int64(p.cards)
			if len(g.placed) > 0 { // it could keep this pod
				least = min(least, int64(p.cards))
			}
		}

		if unit > 0 {
			least = min(least, unit)
		}
	}

	return sum-least < needed && beyond <= min(sum-needed, elastic)
}

// elasticCards returns the cards of the pipelined pods that a group does not need for its minimum.
func (g *group) elasticCards() (sum int64) {
	needed := min(max(0, g.min-len(g.placed)), len(g.pipelined))
	for _, p := range g.pipelined[needed:] {
		sum += int64(p.cards)
	}
	return sum
}

// checkTreeReclaimers checks the only reclaimer of a session: its queue stays within what it
// deserves, and so do its ancestors below the farthest victim unless they release cards
// themselves; and no victim is farther than needed.
func (w *sequenceRun) checkTreeReclaimers(v *sessionView, victims map[string]int) string {
	by := v.onlyReclaimer()
	if by == nil || len(victims) == 0 {
		return ""
	}

	farthest := 0
	for name := range victims {
		queue := v.groupNamed(name).queue
		if queue == by.queue || w.isDrained(queue) {
			return "" // preempt, or a drain
		}
		farthest = max(farthest, len(v.tree.Below(by.queue, queue)))
	}

	for _, card := range v.cards() {
		if len(v.treeUse(card, func(g *group) []*pod { return g.pipelined })) == 0 {
			continue
		}
		if wrong := w.checkBorrowing(v, by, card, farthest); wrong != "" {
			return wrong
		}
	}

	if farthest > 1 {
		return w.checkNearerVictims(v, by, victims, farthest)
	}

	return ""
}

// checkBorrowing reports a queue, the reclaimer's or one of its ancestors below the farthest victim, that gets more
// of a card than it deserves by reclaiming.
func (w *sequenceRun) checkBorrowing(v *sessionView, by *group, card string, farthest int) string {
	claimed := v.treeUse(card, claimedPods)
	for i, name := range v.tree.PathOf(by.queue)[:farthest] {
		taken, _ := w.takenIn(v, name, card)
		before := v.tree.UsedIn(name, v.treeUse(card, placedPods)) + taken
		usedAfter := v.tree.UsedIn(name, claimed)

		deserved := v.tree.Queue(name).Deserved[card]
		needed := deserved - (before - taken)
		if usedAfter > deserved && (i == 0 || usedAfter > before) && !w.isLeftOver(v, card, needed, usedAfter-deserved, by.elasticCards()) {
			return fmt.Sprintf("evicted in order to borrow: queue %s will use %d of %s for %s, and deserves %d", name, usedAfter, card, by.name, deserved)
		}
	}
	return ""
}

// onlyReclaimer returns the only group with pipelined pods, nil if there are none or several.
func (v *sessionView) onlyReclaimer() *group {
	var only *group
	for _, g := range v.groups {
		if len(g.pipelined) == 0 {
			continue
		}
		if only != nil {
			return nil
		}
		only = g
	}
	return only
}

// checkNearerVictims reports a victim that is farther than another job which alone would have
// sufficed.
func (w *sequenceRun) checkNearerVictims(v *sessionView, by *group, victims map[string]int, farthest int) string {
	u := &startUnit{by, by.pipelined}
	back := v.withdraw(by.pipelined)
	defer back()

	for _, g := range v.groups {
		runsWhole := victims[g.name] == 0 && len(g.placed) > 0 && len(g.releasing) == 0
		if !runsWhole || g.queue == by.queue || len(v.tree.Below(by.queue, g.queue)) >= farthest {
			continue
		}
		if w.runsEnough(g) && v.canTakeWhole(u, g, cardPods) && v.fitsAfter(u, []*group{g}, cardPods) {
			return fmt.Sprintf("taken from too far: %v for %s, although %s of queue %s is nearer and suffices", victims, by.name, g.name, g.queue)
		}
	}

	return ""
}

// withdraw takes pods off their nodes until the returned function is called.
func (v *sessionView) withdraw(pods []*pod) (back func()) {
	move := func(move func(*nodeView, *pod)) {
		for _, n := range v.nodes {
			for _, p := range pods {
				if p.node == n.name {
					move(n, p)
				}
			}
		}
	}
	move((*nodeView).removePod)
	return func() { move((*nodeView).addPod) }
}

// cardNeeded returns the only card that a unit names, and how many of it, false for other units.
func (u *startUnit) cardNeeded() (string, int64, bool) {
	count := int64(0)
	for _, p := range u.pods {
		if len(p.names) != 1 || p.cards == 0 || p.names[0] != u.pods[0].names[0] || p.isMIG != u.pods[0].isMIG {
			return "", 0, false
		}
		count += int64(p.cards)
	}
	return u.pods[0].names[0], count, true
}

// canTakeWhole reports whether a group is certainly reclaimable for a unit as a whole, while pods
// are selected. A group that runs above its minimum may lose those pods first, and keep the rest.
func (v *sessionView) canTakeWhole(u *startUnit, g *group, pods func(*group) []*pod) bool {
	card, _, plain := u.cardNeeded()
	mayStay := g.isProtected || g.strange || len(g.releasing)+len(g.pipelined) > 0
	if !plain || mayStay || !v.mayTakeInTree(u.group, g) {
		return false
	}

	use := v.treeUse(card, pods)
	whole := int64(0)
	largest := int64(0)
	for _, p := range g.placed {
		if v.cardOf(p) != card {
			return false
		}
		whole += int64(p.cards)
		largest = max(largest, int64(p.cards))
	}

	elastic := largest * int64(max(0, len(g.placed)-max(g.min, 1))) // may be taken first, pod by pod
	return whole > 0 && !slices.ContainsFunc(v.tree.Below(g.queue, u.queue), func(name string) bool {
		used := v.tree.UsedIn(name, use)
		q := v.tree.Queue(name)
		return used-whole < q.Guarantee[card] || (!v.byMatrix(u.queue, g.queue) && used-elastic <= q.Deserved[card])
	})
}

// fitsAfter reports whether a unit fits the tree and the nodes after some groups are gone.
func (v *sessionView) fitsAfter(u *startUnit, gone []*group, pods func(*group) []*pod) bool {
	card, count, plain := u.cardNeeded()
	if !plain {
		return false
	}

	isGone := func(g *group) bool { return slices.Contains(gone, g) }
	before := v.treeUse(card, pods)
	left := func(g *group) []*pod {
		if isGone(g) {
			return nil
		}
		return pods(g)
	}

	after := v.treeUse(card, left)
	after[u.queue] += count

	farthest := 0
	for _, g := range gone {
		farthest = max(farthest, len(v.tree.Below(u.queue, g.queue)))
	}

	if v.borrowsMore(v.tree.PathOf(u.queue)[:farthest], card, before, after) {
		return false
	}
	if v.evictsBeyondTreeQuota(u, gone, card) || v.tree.AboveQuota(u.queue, card, after) != "" || v.tree.TakesGuarantee(u.queue, card, count, after, v.schedulable(card, left)) != "" {
		return false
	}

	if slices.ContainsFunc(u.pods, func(p *pod) bool { return v.isUnreclaimable(u.group, p) }) {
		unreclaimable := v.treeUse(card, v.unreclaimableOf(pods))
		unreclaimable[u.queue] += count
		if v.tree.AboveDeserved(u.queue, card, unreclaimable) != "" {
			return false
		}
	}

	var away []*pod
	for _, g := range gone {
		away = append(away, g.placed...)
	}
	defer v.withdraw(away)()

	return v.mustFit(u.pods, map[string]int{card: int(count)})
}

// borrowsMore reports whether the first queue of a path uses more of a card than it deserves, or another one does
// and uses more than before.
func (v *sessionView) borrowsMore(path []string, card string, before, after map[string]int64) bool {
	for i, name := range path {
		used := v.tree.UsedIn(name, after)
		deserved := v.tree.Queue(name).Deserved[card]
		if used > deserved && (i == 0 || used > v.tree.UsedIn(name, before)) {
			return true
		}
	}
	return false
}

// evictsBeyondTreeQuota reports whether all pods of some groups, and those that leave already, use more
// of a card than the quota of an ancestor of a unit: more than may be releasing at the same time.
func (v *sessionView) evictsBeyondTreeQuota(u *startUnit, gone []*group, card string) bool {
	releasing := v.treeUse(card, func(g *group) []*pod {
		if slices.Contains(gone, g) {
			return slices.Concat(g.placed, g.releasing)
		}
		return g.releasing
	})
	return slices.ContainsFunc(v.tree.PathOf(u.queue), func(name string) bool {
		return !v.tree.Queue(name).AnyCard && v.tree.UsedIn(name, releasing) > v.tree.Queue(name).Cards[card]
	})
}

// fitsByTree reports whether a unit would certainly fit by reclaiming: jobs that use more than
// their queues deserve are taken one by one until it fits.
func (v *sessionView) fitsByTree(u *startUnit, runsEnough func(*group) bool) bool {
	if !v.canReclaimByTree(u) {
		return false
	}

	var gone []*group
	left := func(g *group) []*pod {
		if slices.Contains(gone, g) {
			return nil
		}
		return cardPods(g)
	}

	for _, g := range v.groups {
		if g.queue == u.queue || slices.Contains(gone, g) || !runsEnough(g) || !v.canTakeWhole(u, g, left) {
			continue
		}
		if v.fitsAfter(u, []*group{g}, cardPods) {
			return true
		}
		gone = append(gone, g)
		if v.canTakeTogether(u, gone) && v.fitsAfter(u, gone, cardPods) {
			return true
		}
	}

	return false
}

// canReclaimByTree reports whether the tree lets the queue of a unit reclaim, and no other group of it waits.
func (v *sessionView) canReclaimByTree(u *startUnit) bool {
	return v.tree.WhyClosed(u.queue) == "" && isKnownType(v.queues[u.queue].kind) && len(v.reservedInQueue(u)) == 0
}

// canTakeTogether reports whether groups are certainly reclaimable for a unit together: what is evicted by the
// tree leaves no level below what it deserves, beside what is evicted by the matrix.
func (v *sessionView) canTakeTogether(u *startUnit, gone []*group) bool {
	return !slices.ContainsFunc(gone, func(last *group) bool {
		left := func(g *group) []*pod {
			if g != last && slices.Contains(gone, g) {
				return nil
			}
			return cardPods(g)
		}
		return !v.byMatrix(u.queue, last.queue) && !v.canTakeWhole(u, last, left)
	})
}

// reservedInQueue returns the other groups of a unit's queue that wait.
func (v *sessionView) reservedInQueue(u *startUnit) []string {
	var names []string
	for _, g := range v.groups {
		if g.name != u.name && g.queue == u.queue && len(g.waiting)+len(g.pipelined) > 0 {
			names = append(names, g.name)
		}
	}
	return names
}
