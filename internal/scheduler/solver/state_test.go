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

func TestStateSumsMatchRecount(t *testing.T) {
	for t, draw := range check.Cases(t, map[string]func(*rapid.T) *Problem{"flat": smallProblem, "tree": smallTree}) {
		checkStateSums(t, draw)
	}
}

func checkStateSums(t *testing.T, draw func(*rapid.T) *Problem) {
	seed.Check(t, func(t *rapid.T) {
		p := draw(t)
		m := newModel(p)
		m.addJobs(p)
		if len(m.units) == 0 {
			return
		}
		s := newState(m)
		for range 20 {
			u := rapid.IntRange(0, len(m.units)-1).Draw(t, "unit")
			switch {
			case s.isVictim[u]:
				s.dropVictim(u, none)
			case s.canChoose(u):
				s.addVictim(u, none)
			}
			want := rebuildState(s)
			if s.loss != want.loss || !reflect.DeepEqual(s.available, want.available) || !reflect.DeepEqual(s.fitCounts, want.fitCounts) ||
				!reflect.DeepEqual(s.jobStates, want.jobStates) || !reflect.DeepEqual(s.roleVictims, want.roleVictims) || !reflect.DeepEqual(s.leftToFree, want.leftToFree) ||
				!reflect.DeepEqual(s.levelsLeft, want.levelsLeft) || !reflect.DeepEqual(s.quotas, want.quotas) || !reflect.DeepEqual(s.taken, want.taken) {
				t.Fatalf("%+v, a recount gives %+v", s, want)
			}
		}
		for _, u := range s.chosenUnits() {
			s.dropVictim(u, none)
		}
		fresh := newState(m)
		check.Must(t, s.loss == fresh.loss && reflect.DeepEqual(s.available, fresh.available) && reflect.DeepEqual(s.fitByQuota, fresh.fitByQuota) &&
			reflect.DeepEqual(s.levelsLeft, fresh.levelsLeft) && reflect.DeepEqual(s.taken, fresh.taken),
			"%+v is left when nothing is taken", s)
	})
}
