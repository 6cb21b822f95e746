package liveness

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling"
)

// startUnit is a set of pods that start together: the pods that a gang lacks, or one above its
// minimum.
type startUnit struct {
	*group
	pods []*pod
}

// waitingUnits returns all waiting units that are checked: not those of a queue that is held, in which
// pods without cards wait, too.
func (v *sessionView) waitingUnits() []*startUnit {
	var units []*startUnit
	for _, g := range v.groups {
		lacks := g.min - len(g.placed)
		switch {
		case len(g.waiting) == 0 || g.strange || v.isHeld[g.queue] || len(g.releasing)+len(g.pipelined) > 0:
		case lacks > len(g.waiting) || (lacks > 0 && lacks < len(g.waiting) && !haveSameRequest(g.waiting)):
		default:
			units = append(units, &startUnit{g, g.waiting[:max(1, lacks)]})
		}
	}
	return units
}

// haveSameRequest reports whether pods have the same request.
func haveSameRequest(pods []*pod) bool {
	return !slices.ContainsFunc(pods, func(p *pod) bool { return kindOf(p) != kindOf(pods[0]) })
}

// kindOf returns a text that differs between pods with different requests.
func kindOf(p *pod) string {
	return fmt.Sprint(p.cards, p.cpu, p.names, p.isMIG, p.tolerates, p.apart)
}

// fitsPod reports whether a pod fits a node and its queue's quota.
func (n *nodeView) fitsPod(p *pod, free map[string]int) bool {
	isRepelled := (n.tainted && !p.tolerates) || (p.apart && n.apart[p.group] > 0)
	if n.closed || isRepelled || n.cpu < p.cpu {
		return false
	}
	if p.cards == 0 {
		return true
	}
	return p.isMIG == strings.Contains(n.card, "/mig-") && n.cards >= p.cards && free[n.card] >= p.cards && p.allowsCard(n.card)
}

// allowsCard reports whether a pod names a card, or none.
func (p *pod) allowsCard(card string) bool {
	return len(p.names) == 0 || slices.Contains(p.names, card)
}

// mustFit reports whether pods can all be placed in any order and on any nodes. Then a
// scheduler that places one after the other succeeds.
func (v *sessionView) mustFit(pods []*pod, free map[string]int) bool {
	if len(pods) == 0 {
		return true
	}

	tried := map[string]bool{}
	for i, p := range pods {
		if tried[kindOf(p)] {
			continue
		}
		tried[kindOf(p)] = true
		rest := slices.Delete(slices.Clone(pods), i, i+1)

		fits := false
		for _, n := range v.nodes {
			if !n.fitsPod(p, free) {
				continue
			}

			fits = true
			n.addPod(p)
			free[n.card] -= p.cards
			gotThrough := v.mustFit(rest, free)

			n.removePod(p)
			free[n.card] += p.cards
			if !gotThrough {
				return false
			}
		}

		if !fits {
			return false
		}
	}

	return true
}

// unitFits reports whether a unit fits the nodes and its queue's quota now, beside everything
// that may be placed first.
func (v *sessionView) unitFits(u *startUnit) bool { return v.mustFit(u.pods, v.freeFor(u)) }

// freeFor returns the part of its queue's quota that a unit can certainly use: what is not
// used. Before it is enqueued, the possible reservations of groups that wait for quota are
// subtracted.
func (v *sessionView) freeFor(u *startUnit) map[string]int {
	if v.tree != nil {
		return v.treeFree(u)
	}

	free := map[string]int{}
	for card, n := range v.queues[u.queue].free {
		free[card] = n
	}

	if u.phase != scheduling.PodGroupPending && u.phase != "" {
		return free
	}

	for _, g := range v.groups {
		if g.queue != u.queue || g.name == u.name || !v.waitsForQuota(g) {
			continue
		}
		for _, p := range g.waiting {
			for card := range free {
				free[card] -= p.cards
			}
		}
	}

	return free
}

// waitsForQuota reports whether an enqueued group waits for quota that it may get. Only such a
// group keeps its reservation.
func (v *sessionView) waitsForQuota(g *group) bool {
	if len(g.waiting) == 0 || g.phase == scheduling.PodGroupPending || g.phase == "" {
		return false
	}
	if !haveSameRequest(g.waiting) {
		return true
	}
	p := g.waiting[0]
	of := v.queues[g.queue]
	lacks := max(1, g.min-len(g.placed))
	return p.cards > 0 && v.podsWithinQuota(p, of.free) < lacks && v.podsWithinQuota(p, of.quota) >= max(g.min, 1)
}

// podsWithinQuota returns how many pods like one fit the quota. A pod that names no card may run on the
// cards that nodes have, and other quota is of no use to it.
func (v *sessionView) podsWithinQuota(p *pod, free map[string]int) int {
	sum := 0
	for card, n := range free {
		isOfNode := slices.ContainsFunc(v.nodes, func(node *nodeView) bool { return node.card == card })
		if (len(p.names) == 0 && isOfNode) || slices.Contains(p.names, card) {
			sum += max(0, n) / p.cards
		}
	}
	return sum
}

// reclaimablePods returns the pods that are certainly reclaimable for a queue of a priority.
func (v *sessionView) reclaimablePods(priority int32, runsEnough func(*group) bool) []*pod {
	var pods []*pod
	for _, g := range v.groups {
		of := v.queues[g.queue]
		isLower := of.kind == "training" && of.gives && of.priority < priority
		if isLower && !g.isProtected && !g.strange && runsEnough(g) {
			pods = append(pods, g.placed...)
		}
	}
	return pods
}

// fitsByReclaiming reports whether a unit fits without all jobs that are certainly reclaimable for
// it.
func (v *sessionView) fitsByReclaiming(u *startUnit, runsEnough func(*group) bool) bool {
	own := v.queues[u.queue]
	if own.kind != "inference" || u.phase == scheduling.PodGroupPending || u.phase == "" || !slices.ContainsFunc(u.pods, func(p *pod) bool { return p.cards > 0 }) {
		return false
	}

	gone := v.reclaimablePods(own.priority, runsEnough)
	move := func(p *pod, move func(*nodeView, *pod)) {
		for _, n := range v.nodes {
			if n.name == p.node {
				move(n, p)
			}
		}
	}

	for _, p := range gone {
		move(p, (*nodeView).removePod)
	}

	fits := v.mustFit(u.pods, v.freeFor(u))
	for _, p := range gone {
		move(p, (*nodeView).addPod)
	}

	return fits && len(gone) > 0
}
