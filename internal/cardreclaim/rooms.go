package cardreclaim

import "slices"

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
		r.look(len(c.nodes))
		clear(r.byPool[i])
		for _, node := range c.nodes {
			r.fit[i][node] = c.fits(r.at(node))
			r.byPool[i][r.pool[node]] += r.fit[i][node]
		}
	}
}

// set makes r the same as from, in its own memory.
func (r *rooms) set(from *rooms) {
	r.model, r.only, r.avail = from.model, from.only, append(r.avail[:0], from.avail...)
	r.look(len(from.fit) * len(from.pool) / 8) // copying is fast
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
