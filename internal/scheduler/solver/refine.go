package solver

import (
	"cmp"
	"math"
	"slices"
)

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

// near lists units around one: those of its job unless they are too many, and promising
// ones of its pool and of pools that are not used up.
func (s *state) near(u int, promising []option) []int {
	units := s.openUnits(s.units[u].job)
	if len(units) > mostNear {
		units = s.nearInJob(u, units, promising)
	}
	seen := map[int]bool{s.units[u].job: true}
	pools := s.poolsLeft()
	s.each(u, func(site int) { pools[s.pool[s.sites[site].node]] = true })
	for i := range promising {
		v := promising[i].unit
		if len(units) >= mostPromising {
			break
		}
		inPool := false
		s.each(v, func(site int) {
			s.look(1)
			inPool = inPool || pools[s.pool[s.sites[site].node]]
		})
		if job := s.units[v].job; inPool && !seen[job] {
			if open := s.openUnits(job); len(units)+len(open) <= mostPromising {
				seen[job] = true
				units = append(units, open...)
			}
		}
	}
	return units
}

// openUnits lists the units of a job that are up to the choice.
func (s *state) openUnits(job int) (open []int) {
	for u := s.jobs[job].units.from; u < s.jobs[job].units.end; u++ {
		if s.isOpen(u) {
			open = append(open, u)
		}
	}
	return open
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
func (s *state) nearInJob(u int, open []int, promising []option) []int {
	s.look(len(open) + len(promising))
	taken := s.dearest(slices.DeleteFunc(open, func(v int) bool { return v == u || !s.in[v] }))
	units := append([]int{u}, taken[:min(len(taken), mostNear/2)]...)
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

// refilling tries sets of units in their order: with each, then without it. What that must
// cost has a lower limit: so much of one resource must be given, and where units may be
// taken in part, those that cost least for what they give go first.
type refilling struct {
	*state
	options   []option
	cheapest  []int // places in options, those that cost least for what they give first
	need, got float64
	most      Loss // what a set must stay below
	bounded   bool
	left      int // tries
	set       []int
	found     bool
}

// refilling sorts units by the resource that is scarcest. Whole jobs come first, so that
// single pods are looked at when their job is decided; then those that cost least for what
// they give.
func (s *state) refilling(units []int) *refilling {
	resource, need := s.scarcest(units)
	r := &refilling{state: s, need: need, options: make([]option, len(units)), cheapest: make([]int, len(units))}
	for i, u := range units {
		x := option{unit: u, price: s.price(u)}
		s.each(u, func(site int) { x.amount += s.gives(u, site)[resource] })
		x.share = x.price.over(max(x.amount, slack))
		r.options[i], r.cheapest[i] = x, i
	}
	single := func(x option) int { return min(s.units[x.unit].pod-whole, 1) }
	slices.SortFunc(r.options, func(a, b option) int {
		return cmp.Or(cmp.Compare(single(a), single(b)), a.share.compare(b.share), cmp.Compare(a.unit, b.unit))
	})
	slices.SortFunc(r.cheapest, func(a, b int) int {
		return cmp.Or(r.options[a].share.compare(r.options[b].share), cmp.Compare(a, b))
	})
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
	if at == len(r.options) {
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
	r.from(at+1, false)
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

// option is a unit that can be taken, what it gives of the scarcest resource, and
// what it costs.
type option struct {
	unit   int
	amount float64
	price  Loss
	share  share // for one of the resource
}

// scarcest is the resource of which most of what the units give is needed, and how
// much that is.
func (s *state) scarcest(units []int) (resource int, need float64) {
	needs, given := make([]float64, s.dims), make([]float64, s.dims)
	for i := range s.claims {
		for r, request := range s.claims[i].Request {
			needs[r] += request * float64(s.claims[i].Count)
		}
	}
	s.look(len(s.pool))
	for node, wanted := range s.wanted {
		if wanted {
			for r, have := range s.at(node) {
				needs[r] -= max(0, have) + s.excess[r]
			}
		}
	}
	for _, u := range units {
		s.look(1)
		s.each(u, func(site int) {
			for r, amount := range s.gives(u, site) {
				given[r] += amount
			}
		})
	}
	most := 0.0
	for r := range needs {
		if part := needs[r] / max(given[r], slack); part > most {
			resource, need, most = r, needs[r], part
		}
	}
	return resource, need
}

// allows tells whether deciding about the units from one on can cost less than
// this, as far as the limit tells.
func (r *refilling) allows(at int, most Loss) bool {
	if r.cost.compare(most) >= 0 {
		return false
	}
	need := r.need - r.got
	least := r.cost.over(1)
	for _, i := range r.cheapest {
		x := &r.options[i]
		if need <= 0 {
			break
		}
		if i < at || x.amount == 0 {
			continue
		}
		part := min(1, need/x.amount)
		for k, price := range x.price.over(1) {
			least[k] += part * price
		}
		need -= x.amount
	}
	return need <= slack*r.need && least.below(most.over(1))
}

// slack makes up for the rounding of sums.
const slack = 1e-9

// below tells whether something can cost less that costs at least this.
func (s share) below(most share) bool {
	for i, part := range most {
		if margin := slack * math.Max(1, part); math.Abs(s[i]-part) > margin {
			return s[i] < part
		}
	}
	return false
}
