package cardreclaim

import (
	"math"
	"slices"
)

// from tries all sets that add units from a place on to those taken. fresh tells
// that the last step took one.
func (x *search) from(at int, fresh bool) {
	if x.have && x.cost.compare(x.best) >= 0 {
		return
	}
	if x.work++; x.work > x.end || x.exhausted() {
		return
	}
	if fresh && x.enough() {
		x.best, x.have, x.set = x.cost, true, slices.Clone(x.chosen)
		return
	}
	if at == len(x.units) || x.pot.short() || !x.hopeful(at) {
		return
	}
	u := x.units[at]
	job := x.model.units[u].job
	if x.spent[job].whole {
		x.from(at+1, false)
		return
	}
	if x.possible(u) && x.over[at]&x.out == 0 {
		x.book(at, 1)
		x.take(u)
		x.from(at+1, true)
		x.drop(u)
		x.book(at, -1)
	}
	x.out |= 1 << at
	x.leaveOut(u, -1)
	x.from(at+1, false)
	x.leaveOut(u, 1)
	x.out &^= 1 << at
}

func (x *search) book(at int, sign float64) {
	x.spend(len(x.rows))
	for i := range x.rows {
		x.got[i] += sign * x.rows[i].worth[at]
	}
}

// hopeful tells whether the limits allow a plan that costs less than the best.
func (x *search) hopeful(at int) bool {
	best := x.best
	if !x.have {
		best = cost{broken: math.MaxInt64}
	}
	open := func(i int) bool {
		return i >= at && x.over[i]&x.out == 0 && !x.spent[x.model.units[x.units[i]].job].whole
	}
	for i := range x.rows {
		x.work += len(x.units)
		if !x.rows[i].allows(x.limits, best, x.cost, x.got[i], open) {
			return false
		}
	}
	return true
}

// leaveOut takes from what can still be there what a unit would give, or gives it
// back. Without a job as a whole its single pods are what is left of it.
func (x *search) leaveOut(u, sign int) {
	x.each(u, func(s int) { x.pot.add(x.sites[s].node, x.sitesGive(u, s), float64(sign)) })
	if unit := x.model.units[u]; unit.pod == whole {
		units := x.jobs[unit.job].units
		for v := units.from; v < units.end; v++ {
			if v != u {
				pod := &x.pods[x.model.units[v].pod]
				x.pot.add(x.sites[pod.site].node, pod.gives, -float64(sign))
			}
		}
	}
}

// sitesGive is what a unit gives at a site when nothing of its job is taken.
func (x *search) sitesGive(u, s int) []float64 {
	if p := x.model.units[u].pod; p != whole {
		return x.pods[p].gives
	}
	return x.sites[s].gives
}
