package cardreclaim

import "slices"

// state is who has been taken so far, and what that gives.
type state struct {
	rooms
	cost   cost
	chosen []int     // units in the order in which they were taken
	in     []bool    // by unit
	spent  []spent   // by job
	roles  []int     // by role: pods taken
	left   []float64 // by site and resource: what the job still gives there
}

// spent is what was taken of a job. Once it is taken as a whole, single pods that
// were taken before count as part of that.
type spent struct {
	whole bool
	pods  int
	loss  int64
}

func newState(m *model) *state {
	s := &state{
		rooms: m.rooms(),
		in:    make([]bool, len(m.units)),
		spent: make([]spent, len(m.jobs)),
		roles: make([]int, len(m.roles)),
		left:  make([]float64, 0, len(m.sites)*m.dims),
	}
	for i := range m.sites {
		s.left = append(s.left, m.sites[i].gives...)
	}
	return s
}

// set makes s the same as from, in its own memory.
func (s *state) set(from *state) {
	s.rooms.set(&from.rooms)
	s.spend(copied(len(from.in) + len(from.spent) + len(from.left)))
	s.cost = from.cost
	s.chosen = append(s.chosen[:0], from.chosen...)
	s.in = append(s.in[:0], from.in...)
	s.spent = append(s.spent[:0], from.spent...)
	s.roles = append(s.roles[:0], from.roles...)
	s.left = append(s.left[:0], from.left...)
}

func (s *state) copy() *state {
	var made state
	made.set(s)
	return &made
}

// possible tells whether a unit may still be taken.
func (s *state) possible(u int) bool {
	x := s.units[u]
	job, spent := &s.jobs[x.job], &s.spent[x.job]
	switch {
	case s.in[u] || spent.whole:
		return false
	case x.pod == whole:
		return true
	case spent.pods >= job.spare:
		return false
	}
	role := s.pods[x.pod].role
	return role == none || s.roles[role] < s.model.roles[role]
}

// adds is what taking a possible unit adds to the cost.
func (s *state) adds(u int) cost {
	price := s.price(u)
	if s.units[u].pod == whole {
		price.spared -= s.spent[s.units[u].job].loss
	}
	return price
}

// gives is what a unit that is not taken gives at a site.
func (s *state) gives(u, site int) []float64 {
	if p := s.units[u].pod; p != whole {
		return s.pods[p].gives
	}
	return s.left[site*s.dims : (site+1)*s.dims]
}

// take takes a possible unit.
func (s *state) take(u int) {
	s.cost = s.cost.plus(s.adds(u))
	s.turn(u, 1)
	s.in[u] = true
	s.chosen = append(s.chosen, u)
}

// drop takes back a unit that was taken.
func (s *state) drop(u int) {
	s.in[u] = false
	for i := len(s.chosen) - 1; i >= 0; i-- {
		if s.chosen[i] == u {
			s.chosen = slices.Delete(s.chosen, i, i+1)
			break
		}
	}
	s.turn(u, -1)
	if s.units[u].pod == whole || !s.spent[s.units[u].job].whole {
		s.cost = s.cost.minus(s.adds(u))
	}
}

// turn books a unit as taken, or as not when sign is -1.
func (s *state) turn(u, sign int) {
	x := s.units[u]
	spent := &s.spent[x.job]
	if x.pod == whole {
		spent.whole = sign > 0
		job := &s.jobs[x.job]
		for i := job.sites.from; i < job.sites.end; i++ {
			s.add(s.sites[i].node, s.gives(u, i), float64(sign))
		}
		return
	}
	pod := &s.pods[x.pod]
	spent.pods += sign
	spent.loss += int64(sign) * pod.loss
	if pod.role != none {
		s.roles[pod.role] += sign
	}
	left := s.left[pod.site*s.dims : (pod.site+1)*s.dims]
	for i, amount := range pod.gives {
		left[i] -= float64(sign) * amount
	}
	if !spent.whole {
		s.add(s.sites[pod.site].node, pod.gives, float64(sign))
	}
}

// prune takes back every unit whose place the others fill, those that lose most
// first. One look at each is enough: what cannot go from many cannot go from
// fewer. It is false when there was no looking at all of them.
func (s *state) prune() bool {
	for _, u := range slices.Clone(s.chosen) {
		if x := s.units[u]; x.pod != whole && s.spent[x.job].whole {
			s.drop(u) // the job goes with it anyway
		}
	}
	for _, u := range s.dearest(s.chosen) {
		if s.exhausted() {
			return false
		}
		if s.drop(u); !s.enough() {
			s.take(u)
		}
	}
	return !s.exhausted()
}
