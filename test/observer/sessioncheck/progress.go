package sessioncheck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

// reservationTimeout is how long an enqueued PodGroup keeps its reservation without progress
// for other reasons than quota.
const reservationTimeout = 5 * time.Minute

// waitState is the record of a unit.
type waitState struct {
	// fitsSince is since when the unit fits, zero when it does not.
	fitsSince time.Time
	// lastProgress is when the unit was enqueued, had a pod placed, or lacked quota.
	lastProgress time.Time
	phase        v1beta1.PodGroupPhase
	placed       int
	reported     bool
}

// updateWaiting updates all units after a change.
func (j *Checker) updateWaiting(at time.Time) {
	units := j.state.waitingUnits()
	known := map[types.UID]bool{}
	for _, u := range units {
		known[u.group.UID] = true
		j.recordProgress(u, at)
	}

	for uid := range j.waiting {
		if !known[uid] {
			delete(j.waiting, uid)
		}
	}

	for _, u := range units {
		state := j.waiting[u.group.UID]
		switch {
		case !j.mustStart(u, units, at) && !j.mustReclaim(u, units):
			state.fitsSince = time.Time{}
			state.reported = false
		case state.fitsSince.IsZero():
			state.fitsSince = at
		}
	}
}

// recordProgress records the progress of a unit; progress restarts its deadline.
func (j *Checker) recordProgress(u *unit, at time.Time) {
	state, known := j.waiting[u.group.UID]
	if !known {
		state = &waitState{lastProgress: at}
		j.waiting[u.group.UID] = state
	}

	enqueued := isEnqueued(u) && state.phase != u.group.Status.Phase
	if enqueued || u.placed > state.placed {
		state.lastProgress = at
		state.fitsSince = time.Time{}
		state.reported = false
	}

	state.phase = u.group.Status.Phase
	state.placed = u.placed
	if j.state.canEverFit(u) && len(u.pods) > 0 && u.pods[0].request.Count > 0 && !j.state.hasQuota(u) {
		state.lastProgress = at
	}
}

func isEnqueued(u *unit) bool {
	switch u.group.Status.Phase {
	case v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupUnknown:
		return true
	}
	return false
}

// hasQuota reports whether the queue's quota alone has room for what a unit needs.
func (w *clusterState) hasQuota(u *unit) bool {
	state := w.queues[u.queue]
	used := w.queueUsage(u.queue)
	request := u.pods[0].request

	if state == nil {
		return false
	}
	if w.tree != nil {
		return w.hasTreeQuota(u)
	}

	var slots int64
	for _, card := range request.Cards {
		slots += max(0, state.limits.Cards[card]-used.cards[card]) / request.Count
	}

	return state.limits.AnyCard || slots >= int64(u.minPods)
}

// mustStart reports whether a unit must make progress.
func (j *Checker) mustStart(u *unit, units []*unit, at time.Time) bool {
	if u.unsupported != "" || !j.state.isOpen(u) {
		return false
	}

	claims := j.collectReservations(u, units, at)
	if len(u.pods) == 0 {
		return !isEnqueued(u) && j.announcementFits(u, claims, at)
	}

	request := u.pods[0].request
	if request.Count == 0 || request.Denial != "" || len(request.Cards) == 0 {
		return false
	}
	if !isEnqueued(u) && !j.announcementFits(u, claims, at) {
		return false
	}

	switch u.group.Status.Phase {
	case "", v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupUnknown:
		return j.startablePods(u, claims, at) >= int64(u.minPods)
	}

	return false
}

// collectReservations returns what the other units may use before a unit.
func (j *Checker) collectReservations(u *unit, units []*unit, at time.Time) []reservation {
	w := j.state
	var claims []reservation
	for _, other := range units {
		if other != u {
			claims = append(claims, reservation{other, (w.tree != nil || other.queue == u.queue) && j.mayHaveReservation(other, at), j.mayStart(other)})
		}
	}
	return claims
}

// announcementFits reports whether everything that a PodGroup announces fits its queue beside
// usage and reservations.
func (j *Checker) announcementFits(u *unit, claims []reservation, at time.Time) bool {
	w := j.state
	if !hasReadableRequest(u.group) {
		return false // what cannot be read is refused
	}

	limits := w.queues[u.queue].limits
	asked := int64(0)
	taken := w.usageWith(u.queue, claims)
	for _, d := range u.announced {
		taken.addRequest(d)
		asked += d.count
		fits := func(card string) bool {
			return taken.cards[card] <= limits.Cards[card] && (w.tree == nil || asked <= j.treeFree(u, card, claims, at))
		}
		if !limits.AnyCard && d.count > 0 && !slices.ContainsFunc(d.cards, fits) {
			return false
		}
	}

	if asked <= 0 && len(u.pods) == 0 {
		return false
	}

	exempt := w.options.UnlimitedCPUMemory && asked > 0
	return exempt || isCPUMemoryWithin(limits, taken)
}

// hasReadableRequest reports whether a PodGroup has no card.request, or one that can be read.
func hasReadableRequest(group *v1beta1.PodGroup) bool {
	text, announces := group.Annotations[v1alpha1.AnnotationCardRequest]
	if !announces {
		return true
	}
	_, err := rule.ParseTotals(text)
	return err == nil
}

// usageWith returns the usage of a queue including the reservations of its quota.
func (w *clusterState) usageWith(queue string, claims []reservation) usage {
	sum := w.queueUsage(queue)
	sum.cards = maps.Clone(sum.cards)
	for _, c := range claims {
		if c.quota && c.unit.queue == queue {
			for _, d := range c.unit.requests {
				sum.addRequest(d)
			}
		}
	}
	return sum
}

func isWithin(limit, sum int64) bool { return limit == rule.Unlimited || sum <= limit }

// isCPUMemoryWithin reports whether limits allow the CPU and the memory of a usage.
func isCPUMemoryWithin(limits rule.Limits, taken usage) bool {
	return isWithin(limits.MilliCPU, taken.milliCPU) && isWithin(limits.Memory, taken.memory)
}

// mayHaveReservation reports whether a unit may have a reservation in its queue, or get one
// before others.
func (j *Checker) mayHaveReservation(u *unit, at time.Time) bool {
	if !j.state.canEverFit(u) {
		return false
	}
	if !isEnqueued(u) {
		return true
	}
	return u.unsupported != "" || at.Sub(j.waiting[u.group.UID].lastProgress) < reservationTimeout+j.options.Lag || j.mayStart(u)
}

// mayStart reports whether a unit could be placed now, or when the terminating pods are gone.
func (j *Checker) mayStart(u *unit) bool {
	w := j.state
	switch {
	case len(u.pods) == 0 || !w.isOpen(u):
		return false
	case u.unsupported != "" || u.pods[0].request.Count == 0:
		return true
	}

	starts, known := w.cached.mayStart[u.group.UID]
	if !known {
		var slots int64
		for _, n := range w.podsThatFitNodes(u, false) {
			slots += n
		}
		starts = w.hasQuota(u) && slots >= int64(u.minPods)
		w.cached.mayStart[u.group.UID] = starts
	}

	return starts
}

// checkProgress reports the units that fit and made no progress in time, and returns those that
// still have time.
func (j *Checker) checkProgress(now time.Time) (open []string) {
	for _, u := range j.state.waitingUnits() {
		state := j.waiting[u.group.UID]
		if state == nil || state.fitsSince.IsZero() || state.reported {
			continue
		}

		passed, waiting := j.sessions.havePassed(state.fitsSince.Add(j.options.Lag), j.options.Sessions, now)
		switch {
		case passed:
			state.reported = true
			can := "fits its quota and the nodes"
			if len(u.pods) > 0 && j.startablePods(u, nil, now) < int64(u.minPods) {
				can = "may have cards taken back for it"
			}
			j.addViolation(Progress, now, u.objectName(), "%s since %s, and %d sessions closed without it: %s",
				can, state.fitsSince.Format("15:04:05.000"), j.options.Sessions, j.describeUnit(u))
		case waiting && j.isConcerned(u.objectName()):
			open = append(open, u.objectName()+" fits and is not placed yet")
		}
	}
	return open
}

// describeUnit describes what a unit waits for.
func (j *Checker) describeUnit(u *unit) string {
	limits := j.state.queues[u.queue].limits
	if len(u.pods) == 0 {
		return fmt.Sprintf("it waits to be enqueued in queue <%s> with %s", u.queue, limits.Cards)
	}
	return fmt.Sprintf("%d of its pods request %d of %v each, queue <%s> has a quota of %s and uses %s",
		u.minPods, u.pods[0].request.Count, u.pods[0].request.Cards, u.queue, limits.Cards, j.state.queueUsage(u.queue).cards)
}
