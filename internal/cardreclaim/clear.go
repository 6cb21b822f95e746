package cardreclaim

import "fmt"

// cleared are units that are taken together to make room for one more pod on a
// node, because none of them alone would, or not as cheaply.
type cleared struct {
	units []int
	cost  cost
	gain  int
}

// mostJoint bounds, in looks at all sites and nodes, for how many nodes of one claim it is
// worked out what clearing them gives on other nodes too. Of gangs on hundreds of nodes
// each, that costs as much for every node as all the rest of the search.
const mostJoint = 64

// clear finds a cheap set of units that makes room for one more of the claim's
// pods on a node, nil when there is none or when any unit there is enough.
func (h *hunt) clear(node, need int) *cleared {
	if h.claims[h.claim].within(h.pools[h.pool[node]]) == 0 || !h.mustClear(node) {
		return nil
	}
	units, price := h.cheapest(node, h.fit[h.claim][node]+1)
	if len(units) == 0 {
		return nil
	}
	made := &cleared{units: units, cost: price, gain: min(need, h.joint(units))}
	if made.gain <= 0 {
		return nil
	}
	return made
}

// cheapest is a cheap set of units that makes room for so many of the claim's pods on a
// node, and what it costs; it is empty when there is none. Only that node is looked at.
func (h *hunt) cheapest(node, target int) ([]int, cost) {
	before := h.cost
	var taken []touch
	for h.fit[h.claim][node] < target {
		x, found := h.towards(node, target)
		if !found {
			break
		}
		h.takeOn(x)
		taken = append(taken, x)
	}
	enough := h.fit[h.claim][node] >= target
	var units []int
	if enough {
		sites := make(map[int]int, len(taken))
		for _, x := range taken {
			sites[x.unit] = x.site
			units = append(units, x.unit)
		}
		taken = taken[:0]
		for _, u := range h.dearest(units) {
			x := touch{u, sites[u]}
			if h.dropOn(x); h.fit[h.claim][node] >= target {
				continue
			}
			h.takeOn(x)
			taken = append(taken, x)
		}
	}
	price := h.cost.minus(before)
	units = units[:0]
	for i := len(taken) - 1; i >= 0; i-- {
		h.dropOn(taken[i])
	}
	if !enough {
		return nil, cost{}
	}
	for _, x := range taken {
		units = append(units, x.unit)
	}
	return units, price
}

// joint is how many more of the claim's pods there is room for when some units are taken,
// on all of their nodes; at least the one that they are taken for when that is no longer
// worked out.
func (h *hunt) joint(units []int) int {
	key := fmt.Sprint(units)
	if gain, known := h.gains[key]; known {
		return gain
	}
	if h.joined > mostJoint*(len(h.sites)+len(h.pool)) {
		return 1
	}
	before := h.total(h.claim, h.pools)
	for _, u := range units {
		h.take(u)
		h.each(u, func(int) { h.joined++ })
	}
	gain := h.total(h.claim, h.pools) - before
	for i := len(units) - 1; i >= 0; i-- {
		h.drop(units[i])
	}
	if h.gains == nil {
		h.gains = map[string]int{}
	}
	h.gains[key] = gain
	return gain
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
func (h *hunt) towards(node, target int) (best touch, found bool) {
	have, request := h.at(node), h.claims[h.claim].request
	gained := 0.0
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
			if c := h.adds(u); !found || cheaper(c, part, price, gained) < 0 {
				best, found, price, gained = x, true, c, part
			}
		}
	}
	return best, found
}
