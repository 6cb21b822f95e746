package cardreclaim

import (
	"cmp"
	"math"
	"slices"
)

// option is a unit that can be taken, what it gives of the scarcest resource, and
// what it costs.
type option struct {
	unit   int
	amount float64
	price  Loss
	share  share // for one of the resource
}

// limit is a lower limit of what refilling must cost: so much of one resource must
// be given, and where units may be taken in part, that costs least when those
// that cost least for what they give go first.
type limit struct {
	need, got float64
	order     []int // places in options, those that cost least for what they give first
}

// options sorts units, and finds the limit for the resource that is scarcest.
// Whole jobs come first, so that single pods are looked at when their job is
// decided; then those that cost least for what they give.
func (s *state) options(units []int) ([]option, limit) {
	resource, need := s.scarcest(units)
	options, l := make([]option, len(units)), limit{need: need, order: make([]int, len(units))}
	for i, u := range units {
		x := option{unit: u, price: s.price(u)}
		s.each(u, func(site int) { x.amount += s.gives(u, site)[resource] })
		x.share = x.price.over(max(x.amount, slack))
		options[i] = x
	}
	slices.SortFunc(options, func(a, b option) int {
		return cmp.Or(s.single(a.unit)-s.single(b.unit), a.share.compare(b.share), cmp.Compare(a.unit, b.unit))
	})
	for i := range options {
		l.order[i] = i
	}
	slices.SortFunc(l.order, func(a, b int) int {
		return cmp.Or(options[a].share.compare(options[b].share), cmp.Compare(a, b))
	})
	return options, l
}

func (m *model) single(u int) int {
	if m.units[u].pod == whole {
		return 0
	}
	return 1
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
	for _, i := range r.order {
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
