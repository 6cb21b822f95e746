package cardreclaim

import (
	"math"
	"slices"
)

// limits are lower limits of what any plan must lose. Each row is a simpler
// problem, with every solution of the whole one among its own: how much must be
// made up for, and how much of that each unit is worth at most. Where units may
// be taken in part, it is solved by taking those that cost least for their worth.
type limits struct {
	*state
	units []int // the units there are to choose from
	rows  []row
	taken []int // scratch: by job, single pods that a row counts
}

type row struct {
	need  float64
	worth []float64 // by place in units
	order []int     // places in units, those that cost least for their worth first
}

// limits finds the rows for a state in which nothing is taken, nil when the units
// do not make up for what is missing.
func (s *state) limits(units []int) *limits {
	l := &limits{state: s, units: units, taken: make([]int, len(s.jobs))}
	all := s.potential(units)
	if all.short() {
		return nil
	}
	for claim := range s.claims {
		if s.total(claim, s.pools) < s.claims[claim].count {
			l.rows = append(l.rows, l.claimRow(claim, all))
		}
	}
	if len(s.claims) > 1 {
		for r := range s.dims {
			if made := l.resourceRow(r); made.need > 0 {
				l.rows = append(l.rows, made)
			}
		}
	}
	for i := range l.rows {
		l.level(&l.rows[i])
		l.rows[i].sort(l)
	}
	return l
}

// potential is what is there when all units are taken, whether or not their jobs
// can spare them all.
func (s *state) potential(units []int) *rooms {
	all := &rooms{}
	all.set(&s.rooms)
	wholly := make([]bool, len(s.jobs))
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

// claimRow asks for room for a claim's pods. What a unit is worth on a node is
// read off a line above the stairs that room makes of what the node gets.
func (l *limits) claimRow(claim int, all *rooms) row {
	c := &l.claims[claim]
	r := row{need: float64(c.count - l.total(claim, l.pools)), worth: make([]float64, len(l.units))}
	stairs := make([]stair, len(l.pool))
	for _, node := range c.nodes {
		if most := all.fit[claim][node] - l.fit[claim][node]; most > 0 && c.within(l.pools[l.pool[node]]) > 0 {
			stairs[node] = l.stair(c, node, l.fit[claim][node], all)
			stairs[node].most = float64(most)
		}
	}
	for i, u := range l.units {
		l.each(u, func(s int) {
			l.spend(1)
			if x := &stairs[l.sites[s].node]; x.most > 0 {
				r.worth[i] += x.above(l.gives(u, s)[x.resource])
			}
		})
	}
	return r
}

// stair is how room on a node grows with one resource that it is short of.
type stair struct {
	resource    int
	first, step float64 // what the next pod needs, and each one after it
	most        float64
}

func (l *limits) stair(c *claim, node, fit int, all *rooms) stair {
	best, slowest := stair{resource: none}, math.Inf(1)
	have, then := l.at(node), all.at(node)
	l.spend(l.dims + len(l.on[node]))
	for i, request := range c.request {
		first := request*float64(fit+1) - have[i] - tolerance
		if request == 0 || first <= 0 {
			continue // not what it is short of
		}
		if grows := (then[i] - have[i]) / first; grows < slowest {
			best, slowest = stair{resource: i, first: first, step: request}, grows
		}
	}
	if best.resource == none { // rounding
		return stair{first: math.SmallestNonzeroFloat64, step: math.SmallestNonzeroFloat64}
	}
	// Where all that is asked for and given comes in whole grains, so does what the
	// next pod needs, in spite of the tolerance.
	grain := common(0, best.step)
	for _, u := range l.on[node] {
		grain = common(grain, l.givesOn(u, node)[best.resource])
	}
	if grain > 0 {
		best.first = grain * math.Ceil(best.first/grain-slack)
	}
	return best
}

// common is the greatest number that both are whole multiples of; none when one
// of them is no whole number.
func common(a, b float64) float64 {
	if a < 0 || a != math.Trunc(a) || b != math.Trunc(b) || max(a, b) > 1<<53 {
		return none
	}
	for b > 0 {
		a, b = b, math.Mod(a, b)
	}
	return a
}

// above is at least the room for so much of the resource.
func (x *stair) above(amount float64) float64 {
	if amount <= x.first {
		return amount / x.first
	}
	return min(1+(amount-x.first)/x.step, x.most)
}

// resourceRow asks for as much of a resource as all claims need together.
func (l *limits) resourceRow(resource int) row {
	r := row{worth: make([]float64, len(l.units))}
	wanted := make([]bool, len(l.pool))
	for i := range l.claims {
		c := &l.claims[i]
		l.spend(len(c.nodes))
		r.need += c.request[resource] * float64(c.count)
		for _, node := range c.nodes {
			wanted[node] = true
		}
	}
	for node, ok := range wanted {
		if ok {
			r.need -= max(0, l.at(node)[resource]) + tolerance
		}
	}
	for i, u := range l.units {
		l.each(u, func(s int) {
			l.spend(1)
			r.worth[i] += l.gives(u, s)[resource]
		})
	}
	return r
}

// level makes all single pods of a job worth the same, the most that any is, so
// that those which cost least stand for any that the job could spare.
func (l *limits) level(r *row) {
	most := make([]float64, len(l.jobs))
	for pass := range 2 {
		for i, u := range l.units {
			switch x := l.model.units[u]; {
			case x.pod == whole:
			case pass == 0:
				most[x.job] = max(most[x.job], r.worth[i])
			default:
				r.worth[i] = most[x.job]
			}
		}
	}
}

// sort lists the units by what they cost for their worth, of which no more counts
// than is needed.
func (r *row) sort(l *limits) {
	l.spend(sorted(len(r.worth)))
	for i, worth := range r.worth {
		if r.worth[i] = min(worth, r.need); r.worth[i] > 0 {
			r.order = append(r.order, i)
		}
	}
	shares := make([]share, len(r.worth))
	for _, i := range r.order {
		shares[i] = l.price(l.units[i]).over(r.worth[i])
	}
	slices.SortStableFunc(r.order, func(a, b int) int { return shares[a].compare(shares[b]) })
}
