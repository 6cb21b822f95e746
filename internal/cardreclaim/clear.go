package cardreclaim

import "slices"

// cleared are units that are taken together to make room for one more pod on a
// node, because none of them alone would, or not as cheaply.
type cleared struct {
	units []int
	cost  cost
	gain  int
}

// clear finds a cheap set of units that makes room for one more of the claim's
// pods on a node, nil when there is none or when any unit there is enough.
func (h *hunt) clear(node, need int) *cleared {
	if h.claims[h.claim].within(h.pools[h.pool[node]]) == 0 || !h.mustClear(node) {
		return nil
	}
	cost, room, target := h.cost, h.total(h.claim, h.pools), h.fit[h.claim][node]+1
	var units []int
	for h.fit[h.claim][node] < target {
		u := h.towards(node, target)
		if u == none {
			break
		}
		h.take(u)
		units = append(units, u)
	}
	made := &cleared{}
	if h.fit[h.claim][node] >= target {
		kept := units[:0:0]
		for _, u := range h.dearest(units) {
			if h.drop(u); h.fit[h.claim][node] >= target {
				continue
			}
			h.take(u)
			kept = append(kept, u)
		}
		units = kept
		made.cost, made.gain = h.cost.minus(cost), min(need, h.total(h.claim, h.pools)-room)
		made.units = slices.Clone(units)
	}
	for i := len(units) - 1; i >= 0; i-- {
		h.drop(units[i])
	}
	if made.gain <= 0 {
		return nil
	}
	return made
}

// mustClear tells that there are units on a node that alone make no room there.
func (h *hunt) mustClear(node int) bool {
	c := &h.claims[h.claim]
	if !c.wants[node] {
		return false
	}
	for _, x := range h.on[node] {
		if h.possible(x.unit) && h.fitsWith(node, h.gives(x.unit, x.site)) <= h.fit[h.claim][node] {
			return true
		}
	}
	return false
}

// towards is the unit that costs least for what it gives of what a node lacks
// for so many of the claim's pods.
func (h *hunt) towards(node, target int) int {
	have, request := h.at(node), h.claims[h.claim].request
	best, gained := none, 0.0
	var price cost
	h.look(len(h.on[node]))
	for _, x := range h.on[node] {
		u := x.unit
		if !h.possible(u) {
			continue
		}
		gives, part := h.gives(u, x.site), 0.0
		for i, amount := range request {
			if lack := amount*float64(target) - have[i]; amount > 0 && lack > tolerance {
				part += min(gives[i], lack) / lack
			}
		}
		if part > 0 {
			if c := h.adds(u); best == none || cheaper(c, part, price, gained) < 0 {
				best, price, gained = u, c, part
			}
		}
	}
	return best
}
