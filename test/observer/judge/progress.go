package judge

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

// reservationEnds is how long a PodGroup that was enqueued keeps its reservation
// without progress for other reasons than quota.
const reservationEnds = 5 * time.Minute

// waiting is what is remembered of a unit.
type waiting struct {
	// fits is since when the unit fits, zero when it does not.
	fits time.Time
	// progress is when it was enqueued, had a pod placed, or was short of quota.
	progress time.Time
	phase    v1beta1.PodGroupPhase
	placed   int
	reported bool
}

// weigh looks at all units after a change.
func (j *Judge) weigh(at time.Time) {
	units := j.world.units()
	known := map[types.UID]bool{}
	for _, u := range units {
		known[u.group.UID] = true
		j.note(u, at)
	}
	for uid := range j.waits {
		if !known[uid] {
			delete(j.waits, uid)
		}
	}
	for _, u := range units {
		state := j.waits[u.group.UID]
		switch {
		case !j.fits(u, units, at) && !j.mustReclaim(u, units):
			state.fits, state.reported = time.Time{}, false
		case state.fits.IsZero():
			state.fits = at
		}
	}
}

// note remembers the progress of a unit; whoever makes some has its whole time again.
func (j *Judge) note(u *unit, at time.Time) {
	state, known := j.waits[u.group.UID]
	if !known {
		state = &waiting{progress: at}
		j.waits[u.group.UID] = state
	}
	enqueued := isEnqueued(u) && state.phase != u.group.Status.Phase
	if enqueued || u.placed > state.placed {
		state.progress, state.fits, state.reported = at, time.Time{}, false
	}
	state.phase, state.placed = u.group.Status.Phase, u.placed
	if j.world.canEverFit(u) && len(u.pods) > 0 && u.pods[0].ask.Count > 0 && !j.world.hasQuota(u) {
		state.progress = at
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
func (w *world) hasQuota(u *unit) bool {
	state, used, ask := w.queues[u.queue], w.useOf(u.queue), u.pods[0].ask
	if state == nil {
		return false
	}
	var slots int64
	for _, card := range ask.Cards {
		slots += max(0, state.limits.Cards[card]-used.cards[card]) / ask.Count
	}
	return state.limits.AnyCard || slots >= int64(u.needs)
}

// fits reports whether a unit must make progress.
func (j *Judge) fits(u *unit, units []*unit, at time.Time) bool {
	w := j.world
	if u.complex != "" || !w.isOpen(u) {
		return false
	}
	var claims []claim
	for _, other := range units {
		if other != u {
			claims = append(claims, claim{other, other.queue == u.queue && j.reserves(other, at), j.mayStart(other)})
		}
	}
	if len(u.pods) == 0 {
		return !isEnqueued(u) && w.announcementFits(u, claims)
	}
	ask := u.pods[0].ask
	if ask.Count == 0 || ask.Refusal != "" || len(ask.Cards) == 0 {
		return false
	}
	if !isEnqueued(u) && !w.announcementFits(u, claims) {
		return false
	}
	switch u.group.Status.Phase {
	case "", v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, v1beta1.PodGroupRunning, v1beta1.PodGroupUnknown:
		return w.slots(u, claims) >= int64(u.needs)
	}
	return false
}

// announcementFits reports whether all that a PodGroup announces fits its queue
// beside what is held and reserved there.
func (w *world) announcementFits(u *unit, claims []claim) bool {
	if text, announces := u.group.Annotations[v1alpha1.AnnotationCardRequest]; announces {
		if _, err := rule.ParseTotals(text); err != nil {
			return false // what cannot be read is refused
		}
	}
	limits, asked := w.queues[u.queue].limits, int64(0)
	taken := w.useBeside(u.queue, claims)
	for _, d := range u.announced {
		taken.add(d)
		asked += d.count
		fits := func(card string) bool { return taken.cards[card] <= limits.Cards[card] }
		if !limits.AnyCard && d.count > 0 && !slices.ContainsFunc(d.cards, fits) {
			return false
		}
	}
	exempt := w.options.UnlimitedCPUMemory && asked > 0
	return (asked > 0 || len(u.pods) > 0) && (exempt || within(limits.MilliCPU, taken.milliCPU) && within(limits.Memory, taken.memory))
}

// useBeside is what a queue uses with everything that claims its quota.
func (w *world) useBeside(queue string, claims []claim) use {
	sum := w.useOf(queue)
	sum.cards = maps.Clone(sum.cards)
	for _, c := range claims {
		if c.quota {
			for _, d := range c.unit.demands {
				sum.add(d)
			}
		}
	}
	return sum
}

func within(limit, sum int64) bool { return limit == rule.Unlimited || sum <= limit }

// reserves reports whether a unit may hold a reservation in its queue, or get one
// before others.
func (j *Judge) reserves(u *unit, at time.Time) bool {
	if !j.world.canEverFit(u) {
		return false
	}
	if !isEnqueued(u) {
		return true
	}
	return u.complex != "" || at.Sub(j.waits[u.group.UID].progress) < reservationEnds+j.options.Lag || j.mayStart(u)
}

// mayStart reports whether a unit could take places on nodes now, or when the pods
// have gone that are being deleted.
func (j *Judge) mayStart(u *unit) bool {
	w := j.world
	switch {
	case len(u.pods) == 0 || !w.isOpen(u):
		return false
	case u.complex != "" || u.pods[0].ask.Count == 0:
		return true
	}
	starts, known := w.sums.starts[u.group.UID]
	if !known {
		var slots int64
		for _, n := range w.nodeSlots(u, false) {
			slots += n
		}
		starts = w.hasQuota(u) && slots >= int64(u.needs)
		w.sums.starts[u.group.UID] = starts
	}
	return starts
}

// judgeProgress reports the units that fit and made no progress in time, and
// returns those that still have time.
func (j *Judge) judgeProgress(now time.Time) (open []string) {
	for _, u := range j.world.units() {
		state := j.waits[u.group.UID]
		if state == nil || state.fits.IsZero() || state.reported {
			continue
		}
		passed, waiting := j.sessions.passed(state.fits.Add(j.options.Lag), j.options.Sessions, now)
		switch {
		case passed:
			state.reported = true
			can := "fits its quota and the nodes"
			if len(u.pods) > 0 && j.world.slots(u, nil) < int64(u.needs) {
				can = "may have cards taken back for it"
			}
			j.report(Progress, now, u.object(), "%s since %s, and %d sessions closed without it: %s",
				can, state.fits.Format("15:04:05.000"), j.options.Sessions, j.describe(u))
		case waiting && j.concerned(u.object()):
			open = append(open, u.object()+" fits and is not placed yet")
		}
	}
	return open
}

// describe says what a unit waits for.
func (j *Judge) describe(u *unit) string {
	limits := j.world.queues[u.queue].limits
	if len(u.pods) == 0 {
		return fmt.Sprintf("it waits to be enqueued in queue <%s> with %s", u.queue, limits.Cards)
	}
	return fmt.Sprintf("%d of its pods ask for %d of %v each, queue <%s> has a quota of %s and uses %s",
		u.needs, u.pods[0].ask.Count, u.pods[0].ask.Cards, u.queue, limits.Cards, j.world.useOf(u.queue).cards)
}
