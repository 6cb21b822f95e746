package liveness

import (
	"fmt"
	"slices"
	"time"
)

// turn is how long a gang has waited for its turn, in ends of other pods.
//
// Cards that become free are kept for a gang against the pods from which it may take cards. So each end
// of such a pod, on a node that the gang can use, brings it nearer to its start. At most the pods that
// run when it begins to wait end before that. The cards that it lacks are added for pods that start
// before it is enqueued, and for those that end while its last pods are placed.
type turn struct {
	allowed, ends int
	// began is when it began to wait, last when a pod ended last.
	began, last time.Time
	// others are the pods that ran on its nodes in the last session, by UID.
	others map[string]bool
}

// The bounds of a reservation, after which a gang comes behind its equals until one of its pods is
// placed.
const (
	maxWaitForEnd  = 4 * time.Minute
	maxReservation = 50 * time.Minute
)

// isExpired reports whether the gang may have lost its reservation: no pod ended for too long, or it has
// waited for too long.
func (of *turn) isExpired() bool {
	return time.Since(of.last) > maxWaitForEnd || time.Since(of.began) > maxReservation
}

// checkTurns counts the ends for which gangs wait that have their turn, and reports a gang that waits
// for too many.
func (w *sequenceRun) checkTurns(v *sessionView) string {
	counted := map[string]*turn{}
	for name, of := range w.turns {
		if of.isExpired() && slices.ContainsFunc(v.groups, func(g *group) bool { return g.name == name && len(g.placed) == 0 }) {
			counted[name] = of
		}
	}

	for _, u := range v.waitingUnits() {
		of := w.turns[u.name]
		hasTurn := w.hasTurn(v, u)
		isOver := len(u.placed) > 0 || (of == nil && !hasTurn)
		if counted[u.name] != nil || isOver {
			continue
		}

		others := w.podsBefore(v, u)
		if of == nil {
			of = &turn{allowed: len(others) + cardsOf(u.pods), began: time.Now(), last: time.Now()}
		}

		of.follow(others, hasTurn)
		counted[u.name] = of
		if of.ends > of.allowed {
			return fmt.Sprintf("does not get its turn: %s, after %d ends of other pods", w.describeUnit(u), of.ends)
		}
	}

	w.turns = counted
	return ""
}

// follow records the pods that run on the nodes of the gang. What ends counts while it is its turn. What starts
// at another time may have gone before it, and has to end as well.
func (of *turn) follow(others map[string]bool, hasTurn bool) {
	for uid := range of.others {
		if hasTurn && !others[uid] {
			of.ends++
			of.last = time.Now()
		}
	}

	for uid := range others {
		if !hasTurn && !of.others[uid] {
			of.allowed++
		}
	}

	of.others = others
}

func cardsOf(pods []*pod) int {
	sum := 0
	for _, p := range pods {
		sum += p.cards
	}
	return sum
}

// hasTurn reports whether a unit has precedence over all others that wait. In a tree it is within what
// its queue deserves, and the others borrow. In flat queues it may reclaim, and all others are of the
// types from which it may reclaim.
func (w *sequenceRun) hasTurn(v *sessionView, u *startUnit) bool {
	card, count, plain := u.cardNeeded()
	isUncertain := w.isLate() || w.isPipelined(u.name) || w.coolsDown(v, u.queue)
	if !plain || isUncertain || len(u.placed)+len(v.reservedInQueue(u)) > 0 {
		return false
	}

	if !v.hasPrecedence(u, card) {
		return false
	}

	always := func(*group) bool { return true }
	if v.tree == nil {
		return v.fitsByReclaiming(u, always)
	}

	isSingle := int(count) == len(u.pods) && !u.pods[0].apart
	return isSingle && v.fitsByTree(u, always)
}

// hasPrecedence reports whether all other groups that wait must leave cards to a unit.
func (v *sessionView) hasPrecedence(u *startUnit, card string) bool {
	return !slices.ContainsFunc(v.groups, func(g *group) bool { return g.name != u.name && len(g.waiting) > 0 && !v.standsBehind(u, g, card) })
}

// isPipelined reports whether pods of a group were pipelined in this session. It starts once pods have ended that
// are releasing now, so what else ends does not count.
func (w *sequenceRun) isPipelined(name string) bool {
	return w.after != nil && slices.ContainsFunc(w.after.groups, func(g *group) bool { return g.name == name && len(g.pipelined) > 0 })
}

// isLate reports whether the API server is slow or refuses requests, or something has just changed.
func (w *sequenceRun) isLate() bool {
	isRecent := time.Since(w.disturbed) < time.Minute
	return isRecent || w.server.pods.percent > 0 || w.delayPods > 0 || w.delayGroups > 0
}

// standsBehind reports whether the waiting pods of a group must leave cards to a unit.
func (v *sessionView) standsBehind(u *startUnit, g *group, card string) bool {
	if v.tree == nil {
		own := v.queues[u.queue]
		other := v.queues[g.queue]
		return other.kind == "training" && other.gives && other.priority < own.priority
	}
	used := v.tree.UsedIn(g.queue, v.treeUse(card, placedPods))
	return used >= v.tree.Queue(g.queue).Deserved[card]
}

// podsBefore returns the pods of others on the nodes that a unit can use once the pods have ended from
// which it may take, by UID.
func (w *sequenceRun) podsBefore(v *sessionView, u *startUnit) map[string]bool {
	var takeable []*pod
	for _, g := range v.groups {
		if g.queue != u.queue && w.mayTake(v, u.group, g) {
			takeable = append(takeable, slices.Concat(g.placed, g.releasing)...)
		}
	}

	back := v.withdraw(takeable)
	usable := map[string]bool{}
	for _, n := range v.nodes {
		usable[n.name] = !n.down && n.fitsPod(u.pods[0], map[string]int{n.card: u.pods[0].cards})
	}

	back()
	before := map[string]bool{}
	for _, p := range takeable {
		if usable[p.node] && p.cards > 0 {
			before[p.uid] = true
		}
	}

	return before
}
