package liveness

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling"
)

// unit is what starts together: the pods that a gang lacks, or one above its minimum.
type unit struct {
	*group
	pods []*pod
}

// units are all that waits and is judged.
func (v *view) units() []*unit {
	var units []*unit
	for _, g := range v.groups {
		lacks := g.min - len(g.placed)
		switch {
		case len(g.waiting) == 0 || g.strange || len(g.leaving)+len(g.promised) > 0:
		case lacks > len(g.waiting) || lacks > 0 && lacks < len(g.waiting) && !alike(g.waiting):
		default:
			units = append(units, &unit{g, g.waiting[:max(1, lacks)]})
		}
	}
	return units
}

// alike tells pods that ask for the same.
func alike(pods []*pod) bool {
	return !slices.ContainsFunc(pods, func(p *pod) bool { return kindOf(p) != kindOf(pods[0]) })
}

// kindOf tells pods apart that ask for different things.
func kindOf(p *pod) string {
	return fmt.Sprint(p.cards, p.cpu, p.names, p.isMIG, p.tolerates, p.apart)
}

// fit reports whether a node takes a pod, and its queue's quota too.
func (n *place) fit(p *pod, room map[string]int) bool {
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
func (v *view) mustFit(pods []*pod, room map[string]int) bool {
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
			if !n.fit(p, room) {
				continue
			}
			fits = true
			n.take(p)
			room[n.card] -= p.cards
			gotThrough := v.mustFit(rest, room)
			n.give(p)
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

// fits reports whether a unit fits the nodes and its queue's quota now, beside what may
// stand ahead of it.
func (v *view) fits(u *unit) bool { return v.mustFit(u.pods, v.roomFor(u)) }

// roomFor is what of its queue's quota a unit may use for sure: all that is not used, and
// while it is not enqueued without what those may have reserved who wait for quota.
func (v *view) roomFor(u *unit) map[string]int {
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
func (v *view) waitsForQuota(g *group) bool {
	if len(g.waiting) == 0 || g.phase == scheduling.PodGroupPending || g.phase == "" {
		return false
	}
	if !alike(g.waiting) {
		return true
	}
	p, of := g.waiting[0], v.queues[g.queue]
	lacks := max(1, g.min-len(g.placed))
	return p.cards > 0 && slots(p, of.room) < lacks && slots(p, of.quota) >= max(g.min, 1)
}

// slots is how many pods like one there is quota for.
func slots(p *pod, room map[string]int) int {
	sum := 0
	for card, n := range room {
		if len(p.names) == 0 || slices.Contains(p.names, card) {
			sum += max(0, n) / p.cards
		}
	}
	return sum
}

// takable are the pods that may be taken for sure for a queue of a priority.
func (v *view) takable(priority int32, runsEnough func(*group) bool) []*pod {
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
func (v *view) fitsByTaking(u *unit, runsEnough func(*group) bool) bool {
	own := v.queues[u.queue]
	if own.kind != "inference" || u.phase == scheduling.PodGroupPending || u.phase == "" || !slices.ContainsFunc(u.pods, func(p *pod) bool { return p.cards > 0 }) {
		return false
	}
	gone := v.takable(own.priority, runsEnough)
	move := func(p *pod, move func(*place, *pod)) {
		for _, n := range v.nodes {
			if n.name == p.node {
				move(n, p)
			}
		}
	}
	for _, p := range gone {
		move(p, (*place).give)
	}
	fits := v.mustFit(u.pods, v.roomFor(u))
	for _, p := range gone {
		move(p, (*place).take)
	}
	return fits && len(gone) > 0
}
