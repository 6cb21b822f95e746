package solver

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// recount is a state in which the same units are taken, in the order of units.
func recount(s *state) *state {
	fresh := newState(s.model)
	for pass := range 2 {
		for u, x := range s.units {
			if s.in[u] && (x.pod == whole) == (pass == 1) {
				fresh.take(u, none)
			}
		}
	}
	return fresh
}

func TestTheBooksOfAStateAreWhatARecountGives(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		p := small(t)
		m := newModel(p)
		m.addJobs(p)
		if len(m.units) == 0 {
			return
		}
		s := newState(m)
		for range 20 {
			u := rapid.IntRange(0, len(m.units)-1).Draw(t, "unit")
			switch {
			case s.in[u]:
				s.drop(u, none)
			case s.possible(u):
				s.take(u, none)
			}
			want := recount(s)
			if s.cost != want.cost || !reflect.DeepEqual(s.avail, want.avail) || !reflect.DeepEqual(s.fit, want.fit) ||
				!reflect.DeepEqual(s.spent, want.spent) || !reflect.DeepEqual(s.roles, want.roles) || !reflect.DeepEqual(s.left, want.left) {
				t.Fatalf("%+v, a recount gives %+v", s, want)
			}
		}
		for _, u := range s.chosen() {
			s.drop(u, none)
		}
		fresh := newState(m)
		check.Must(t, s.cost == fresh.cost && reflect.DeepEqual(s.avail, fresh.avail) && reflect.DeepEqual(s.byPool, fresh.byPool),
			"%+v is left when nothing is taken", s)
	})
}
