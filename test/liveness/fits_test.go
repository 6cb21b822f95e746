package liveness

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling"
)

// startUnit is what starts together: the pods that a gang lacks, or one above its minimum.
type startUnit struct {
	*group
	pods []*pod
}

// waitingUnits are all that waits and is judged.
func (v *sessionView) waitingUnits() []*startUnit {
	var units []*startUnit
	for _, g := range v.groups {
		lacks := g.min - len(g.placed)
		switch {
		case len(g.waiting) == 0 || g.strange || len(g.leaving)+len(g.promised) > 0:
		case lacks > len(g.waiting) || lacks > 0 && lacks < len(g.waiting) && !haveSameRequest(g.waiting):
		default:
			units = append(units, &startUnit{g, g.waiting[:max(1, lacks)]})
		}
	}
	return units
}

// haveSameRequest tells pods that ask for the same.
func haveSameRequest(pods []*pod) bool {
	return !slices.ContainsFunc(pods, func(p *pod) bool { return kindOf(p) != kindOf(pods[0]) })
}

// kindOf tells pods apart that ask for different things.
func kindOf(p *pod) string {
	return fmt.Sprint(p.cards, p.cpu, p.names, p.isMIG, p.tolerates, p.apart)
}

// fitsPod reports whether a node takes a pod, and its queue's quota too.
func (n *nodeView) fitsPod(p *pod, room map[string]int) bool {
	if n.closed || n.tainted && !p.tolerates || n.cpu < p.cpu || p.apart && n.apart[p.group] > 0 {
		return false
	}
	if p.cards == 0 {
		return true
	}
	return p.isMIG == strings.Contains(n.card, "/mig-") && n.cards >= p.cards && room[n.card] >= p.cards && (len(p.names) == 0 || slices.Contains(p.names, n.card))
}

// mustFit reports whether pods can all be placed, whatever the order in which they are,
// and wherever each of them goes: then whoever places one after the other gets through.
func (v *sessionView) mustFit(pods []*pod, room map[string]int) bool {
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
			if !n.fitsPod(p, room) {
				continue
			}
			fits = true
			n.addPod(p)
			room[n.card] -= p.cards
			gotThrough := v.mustFit(rest, room)
			n.removePod(p)
			room[n.card] += p.cards
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

// unitFits reports whether a unit fits the nodes and its queue's quota now, beside what may
// stand ahead of it.
func (v *sessionView) unitFits(u *startUnit) bool { return v.mustFit(u.pods, v.roomFor(u)) }

// roomFor is what of its queue's quota a unit may use for sure: all that is not used, and
// while it is not enqueued without what those may have reserved who wait for quota.
func (v *sessionView) roomFor(u *startUnit) map[string]int {
	room := map[string]int{}
	for card, n := range v.queues[u.queue].room {
		room[card] = n
	}
	if u.phase != scheduling.PodGroupPending && u.phase != "" {
		return room
	}
	for _, g := range v.groups {
		if g.queue != u.queue || g.name == u.name || !v.waitsForQuota(g) {
			continue
		}
		for _, p := range g.waiting {
			for card := range room {
				room[card] -= p.cards
			}
		}
	}
	return room
}

// waitsForQuota reports whether a group was enqueued and waits for quota that it may get.
// Only for such a one a reservation lasts.
func (v *sessionView) waitsForQuota(g *group) bool {
	if len(g.waiting) == 0 || g.phase == scheduling.PodGroupPending || g.phase == "" {
		return false
	}
	if !haveSameRequest(g.waiting) {
		return true
	}
	p, of := g.waiting[0], v.queues[g.queue]
	lacks := max(1, g.min-len(g.placed))
	return p.cards > 0 && podsWithinQuota(p, of.room) < lacks && podsWithinQuota(p, of.quota) >= max(g.min, 1)
}

// podsWithinQuota is how many pods like one there is quota for.
func podsWithinQuota(p *pod, room map[string]int) int {
	sum := 0
	for card, n := range room {
		if len(p.names) == 0 || slices.Contains(p.names, card) {
			sum += max(0, n) / p.cards
		}
	}
	return sum
}

// reclaimablePods are the pods that may be taken for sure for a queue of a priority.
func (v *sessionView) reclaimablePods(priority int32, runsEnough func(*group) bool) []*pod {
	var pods []*pod
	for _, g := range v.groups {
		of := v.queues[g.queue]
		if of.kind == "training" && of.gives && of.priority < priority && !g.isProtected && !g.strange && runsEnough(g) {
			pods = append(pods, g.placed...)
		}
	}
	return pods
}

// fitsByTaking reports whether a unit fits when all jobs are gone that may be taken for it
// for certain.
func (v *sessionView) fitsByTaking(u *startUnit, runsEnough func(*group) bool) bool {
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
	fits := v.mustFit(u.pods, v.roomFor(u))
	for _, p := range gone {
		move(p, (*nodeView).addPod)
	}
	return fits && len(gone) > 0
}
