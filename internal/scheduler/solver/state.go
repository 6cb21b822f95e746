package solver

import "slices"

// state is who has been taken so far, and what that gives.
type state struct {
	rooms
	cost  Loss
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
	return slices.DeleteFunc(s.open(), func(u int) bool { return !s.in[u] })
}

// enough tells that all claims can be placed.
func (s *state) enough() bool {
	if s.short() {
		return false
	}
	if len(s.order) == 1 {
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
func (s *state) adds(u int) Loss {
	price := s.price(u)
	if s.units[u].pod == whole {
		price.Spared -= s.spent[s.units[u].job].loss
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

// take takes a possible unit, and drop takes it back. With a site other than none, what its
// job gives on other nodes is left out.
func (s *state) take(u, site int) {
	s.cost = s.cost.plus(s.adds(u))
	s.turn(u, site, 1)
	s.in[u] = true
}

func (s *state) drop(u, site int) {
	s.in[u] = false
	s.turn(u, site, -1)
	if s.units[u].pod == whole || !s.spent[s.units[u].job].whole {
		s.cost = s.cost.minus(s.adds(u))
	}
}

// turn books a unit as taken, or as not when sign is -1.
func (s *state) turn(u, site, sign int) {
	x := s.units[u]
	spent := &s.spent[x.job]
	if x.pod == whole {
		spent.whole = sign > 0
		sites := s.jobs[x.job].sites
		if site != none {
			sites = span{site, site + 1}
		}
		for i := sites.from; i < sites.end; i++ {
			s.add(s.sites[i].node, s.gives(u, i), float64(sign))
		}
		return
	}
	pod := &s.pods[x.pod]
	spent.pods += sign
	spent.loss += int64(sign) * s.price(u).Spared
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
			s.drop(u, none) // the job goes with it anyway
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
	if len(s.order) == 1 {
		place = s.places()
	}
	needed := make([]bool, len(s.avail)) // by node and resource
	hold := func(sign float64) {
		for claim, nodes := range place {
			for _, node := range nodes {
				s.add(node, s.claims[claim].Request, -sign)
				for r, request := range s.claims[claim].Request {
					needed[node*s.dims+r] = needed[node*s.dims+r] || request > 0
				}
			}
		}
	}
	hold(1)
	for _, u := range s.dearest(s.chosen()) {
		s.drop(u, none)
		if s.lacks(u, needed) {
			s.take(u, none)
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
		s.drop(u, none)
	}
	if s.enough() {
		return
	}
	for _, u := range units {
		s.take(u, none)
	}
	if half := len(units) / 2; half > 0 {
		s.takeBack(units[:half])
		s.takeBack(units[half:])
	}
}

// rooms is what is available on every node, and how many pods of each claim that
// is room for.
type rooms struct {
	*model
	avail  []float64 // by node and resource
	fit    [][]int   // by claim and node; none where the claim does not want to run
	byPool [][]int   // by claim and pool
	only   int       // the claim for which fit and byPool are kept, none for all
}

func (m *model) rooms() rooms {
	r := rooms{model: m, avail: slices.Clone(m.room)}
	for range m.claims {
		r.fit, r.byPool = append(r.fit, make([]int, len(m.pool))), append(r.byPool, make([]int, len(m.pools)))
	}
	r.keep(none)
	return r
}

// keep counts for one claim from now on, or for all of them. What the others have
// room for is not known then.
func (r *rooms) keep(only int) {
	r.only = only
	for i := range r.claims {
		if only != none && only != i {
			continue
		}
		c := &r.claims[i]
		r.look(len(c.Nodes))
		clear(r.byPool[i])
		for _, node := range c.Nodes {
			r.fit[i][node] = c.fits(r.at(node))
			r.byPool[i][r.pool[node]] += r.fit[i][node]
		}
	}
}

// clone is a copy with its own memory.
func (r *rooms) clone() *rooms {
	r.look(len(r.fit) * len(r.pool) / 8) // copying is fast
	c := &rooms{model: r.model, only: r.only, avail: slices.Clone(r.avail)}
	for i := range r.fit {
		c.fit, c.byPool = append(c.fit, slices.Clone(r.fit[i])), append(c.byPool, slices.Clone(r.byPool[i]))
	}
	return c
}

func (r *rooms) at(node int) []float64 { return r.avail[node*r.dims : (node+1)*r.dims] }

// add gives a node amounts, or takes them when sign is -1.
func (r *rooms) add(node int, amounts []float64, sign float64) {
	have := r.at(node)
	for i := range have {
		have[i] += sign * amounts[i]
	}
	if r.only != none {
		r.recount(r.only, node)
		return
	}
	for i := range r.claims {
		r.recount(i, node)
	}
}

func (r *rooms) recount(claim, node int) {
	r.look(1)
	if c := &r.claims[claim]; c.wants[node] {
		n := c.fits(r.at(node))
		r.byPool[claim][r.pool[node]] += n - r.fit[claim][node]
		r.fit[claim][node] = n
	}
}

// total is how many of a claim's pods there is room for, with so many cards left
// in the pools; the claim's count when that is more.
func (r *rooms) total(claim int, pools []int64) int {
	c, n := &r.claims[claim], 0
	for pool, room := range r.byPool[claim] {
		n += min(room, c.within(pools[pool]), c.Count)
	}
	return min(n, c.Count)
}

// short tells that some claim has too little room, even if it had all of it for
// itself.
func (r *rooms) short() bool {
	for i := range r.claims {
		if r.total(i, r.pools) < r.claims[i].Count {
			return true
		}
	}
	return false
}
