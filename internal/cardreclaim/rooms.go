package cardreclaim

import "slices"

// rooms is what is available on every node, and how many pods of each claim that
// is room for.
type rooms struct {
	*model
	avail  []float64 // by node and resource
	fit    [][]int   // by claim and node; none where the claim does not want to run
	byPool [][]int   // by claim and pool
}

func (m *model) rooms() rooms {
	r := rooms{model: m, avail: slices.Clone(m.room)}
	for i := range m.claims {
		c := &m.claims[i]
		fit, byPool := make([]int, len(m.pool)), make([]int, len(m.pools))
		m.spend(len(c.nodes) * m.width())
		for _, node := range c.nodes {
			fit[node] = c.fits(r.at(node))
			byPool[m.pool[node]] += fit[node]
		}
		r.fit, r.byPool = append(r.fit, fit), append(r.byPool, byPool)
	}
	return r
}

// set makes r the same as from, in its own memory.
func (r *rooms) set(from *rooms) {
	r.model, r.avail = from.model, append(r.avail[:0], from.avail...)
	r.spend(copied(len(from.avail) + len(from.fit)*len(from.pool)))
	if r.fit == nil {
		r.fit, r.byPool = make([][]int, len(from.fit)), make([][]int, len(from.fit))
	}
	for i := range from.fit {
		r.fit[i] = append(r.fit[i][:0], from.fit[i]...)
		r.byPool[i] = append(r.byPool[i][:0], from.byPool[i]...)
	}
}

func (r *rooms) at(node int) []float64 { return r.avail[node*r.dims : (node+1)*r.dims] }

// add gives a node amounts, or takes them when sign is -1.
func (r *rooms) add(node int, amounts []float64, sign float64) {
	r.work++
	r.spend((1 + len(r.claims)) * r.width())
	have := r.at(node)
	for i := range have {
		have[i] += sign * amounts[i]
	}
	for i := range r.claims {
		if c := &r.claims[i]; c.wants[node] {
			n := c.fits(have)
			r.byPool[i][r.pool[node]] += n - r.fit[i][node]
			r.fit[i][node] = n
		}
	}
}

// total is how many of a claim's pods there is room for, with so many cards left
// in the pools; the claim's count when that is more.
func (r *rooms) total(claim int, pools []int64) int {
	c, n := &r.claims[claim], 0
	r.spend(len(r.byPool[claim]))
	for pool, room := range r.byPool[claim] {
		n += min(room, c.within(pools[pool]), c.count)
	}
	return min(n, c.count)
}

// short tells that some claim has too little room, even if it had all of it for
// itself.
func (r *rooms) short() bool {
	for i := range r.claims {
		if r.total(i, r.pools) < r.claims[i].count {
			return true
		}
	}
	return false
}

// enough tells that all claims can be placed.
func (r *rooms) enough() bool {
	return !r.short() && (len(r.claims) == 1 || r.places() != nil)
}
