package account

import "cardquota.dev/operator/internal/card"

// matching is a maximum flow from demands over card names to capacity. The
// capacity of a name is what is free of its quota, and beyond that what
// elastic jobs could give back of it, bounded by their spare.
//
// Demands are added one at a time. A flow stays maximal for the demands that
// were added before and none of them ever loses a card to a later one, so one
// pass of augmenting paths per demand is enough.
type matching struct {
	free  func(card.Name) int64
	names map[card.Name]int // card name → vertex
	out   [][]int           // vertex → indices of its edges
	edges []edge            // the reverse of edge i is i^1
}

type edge struct {
	to   int
	left int64
}

const (
	source = iota
	sink
	firstVertex
)

// newMatching makes a matching without demands. free tells the capacity of a
// card name that is not in use.
func newMatching(elastic []Elastic, free func(card.Name) int64) *matching {
	m := &matching{free: free, names: map[card.Name]int{}, out: make([][]int, firstVertex)}
	for _, e := range elastic {
		if e.Spare == 0 {
			continue
		}
		job := m.vertex()
		m.connect(job, sink, int64(e.Spare))
		for name, held := range e.Held {
			m.connect(m.card(name), job, int64(held))
		}
	}
	return m
}

func (m *matching) vertex() int {
	m.out = append(m.out, nil)
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

// add gives the demand as many cards as possible, moving earlier demands to
// other alternatives where that helps, and returns how many it got.
func (m *matching) add(d Demand) card.Count {
	v := m.vertex()
	m.connect(source, v, int64(d.Count))
	for _, name := range d.Names {
		m.connect(v, m.card(name), int64(d.Count))
	}
	var got int64
	for {
		pushed := m.augment()
		if pushed == 0 {
			break
		}
		got += pushed
	}
	return card.Count(got)
}

// augment finds a shortest path from source to sink that has capacity left,
// pushes as much as it can carry, and returns how much that was.
func (m *matching) augment() int64 {
	via := make([]int, len(m.out)) // vertex → edge that reached it, plus one
	queue := []int{source}
	for len(queue) > 0 && via[sink] == 0 {
		v := queue[0]
		queue = queue[1:]
		for _, i := range m.out[v] {
			if e := m.edges[i]; e.left > 0 && via[e.to] == 0 && e.to != source {
				via[e.to] = i + 1
				queue = append(queue, e.to)
			}
		}
	}
	if via[sink] == 0 {
		return 0
	}
	push := m.edges[via[sink]-1].left
	for v := sink; v != source; v = m.edges[(via[v]-1)^1].to {
		push = min(push, m.edges[via[v]-1].left)
	}
	for v := sink; v != source; v = m.edges[(via[v]-1)^1].to {
		m.edges[via[v]-1].left -= push
		m.edges[(via[v]-1)^1].left += push
	}
	return push
}
