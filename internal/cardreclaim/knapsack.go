package cardreclaim

import (
	"cmp"
	"slices"
)

// mostSteps bounds the knapsack: units times pods.
const mostSteps = 1 << 20

// knapsack chooses units as if each made room on its own, which is so when the
// waiting pods are no larger than what single pods give: the set that costs least
// for the room that is missing, by dynamic programming. It is nil when the set
// does not do, and for several claims.
func (s *state) knapsack() *state {
	if len(s.claims) != 1 {
		return nil
	}
	h := &hunt{state: s, byPool: make([]int, len(s.pools))}
	h.pools = s.pools
	need := s.claims[0].count - s.total(0, s.pools)
	units, gains := h.worthwhile(need)
	width := need + 1
	if len(units)*width > mostSteps {
		return nil
	}
	s.spend(len(units) * width)
	// least[k] is what room for k pods costs with the units so far, and
	// used[unit][k] whether the unit is part of that.
	least, reached, used := make([]cost, width), make([]bool, width), make([]bool, len(units)*width)
	reached[0] = true
	for i, u := range units {
		price := s.price(u)
		for k := need; k > 0; k-- {
			rest := max(0, k-gains[i])
			if !reached[rest] {
				continue
			}
			if c := least[rest].plus(price); !reached[k] || c.compare(least[k]) < 0 {
				least[k], reached[k], used[i*width+k] = c, true, true
			}
		}
	}
	if !reached[need] {
		return nil
	}
	made := s.copy()
	for i, k := len(units)-1, need; i >= 0; i-- {
		if used[i*width+k] {
			k = max(0, k-gains[i])
			if made.possible(units[i]) {
				made.take(units[i])
			}
		}
	}
	if !made.enough() {
		return nil
	}
	return made
}

// worthwhile lists units that make room alone, and for how many pods: for each
// such number no more than could be needed, those that cost least.
func (h *hunt) worthwhile(need int) (units, gains []int) {
	gain := make([]int, len(h.units))
	for u := range h.units {
		if gain[u] = min(need, h.gain(u)); gain[u] > 0 {
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b int) int {
		return cmp.Or(cmp.Compare(gain[a], gain[b]), h.price(a).compare(h.price(b)))
	})
	kept, same, spared := units[:0], 0, map[int]int{}
	for i, u := range units {
		if i > 0 && gain[u] != gain[units[i-1]] {
			same = 0
		}
		if same*gain[u] >= need {
			continue
		}
		if x := h.units[u]; x.pod != whole {
			if spared[x.job] >= h.jobs[x.job].spare {
				continue
			}
			spared[x.job]++
		}
		same++
		kept = append(kept, u)
		gains = append(gains, gain[u])
	}
	return kept, gains
}
