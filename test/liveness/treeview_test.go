package liveness

import (
	"slices"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling"

	"cardquota.dev/operator/test/observer/rule"
)

// cardOf returns the card of the node of a pod.
func (v *sessionView) cardOf(p *pod) string {
	for _, n := range v.nodes {
		if n.name == p.node {
			return n.card
		}
	}
	return ""
}

// treeUse sums the cards of selected pods by queue.
func (v *sessionView) treeUse(card string, pods func(*group) []*pod) rule.TreeUse {
	use := rule.TreeUse{}
	for _, g := range v.groups {
		for _, p := range pods(g) {
			if p.cards > 0 && v.cardOf(p) == card {
				use[g.queue] += int64(p.cards)
			}
		}
	}
	return use
}

// placedPods are the pods that use cards and stay; cardPods also those that were evicted and are
// not terminating yet; claimedPods also those that are pipelined.
func placedPods(g *group) []*pod { return g.placed }

func cardPods(g *group) []*pod {
	return slices.Concat(g.placed, slices.DeleteFunc(slices.Clone(g.releasing), func(p *pod) bool { return p.object.DeletionTimestamp != nil }))
}

func claimedPods(g *group) []*pod { return slices.Concat(g.placed, g.pipelined) }

// unreclaimableOf selects those pods of groups that cannot be reclaimed.
func (v *sessionView) unreclaimableOf(pods func(*group) []*pod) func(*group) []*pod {
	return func(g *group) []*pod {
		return slices.DeleteFunc(slices.Clone(pods(g)), func(p *pod) bool { return !v.isUnreclaimable(g, p) })
	}
}

// isUnreclaimable reports whether a pod cannot be reclaimed.
func (v *sessionView) isUnreclaimable(g *group, p *pod) bool {
	of := v.queues[g.queue]
	return of == nil || !of.gives || !isKnownType(of.kind) || p.object.Annotations["volcano.sh/preemptable"] == "false"
}

func isKnownType(kind string) bool { return kind == "inference" || kind == "training" }

// schedulable returns the cards of nodes that take pods, and what pods use on the others.
func (v *sessionView) schedulable(card string, pods func(*group) []*pod) int64 {
	sum := int64(0)
	closed := map[string]bool{}
	for _, n := range v.nodes {
		closed[n.name] = n.closed || n.down
		if n.card == card && !closed[n.name] {
			sum += int64(n.total)
		}
	}

	for _, n := range v.treeUse(card, func(g *group) []*pod {
		return slices.DeleteFunc(slices.Clone(pods(g)), func(p *pod) bool { return !closed[p.node] })
	}) {
		sum += n
	}

	return sum
}

// treeFree returns how many cards a unit can certainly use: of the quota of every ancestor, of what
// others are not guaranteed, and of what its queues deserve if its pods cannot be reclaimed. Before
// it is enqueued, everything that others may have reserved is subtracted.
func (v *sessionView) treeFree(u *startUnit) map[string]int {
	free := map[string]int{}
	if q := v.tree.Queue(u.queue); q == nil || v.tree.WhyClosed(u.queue) != "" {
		return free
	}
	for card := range v.tree.Queue(u.queue).Cards {
		free[card] = int(max(0, v.treeFreeFor(u, card)))
	}
	return free
}

func (v *sessionView) treeFreeFor(u *startUnit, card string) int64 {
	t := v.tree
	leaf := v.tree.Queue(u.queue)
	use := v.treeUse(card, cardPods)

	reserved := v.reservedFor(u, card)
	own := max(0, leaf.Guarantee[card]-use[u.queue]-reserved[u.queue])
	free := own + max(0, v.schedulable(card, cardPods)-t.Occupied("", card, use)-sumOf(reserved))
	isUnreclaimable := slices.ContainsFunc(u.pods, func(p *pod) bool { return v.isUnreclaimable(u.group, p) })

	unreclaimable := v.treeUse(card, v.unreclaimableOf(cardPods))
	for _, name := range leaf.Path {
		q := t.Queue(name)
		claims := t.UsedIn(name, reserved)
		free = min(free, q.Cards[card]-t.UsedIn(name, use)-claims)
		if name != u.queue {
			free = min(free, own+max(0, q.Cards[card]-t.Occupied(name, card, use)-claims))
		}

		if isUnreclaimable {
			free = min(free, q.Deserved[card]-t.UsedIn(name, unreclaimable)-claims)
		}

		if v.rareBorrowers[name] {
			free = min(free, q.Deserved[card]-t.UsedIn(name, use)-claims)
		}
	}

	return free
}

// reservedFor returns what enqueued groups may have reserved, by queue, for a unit that is not
// enqueued.
func (v *sessionView) reservedFor(u *startUnit, card string) rule.TreeUse {
	reserved := rule.TreeUse{}
	if u.phase != scheduling.PodGroupPending && u.phase != "" {
		return reserved
	}

	for _, g := range v.groups {
		if g.name == u.name || g.phase == scheduling.PodGroupPending || g.phase == "" {
			continue
		}
		for _, p := range g.waiting {
			if len(p.names) == 0 || slices.Contains(p.names, card) {
				reserved[g.queue] += int64(p.cards)
			}
		}
	}

	return reserved
}

func sumOf(use rule.TreeUse) int64 {
	var sum int64
	for _, n := range use {
		sum += n
	}
	return sum
}

// coolsDown reports whether a queue may not borrow now: cards were taken back from it, or from a
// queue with an ancestor in common.
func (w *sequenceRun) coolsDown(v *sessionView, queue string) bool {
	if v.tree == nil {
		return false
	}

	path := v.tree.PathOf(queue)
	for name, times := range w.lostCards {
		others := v.tree.PathOf(name)
		last := times[len(times)-1]
		if others[len(others)-1] == path[len(path)-1] && time.Since(last) < minRestartInterval+2*time.Second {
			return true
		}
	}

	return false
}

// rareBorrowers returns the queues that may not borrow for up to an hour, since cards were taken back from
// them again and again, with their ancestors.
func (w *sequenceRun) rareBorrowers(tree *rule.Tree) map[string]bool {
	rare := map[string]bool{}
	for name, times := range w.lostCards {
		if last := times[len(times)-1]; len(times) < 2 || time.Since(last) > time.Hour {
			continue
		}
		for _, queue := range tree.PathOf(name) {
			rare[queue] = true
		}
	}
	return rare
}
