package main

import (
	"fmt"
	"time"

	"cardquota.dev/operator/test/arena"
	"cardquota.dev/operator/test/tide"
)

// lossFactor is how many card-seconds may be lost, of those that Volcano's own
// action loses.
const lossFactor = 0.25

// judge lists the requirements that do not hold. Every run of ours must keep the
// limits; where it is compared, medians and the requests of all runs are.
func (r *report) judge() (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	for n, m := range r.Runs[tide.CardReclaim] {
		for _, name := range scenes {
			for _, fault := range m.Scenes[name].Faults() {
				fail("run %d, %s: %s", n+1, name, fault)
			}
		}
		for _, late := range []string{
			tide.Late(flood+" bound", m.Scenes[flood].BoundAfter(), tide.FloodLimit),
			tide.Late(floods+" bound", m.Scenes[floods].BoundAfter(), tide.FloodLimit),
			tide.Late(large+" running", m.Scenes[large].RunningAfter(), tide.GangLimit),
		} {
			if late != "" {
				fail("run %d: %s", n+1, late)
			}
		}
		if missing := stuck(m); missing > 0 {
			fail("run %d: %d gangs did not come back", n+1, missing)
		}
	}
	own, theirs := arena.Quantile(r.waited(tide.CardReclaim), 0.95), arena.Quantile(r.waited(tide.Reclaim), 0.95)
	if own > theirs {
		fail("one pod is bound after %.2f s (p95), with Volcano's action after %.2f s", own.Seconds(), theirs.Seconds())
	}
	if mine, limit := r.median(tide.CardReclaim, cardSeconds), lossFactor*r.median(tide.Reclaim, cardSeconds); mine > limit {
		fail("%.0f card-seconds lost, a quarter of those of Volcano's action is %.0f", mine, limit)
	}
	return failures
}

// waited is how long each pod that came alone waited, in all runs.
func (r *report) waited(action string) (all []time.Duration) {
	for _, m := range r.Runs[action] {
		all = append(all, m.Scenes[oneByOne].Waited...)
	}
	return all
}

// least is how many gangs must be broken in a scene.
func (r *report) least(scene string) int {
	return r.Runs[tide.CardReclaim][0].Scenes[scene].Loss.Least
}

var cardSeconds = inAll(func(l arena.Loss) float64 { return l.CardSeconds })

func (r *report) median(action string, value func(*measured) float64) float64 {
	return arena.Median(arena.Sorted(r.Runs[action], value))
}

// stuck is how many gangs did not come back.
func stuck(m *measured) (n int) {
	for _, s := range m.Scenes {
		n += s.Stuck
	}
	for _, ebb := range m.Ebb {
		n += len(ebb.Stuck)
	}
	return n
}

// inAll sums a loss over all scenes.
func inAll(of func(arena.Loss) float64) func(*measured) float64 {
	return func(m *measured) (sum float64) {
		for _, s := range m.Scenes {
			sum += of(s.Loss)
		}
		return sum
	}
}
