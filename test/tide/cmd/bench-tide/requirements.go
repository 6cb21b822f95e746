package main

import (
	"fmt"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// maxLossFactor bounds the lost card-seconds, relative to those of Volcano's action.
const maxLossFactor = 0.25

// unmetRequirements returns the requirements that are not met. Every run of ours must keep the
// limits; comparisons use medians and the requests of all runs.
func (r *report) unmetRequirements() (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	for n, m := range r.Runs[tide.CardReclaim] {
		for _, name := range scenes {
			for _, fault := range m.Scenes[name].Violations() {
				fail("run %d, %s: %s", n+1, name, fault)
			}
		}

		for _, late := range []string{
			tide.LateMessage(oneDeployment+" bound", m.Scenes[oneDeployment].BoundAfter(), tide.MaxBoundAfter),
			tide.LateMessage(manyDeployments+" bound", m.Scenes[manyDeployments].BoundAfter(), tide.MaxBoundAfter),
			tide.LateMessage(oneGang+" running", m.Scenes[oneGang].RunningAfter(), tide.MaxGangRunningAfter),
		} {
			if late != "" {
				fail("run %d: %s", n+1, late)
			}
		}

		if missing := countStuckGangs(m); missing > 0 {
			fail("run %d: %d gangs did not come back", n+1, missing)
		}
	}

	own := harness.Quantile(r.waitingTimes(tide.CardReclaim), 0.95)
	theirs := harness.Quantile(r.waitingTimes(tide.Reclaim), 0.95)
	if own > theirs {
		fail("one pod is bound after %.2f s (p95), with Volcano's action after %.2f s", own.Seconds(), theirs.Seconds())
	}

	mine := r.medianOf(tide.CardReclaim, cardSeconds)
	limit := maxLossFactor * r.medianOf(tide.Reclaim, cardSeconds)
	if mine > limit {
		fail("%.0f card-seconds lost, a quarter of those of Volcano's action is %.0f", mine, limit)
	}

	return failures
}

// waitingTimes returns how long each single pod waited, over all runs.
func (r *report) waitingTimes(action string) (all []time.Duration) {
	for _, m := range r.Runs[action] {
		all = append(all, m.Scenes[oneByOne].Waited...)
	}
	return all
}

// minGangs returns how many gangs must be broken in a scene.
func (r *report) minGangs(scene string) int {
	return r.Runs[tide.CardReclaim][0].Scenes[scene].Loss.Least
}

var cardSeconds = sumOverScenes(func(l harness.Loss) float64 { return l.CardSeconds })

func (r *report) medianOf(action string, value func(*runResult) float64) float64 {
	return harness.Median(harness.SortedValues(r.Runs[action], value))
}

// countStuckGangs returns how many gangs did not run again.
func countStuckGangs(m *runResult) (n int) {
	for _, s := range m.Scenes {
		n += s.Stuck
	}
	for _, ebb := range m.Ebb {
		n += len(ebb.Stuck)
	}
	return n
}

// sumOverScenes sums a loss over all scenes.
func sumOverScenes(of func(harness.Loss) float64) func(*runResult) float64 {
	return func(m *runResult) (sum float64) {
		for _, s := range m.Scenes {
			sum += of(s.Loss)
		}
		return sum
	}
}
