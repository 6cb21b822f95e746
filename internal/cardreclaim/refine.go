package cardreclaim

// Bounds of refining: the units near one that was taken, with those added that
// promise most, and the sets of them that are tried.
const (
	mostNear      = 24
	mostPromising = 32
	mostTries     = 5_000
)

// refine drops each unit that was taken, with all near it, and refills what is
// missing at the least cost, until no such change costs less. It tells whether
// any did.
func (s *state) refine() (changed bool) {
	all := s.start().refilling(s.open())
	if s.exhausted() || !all.allows(0, s.cost) {
		return false
	}
	tried := make([]bool, len(s.units))
	for again := true; again; {
		again = false
		for _, u := range s.dearest(s.chosen()) {
			if tried[u] || !s.in[u] {
				continue
			}
			if s.exhausted() {
				return changed
			}
			tried[u] = true
			near := s.near(u, all.options)
			if s.refill(near) {
				s.prune()
				again, changed = true, true
				for _, v := range near {
					tried[v] = false
				}
			}
		}
	}
	return changed
}

// near lists units around one: those of its job, of the jobs on its nodes, of the
// jobs on theirs, until they are too many, and then promising ones of its pool
// and of pools that are not used up.
func (s *state) near(u int, promising []option) []int {
	n := &neighbours{state: s, seen: map[int]bool{}}
	if n.add(s.units[u].job, mostNear); len(n.units) == 0 {
		n.units = s.nearInJob(u, promising)
		n.seen[s.units[u].job] = true
	}
	for i := 0; i < len(n.jobs) && len(n.units) < mostNear; i++ {
		sites := s.jobs[n.jobs[i]].sites
		for site := sites.from; site < sites.end; site++ {
			s.look(1)
			for _, v := range s.on[s.sites[site].node] {
				n.add(s.units[v.unit].job, mostNear)
			}
		}
	}
	pools := s.poolsLeft()
	s.each(u, func(site int) { pools[s.pool[s.sites[site].node]] = true })
	for i := range promising {
		v := promising[i].unit
		if len(n.units) >= mostPromising {
			break
		}
		s.each(v, func(site int) {
			s.look(1)
			if pools[s.pool[s.sites[site].node]] {
				n.add(s.units[v].job, mostPromising)
			}
		})
	}
	return n.units
}

// neighbours are units that are decided about together.
type neighbours struct {
	*state
	jobs, units []int
	seen        map[int]bool
}

// add adds the units of a job unless they are too many.
func (n *neighbours) add(job, most int) {
	if n.seen[job] {
		return
	}
	before := len(n.units)
	for v := n.model.jobs[job].units.from; v < n.model.jobs[job].units.end; v++ {
		if n.isOpen(v) {
			n.units = append(n.units, v)
		}
	}
	if len(n.units) > most {
		n.units = n.units[:before]
		return
	}
	n.seen[job] = true
	n.jobs = append(n.jobs, job)
}

// poolsLeft tells which pools have more cards left than there is room for.
func (s *state) poolsLeft() []bool {
	pools := make([]bool, len(s.pools))
	for claim := range s.claims {
		for pool, room := range s.byPool[claim] {
			pools[pool] = pools[pool] || room < s.claims[claim].within(s.pools[pool])
		}
	}
	return pools
}

// nearInJob lists units around one of a job that has too many for all of them: those that
// were taken, the dearest first, and as many others, those that promise most first.
func (s *state) nearInJob(u int, promising []option) []int {
	units, span := []int{u}, s.jobs[s.units[u].job].units
	s.look(span.end - span.from + len(promising))
	var taken []int
	for v := span.from; v < span.end; v++ {
		if v != u && s.in[v] && s.isOpen(v) {
			taken = append(taken, v)
		}
	}
	taken = s.dearest(taken)
	units = append(units, taken[:min(len(taken), mostNear/2)]...)
	for i := range promising {
		if v := promising[i].unit; len(units) < mostNear && s.units[v].job == s.units[u].job && !s.in[v] {
			units = append(units, v)
		}
	}
	return units
}

// refill decides anew about some units, and tells whether that costs less than
// what was taken of them; else it leaves them as they are.
func (s *state) refill(units []int) bool {
	before := s.cost
	var dropped []int
	for _, u := range units {
		if s.in[u] {
			s.drop(u, none)
			dropped = append(dropped, u)
		}
	}
	r := s.refilling(units)
	r.most, r.bounded = before, true
	r.left = mostTries
	r.from(0, true)
	if !r.found {
		r.set = dropped
	}
	for _, u := range r.set {
		s.take(u, none)
	}
	return r.found
}

// tryAll looks for any set that is enough when nothing is taken. It also returns
// whether all sets were tried.
func (s *state) tryAll() (found, complete bool) {
	r := s.refilling(s.open())
	r.left = 10 * mostTries
	r.from(0, true)
	for _, u := range r.set {
		s.take(u, none)
	}
	return r.found, r.left >= 0 && !r.exhausted()
}

// refilling tries sets of units in their order: with each, then without it.
type refilling struct {
	*state
	options []option
	pot     *rooms // what is there when all that is still open is taken
	most    Loss   // what a set must stay below
	bounded bool
	left    int // tries
	set     []int
	found   bool
	limit
}

func (s *state) refilling(units []int) *refilling {
	r := &refilling{state: s, pot: s.potential(units)}
	r.options, r.limit = s.options(units)
	return r
}

// from decides about the units from one on. fresh tells that the set was not
// looked at yet.
func (r *refilling) from(at int, fresh bool) {
	if r.left--; r.left < 0 || r.exhausted() || r.bounded && !r.allows(at, r.most) {
		return
	}
	if fresh && r.enough() {
		r.most, r.bounded, r.found, r.set = r.cost, true, true, r.set[:0]
		for i := range r.options[:at] {
			if u := r.options[i].unit; r.in[u] {
				r.set = append(r.set, u)
			}
		}
		return
	}
	if at == len(r.options) || r.pot.short() {
		return
	}
	u := r.options[at].unit
	if r.spent[r.model.units[u].job].whole {
		r.from(at+1, false)
		return
	}
	if r.possible(u) {
		r.take(u, none)
		r.got += r.options[at].amount
		r.from(at+1, true)
		r.got -= r.options[at].amount
		r.drop(u, none)
	}
	r.leaveOut(u, -1)
	r.from(at+1, false)
	r.leaveOut(u, 1)
}

// leaveOut takes from what can still be there what a unit would give, or gives it
// back. Without a job as a whole its single pods are what is left of it.
func (r *refilling) leaveOut(u int, sign float64) {
	x := r.units[u]
	if x.pod != whole {
		pod := &r.pods[x.pod]
		r.pot.add(r.sites[pod.site].node, pod.gives, sign)
		return
	}
	job := &r.jobs[x.job]
	for s := job.sites.from; s < job.sites.end; s++ {
		r.pot.add(r.sites[s].node, r.sites[s].gives, sign)
	}
	for v := job.units.from; v < job.units.end; v++ {
		if p := r.units[v].pod; p != whole {
			r.pot.add(r.sites[r.pods[p].site].node, r.pods[p].gives, -sign)
		}
	}
}

// potential is what is there when all units are taken as well, whether or not
// their jobs can spare them all.
func (s *state) potential(units []int) *rooms {
	all := s.clone()
	wholly := make(map[int]bool, len(units))
	for _, u := range units {
		if x := s.units[u]; x.pod == whole {
			wholly[x.job] = true
		}
	}
	for _, u := range units {
		if x := s.units[u]; x.pod == whole || !wholly[x.job] {
			s.each(u, func(site int) { all.add(s.sites[site].node, s.gives(u, site), 1) })
		}
	}
	return all
}
