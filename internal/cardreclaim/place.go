package cardreclaim

import "slices"

// placement puts waiting pods on nodes as long as there is room.
type placement struct {
	*model
	avail []float64
	pools []int64
	place [][]int // by claim
}

func (r *rooms) placement() *placement {
	return &placement{model: r.model, avail: slices.Clone(r.avail), pools: slices.Clone(r.pools), place: make([][]int, len(r.claims))}
}

func (p *placement) at(node int) []float64 { return p.avail[node*p.dims : (node+1)*p.dims] }

// fits is how many of a claim's pods a node takes.
func (p *placement) fits(claim, node int) int {
	c := &p.claims[claim]
	return min(c.fits(p.at(node)), c.within(p.pools[p.pool[node]]))
}

// fill places as many of a claim's pods as there is room for, the preferred
// nodes first, and tells whether that is all of them.
func (p *placement) fill(claim int) bool {
	c := &p.claims[claim]
	left := c.count - len(p.place[claim])
	p.look(len(c.nodes))
	for _, node := range c.nodes {
		if left == 0 {
			break
		}
		n := min(left, p.fits(claim, node))
		for range n {
			p.put(claim, node, 1)
			p.place[claim] = append(p.place[claim], node)
		}
		left -= n
	}
	return left == 0
}

// put books a pod on a node, or takes it from there when sign is -1.
func (p *placement) put(claim, node, sign int) {
	have := p.at(node)
	for i, amount := range p.claims[claim].request {
		have[i] -= float64(sign) * amount
	}
	p.pools[p.pool[node]] -= int64(sign) * p.claims[claim].cards
}

// places returns where the waiting pods can run, nil when not all can. Claims
// are filled one after the other, which is exact for one; when that leaves pods
// of several over, another order and then a search is tried.
func (r *rooms) places() [][]int {
	backwards := slices.Clone(r.order)
	slices.Reverse(backwards)
	for _, order := range [][]int{r.order, backwards} {
		p, all := r.placement(), true
		for _, claim := range order {
			all = all && p.fill(claim)
		}
		if all {
			return p.place
		}
		if len(order) == 1 {
			return nil
		}
	}
	return r.seat()
}
