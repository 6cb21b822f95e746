package cardreclaim

import (
	"cmp"
	"slices"
)

// Bounds of the exact search: the units there are to choose from, and the work.
const (
	mostUnits = 64
	mostWork  = 400_000
)

// search tries sets of units in the order of their places: with each, then
// without it.
type search struct {
	*limits
	pot  rooms     // what is there when all that is still open is taken
	over []uint64  // by place: earlier units that are as good and lose no more
	got  []float64 // by row: what has been made up for
	out  uint64    // places that are left out
	end  int       // of the work that may be done
	best cost
	have bool
	set  []int // the best units
}

// exact looks for a set of units that costs less than the one found, nil if none
// was, by trying all that can. A problem that is too large is left as it is, one
// that turns out to be keeps the best that was found until then.
func (s *state) exact(found *state) *state {
	units := s.useful()
	if len(units) > mostUnits || s.exhausted() {
		return found
	}
	if better := s.best(units, found, mostWork); better != nil {
		return better
	}
	return found
}

// best looks for a set of units that, on top of what is taken, costs less than
// what was found, nil when there is none. found may be nil.
func (s *state) best(units []int, found *state, work int) *state {
	units = s.inOrder(units)
	x := &search{limits: s.limits(units), end: s.work + work}
	if x.limits == nil {
		return nil
	}
	if found != nil {
		x.best, x.have = found.cost, true
	}
	before := len(s.chosen)
	x.pot.set(s.potential(units))
	x.got = make([]float64, len(x.rows))
	x.compare()
	x.from(0, true)
	if x.set == nil {
		return nil
	}
	made := s.copy()
	for _, u := range x.set[before:] {
		made.take(u)
	}
	if !made.prune() {
		return nil
	}
	return made
}

// useful lists the units that touch a node where room can be made, all of them
// for several claims, which may need room that none of them sees alone.
func (s *state) useful() []int {
	all := s.potential(s.all())
	var units []int
	for u := range s.units {
		helps := len(s.claims) > 1
		s.each(u, func(site int) {
			node := s.sites[site].node
			s.spend(len(s.claims))
			for claim := range s.claims {
				helps = helps || all.fit[claim][node] > s.fit[claim][node]
			}
		})
		if helps {
			units = append(units, u)
		}
	}
	return units
}

// inOrder sorts units: whole jobs first, so that single pods are looked at when
// their job is decided, those that cost least for what they are worth first.
func (s *state) inOrder(units []int) []int {
	l := s.limits(units)
	if l == nil {
		return nil
	}
	shares := make(map[int]share, len(units))
	for i, u := range units {
		worth := slack
		for _, r := range l.rows {
			worth += r.worth[i] / r.need
		}
		shares[u] = s.price(u).over(worth)
	}
	single := func(u int) int {
		if s.units[u].pod == whole {
			return 0
		}
		return 1
	}
	s.spend(sorted(len(units)))
	ordered := slices.Clone(units)
	slices.SortStableFunc(ordered, func(a, b int) int {
		return cmp.Or(cmp.Compare(single(a), single(b)), shares[a].compare(shares[b]), cmp.Compare(a, b))
	})
	return ordered
}

// compare notes which units can stand for others.
func (x *search) compare() {
	x.over = make([]uint64, len(x.units))
	for b := range x.units {
		for a := range b {
			if x.standsFor(x.units[a], x.units[b]) {
				x.over[b] |= 1 << a
			}
		}
	}
}

// standsFor tells that a can take the place of b in every set that has b and not
// a: it costs no more, gives no less anywhere, and its job allows it whenever
// that of b allows b.
func (x *search) standsFor(a, b int) bool {
	u, v := x.model.units[a], x.model.units[b]
	if x.price(a).compare(x.price(b)) > 0 {
		return false
	}
	if u.pod != whole && v.pod != whole {
		p, q := &x.pods[u.pod], &x.pods[v.pod]
		return u.job == v.job && p.site == q.site && p.role == q.role && covers(p.gives, q.gives)
	}
	job := &x.jobs[u.job]
	if u.pod != whole || v.pod != whole || job.units.end-job.units.from > 1 {
		return false
	}
	all := true
	x.each(b, func(t int) {
		found := false
		x.each(a, func(s int) {
			x.spend(x.width())
			found = found || x.sites[s].node == x.sites[t].node && covers(x.sites[s].gives, x.sites[t].gives)
		})
		all = all && found
	})
	return all
}

func covers(a, b []float64) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}
