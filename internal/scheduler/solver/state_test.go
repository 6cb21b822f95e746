package solver

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// rebuildState returns a state with the same victims, added in the order of units.
func rebuildState(s *state) *state {
	fresh := newState(s.model)
	for pass := range 2 {
		for u, x := range s.units {
			if s.isVictim[u] && (x.pod == wholeJob) == (pass == 1) {
				fresh.addVictim(u, none)
			}
		}
	}
	return fresh
}

// TestStateSumsMatchRecount: the search adds and drops victims millions of times, so its state changes its sums
// instead of counting again. After random additions and drops the sums must equal those of a fresh state with the
// same victims. When all victims are dropped, they must equal those of a fresh state without victims.
func TestStateSumsMatchRecount(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"flat": smallProblem, "tree": smallTree}) {
		seed.Check(t, func(t *rapid.T) {
			p := draw(t)
			m := newModel(p)
			m.addJobs(p)
			if len(m.units) == 0 {
				return
			}

			s := newState(m)
			for range 20 {
				u := rapid.IntRange(0, len(m.units)-1).Draw(t, "unit") // a pod, or a whole job
				switch {
				case s.isVictim[u]:
					s.dropVictim(u, none)
				case s.canChoose(u):
					s.addVictim(u, none)
				}

				want := rebuildState(s)
				check.Must(t, haveSameSums(s, want), "%+v, a recount gives %+v", s, want)
			}

			for _, u := range s.chosenUnits() {
				s.dropVictim(u, none)
			}

			fresh := newState(m)
			check.Must(t, fitTheSame(s, fresh) && reflect.DeepEqual(s.fitByQuota, fresh.fitByQuota), "%+v is left without victims", s)
		})
	}
}

// haveSameSums reports whether two states agree on all that the victims sum up to.
func haveSameSums(a, b *state) bool {
	return fitTheSame(a, b) && reflect.DeepEqual(a.fitCounts, b.fitCounts) && reflect.DeepEqual(a.quotas, b.quotas) &&
		reflect.DeepEqual(a.jobStates, b.jobStates) && reflect.DeepEqual(a.roleVictims, b.roleVictims) && reflect.DeepEqual(a.leftToFree, b.leftToFree)
}

// fitTheSame reports whether two states agree on the loss, and on what is available and taken.
func fitTheSame(a, b *state) bool {
	return a.loss == b.loss && reflect.DeepEqual(a.available, b.available) && reflect.DeepEqual(a.levelsLeft, b.levelsLeft) && reflect.DeepEqual(a.taken, b.taken)
}
