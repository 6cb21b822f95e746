package quota

import (
	"math"

	"cardquota.dev/operator/internal/card"
)

// matching is a maximum flow from demands over card names to capacity. The
// capacity of a name is what is free of its quota, and beyond that what
// elastic jobs could give back of it, bounded by their spare.
//
// Demands are added one at a time. A flow stays maximal for the demands that
// were added before and none of them ever loses a card to a later one, so one
// pass of augmenting paths per demand is enough.
//
// Its size is bounded by the cards that have capacity and by the elastic jobs,
// whatever the demands name: a demand for one card begins at the card's vertex,
// demands for the same choice of cards share one, and there are at most mostChoices
// and mostOfOne of those.
type matching struct {
	free    func(card.Name) int64
	names   map[card.Name]int // card name → vertex
	choices map[string]int    // label of several card names → vertex
	out     [][]int           // vertex → indices of its edges
	edges   []edge            // the reverse of edge i is i^1
	via     []int             // vertex → edge that reached it, plus one
	queue   []int             // the vertices that were reached, in this order
	steps   int               // how many edges were looked at
}

type edge struct {
	to   int
	left int64
}

// sink is the vertex of what was given.
const sink = 0

// newMatching makes a matching without demands. free tells the capacity of a
// card name that is not in use.
func newMatching(elastic []Elastic, free func(card.Name) int64) *matching {
	m := &matching{free: free, names: map[card.Name]int{}}
	m.vertex() // the sink
	for _, e := range elastic {
		job := m.vertex()
		m.connect(job, sink, int64(e.Spare))
		for name, held := range e.Held {
			m.connect(m.card(name), job, int64(held))
		}
	}
	return m
}

func (m *matching) vertex() int {
	m.out, m.via = append(m.out, nil), append(m.via, 0)
	return len(m.out) - 1
}

func (m *matching) connect(from, to int, capacity int64) {
	m.out[from] = append(m.out[from], len(m.edges))
	m.edges = append(m.edges, edge{to: to, left: capacity})
	m.out[to] = append(m.out[to], len(m.edges))
	m.edges = append(m.edges, edge{to: from})
}

func (m *matching) card(name card.Name) int {
	v, ok := m.names[name]
	if !ok {
		v = m.vertex()
		m.names[name] = v
		m.connect(v, sink, m.free(name))
	}
	return v
}

// choice is the vertex of several card names in the order of the alphabet, false
// when there are too many choices already.
func (m *matching) choice(names []card.Name) (int, bool) {
	key := label(names)
	v, ok := m.choices[key]
	if ok || len(m.choices) == mostChoices+mostOfOne {
		return v, ok
	}
	if m.choices == nil {
		m.choices = map[string]int{}
	}
	v = m.vertex()
	m.choices[key] = v
	for _, name := range names {
		m.connect(v, m.card(name), math.MaxInt64/2) // what it gets bounds it
	}
	return v, true
}

// lacks tells that nothing of a card can be given.
func (m *matching) lacks(name card.Name) bool {
	_, known := m.names[name]
	return !known && m.free(name) == 0
}

// add gives the demand as many cards as possible, moving earlier demands to
// other alternatives where that helps, and returns how many it got. One choice
// too many gets as many of each of its cards, or fewer: what is admitted so would
// be admitted otherwise as well.
func (m *matching) add(d Demand) card.Count {
	if d.Count == 0 {
		return 0
	}
	switch names := sorted(without(d.Names, m.lacks)); len(names) {
	case 0:
		return 0
	case 1:
		return m.give(m.card(names[0]), d.Count)
	default:
		if v, ok := m.choice(names); ok {
			return m.give(v, d.Count)
		}
		got := d.Count
		for _, name := range names {
			got = min(got, m.give(m.card(name), d.Count))
		}
		return got
	}
}

// give sends up to count from a vertex to the sink.
func (m *matching) give(from int, count card.Count) card.Count {
	var got int64
	for got < int64(count) {
		pushed := m.augment(from, int64(count)-got)
		if pushed == 0 {
			break
		}
		got += pushed
	}
	return card.Count(got)
}

// augment finds a shortest path from a vertex to the sink that has capacity
// left, pushes as much as it can carry, at most so much, and returns how much
// that was.
func (m *matching) augment(from int, most int64) int64 {
	clear(m.via)
	m.queue = append(m.queue[:0], from)
	for next := 0; next < len(m.queue) && m.via[sink] == 0; next++ {
		for _, i := range m.out[m.queue[next]] {
			m.steps++
			if e := m.edges[i]; e.left > 0 && m.via[e.to] == 0 && e.to != from {
				m.via[e.to] = i + 1
				m.queue = append(m.queue, e.to)
			}
		}
	}
	if m.via[sink] == 0 {
		return 0
	}
	push := most
	for v := sink; v != from; v = m.edges[(m.via[v]-1)^1].to {
		push = min(push, m.edges[m.via[v]-1].left)
	}
	for v := sink; v != from; v = m.edges[(m.via[v]-1)^1].to {
		m.edges[m.via[v]-1].left -= push
		m.edges[(m.via[v]-1)^1].left += push
	}
	return push
}
