package cardreclaim

// state is who has been taken so far, and what that gives.
type state struct {
	rooms
	cost  cost
	in    []bool    // by unit
	spent []spent   // by job
	roles []int     // by role: pods taken
	left  []float64 // by site and resource: what the job still gives there
	place [][]int   // by claim: where pods of several claims fit, when that was last enough
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

// chosen lists the units that were taken by choice.
func (s *state) chosen() []int {
	var units []int
	for u, in := range s.in {
		if in && s.isOpen(u) {
			units = append(units, u)
		}
	}
	return units
}

// enough tells that all claims can be placed.
func (s *state) enough() bool {
	if s.short() {
		return false
	}
	if len(s.claims) == 1 {
		return true
	}
	place := s.places()
	if place != nil {
		s.place = place
	}
	return place != nil
}

// possible tells whether a unit may still be taken.
func (s *state) possible(u int) bool { return s.isOpen(u) && s.canTake(u) }

// canTake tells whether a job can still lose a unit.
func (s *state) canTake(u int) bool {
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
}

// drop takes back a unit that was taken.
func (s *state) drop(u int) {
	s.in[u] = false
	s.turn(u, -1)
	if s.units[u].pod == whole || !s.spent[s.units[u].job].whole {
		s.cost = s.cost.minus(s.adds(u))
	}
}

// takeOn takes a possible unit as far as one node goes, and dropOn takes it back: what its
// job gives on other nodes is left out.
func (s *state) takeOn(x touch) {
	s.cost = s.cost.plus(s.adds(x.unit))
	s.turnOn(x, 1)
	s.in[x.unit] = true
}

func (s *state) dropOn(x touch) {
	s.in[x.unit] = false
	s.turnOn(x, -1)
	if s.units[x.unit].pod == whole || !s.spent[s.units[x.unit].job].whole {
		s.cost = s.cost.minus(s.adds(x.unit))
	}
}

func (s *state) turnOn(x touch, sign int) {
	if s.units[x.unit].pod != whole {
		s.turn(x.unit, sign)
		return
	}
	s.spent[s.units[x.unit].job].whole = sign > 0
	s.add(s.sites[x.site].node, s.gives(x.unit, x.site), float64(sign))
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
	spent.loss += int64(sign) * s.price(u).spared
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
// first. One look at each is enough: what cannot go from many cannot go from fewer.
// Where the effort ends before that, the waiting pods keep the places that they have.
func (s *state) prune() {
	for _, u := range s.chosen() {
		if x := s.units[u]; x.pod != whole && s.spent[x.job].whole {
			s.drop(u) // the job goes with it anyway
		}
	}
	s.takeBack(s.dearest(s.chosen()))
	if s.exhausted() {
		s.trim()
	}
}

// trim takes back every unit that gives nothing to the places that the waiting pods have
// now, those of the highest rank and those that lose most first.
func (s *state) trim() {
	place := s.place
	if len(s.claims) == 1 {
		place = s.places()
	}
	needed := make([]bool, len(s.avail)) // by node and resource
	hold := func(sign float64) {
		for claim, nodes := range place {
			for _, node := range nodes {
				s.add(node, s.claims[claim].request, -sign)
				for r, request := range s.claims[claim].request {
					needed[node*s.dims+r] = needed[node*s.dims+r] || request > 0
				}
			}
		}
	}
	hold(1)
	for _, u := range s.dearest(s.chosen()) {
		s.drop(u)
		if s.lacks(u, needed) {
			s.take(u)
		}
	}
	hold(-1)
}

// lacks reports whether a node of a unit has less than nothing of what is needed there.
func (s *state) lacks(u int, needed []bool) (lacks bool) {
	s.each(u, func(site int) {
		node := s.sites[site].node
		for r, have := range s.at(node) {
			lacks = lacks || needed[node*s.dims+r] && have < -tolerance
		}
	})
	return lacks
}

// takeBack takes back units as long as the others are enough, one after the
// other: all of them if that is enough, else one half after the other.
func (s *state) takeBack(units []int) {
	if len(units) == 0 || s.exhausted() {
		return
	}
	for _, u := range units {
		s.drop(u)
	}
	if s.enough() {
		return
	}
	for _, u := range units {
		s.take(u)
	}
	if half := len(units) / 2; half > 0 {
		s.takeBack(units[:half])
		s.takeBack(units[half:])
	}
}
