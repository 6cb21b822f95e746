package quota

import (
	"math"

	"cardquota.dev/operator/internal/card"
)

// matching is a maximum flow from requests over card names to capacity. The capacity of a name
// is its free quota, plus what elastic jobs use of it, bounded by their Elastic.
//
// Requests are added one at a time. The flow stays maximal for the requests added so far, and
// none loses a card to a later one. So one pass of augmenting paths per request suffices.
//
// The size is bounded by the cards with capacity and the number of elastic jobs. A request for
// one card starts at the card's vertex. Requests for the same choice share a vertex, and there
// are at most maxChoices + maxJobChoices of these.
type matching struct {
	free       func(card.Name) int64
	names      map[card.Name]int // card name → vertex
	choices    map[string]int    // joined card names → vertex
	edgesFrom  [][]int           // vertex → indices of its edges
	edges      []edge            // the reverse of edge i is i^1
	parentEdge []int             // vertex → edge that reached it, plus one
	visited    []int             // the reached vertices, in order
	steps      int               // how many edges were visited
}

type edge struct {
	to       int
	residual int64
}

// sink is the vertex that all flow reaches.
const sink = 0

// newMatching returns a matching without requests. free returns the free quota of a card. Each elastic job is a
// vertex between the cards that it uses and the sink.
func newMatching(elasticUsages []ElasticUsage, free func(card.Name) int64) *matching {
	m := &matching{free: free, names: map[card.Name]int{}}
	m.addVertex() // the sink
	for _, e := range elasticUsages {
		job := m.addVertex() // its edge to the sink bounds what it gives of all cards together
		m.addEdge(job, sink, int64(e.Elastic))
		for name, used := range e.Used {
			m.addEdge(m.cardVertex(name), job, int64(used))
		}
	}
	return m
}

func (m *matching) addVertex() int {
	m.edgesFrom = append(m.edgesFrom, nil)
	m.parentEdge = append(m.parentEdge, 0)
	return len(m.edgesFrom) - 1
}

// addEdge adds an edge and its reverse, along which flow that was pushed can be moved back.
func (m *matching) addEdge(from, to int, capacity int64) {
	m.edgesFrom[from] = append(m.edgesFrom[from], len(m.edges))
	m.edges = append(m.edges, edge{to: to, residual: capacity})
	m.edgesFrom[to] = append(m.edgesFrom[to], len(m.edges))
	m.edges = append(m.edges, edge{to: from})
}

// cardVertex returns the vertex of a card. It adds a missing one, with an edge for the card's free quota.
func (m *matching) cardVertex(name card.Name) int {
	v, ok := m.names[name]
	if !ok {
		v = m.addVertex()
		m.names[name] = v
		m.addEdge(v, sink, m.free(name))
	}
	return v
}

// choiceVertex returns the vertex of several sorted card names, false if there are too many
// choices.
func (m *matching) choiceVertex(names []card.Name) (int, bool) {
	// Users choose the alternatives, and every vertex makes each search longer. So there are as many vertices
	// as choices of reservations and of one more job.
	key := joinNames(names)
	v, ok := m.choices[key]
	if ok || len(m.choices) == maxChoices+maxJobChoices {
		return v, ok
	}

	if m.choices == nil {
		m.choices = map[string]int{}
	}

	v = m.addVertex()
	m.choices[key] = v
	for _, name := range names {
		m.addEdge(v, m.cardVertex(name), math.MaxInt64/2) // bounded by the request
	}

	return v, true
}

// isExhausted reports whether a card has no capacity. One with a vertex may have some of elastic jobs.
func (m *matching) isExhausted(name card.Name) bool {
	_, known := m.names[name]
	return !known && m.free(name) == 0
}

// addRequest gives the request as many cards as possible and returns how many. It moves earlier
// requests to other alternatives where that helps. A request beyond the bound on choices takes as
// many of each of its cards, which is never too generous.
func (m *matching) addRequest(wanted CardRequest) card.Count {
	if wanted.Count == 0 {
		return 0
	}

	switch names := sortNames(removeNames(wanted.Names, m.isExhausted)); len(names) {
	case 0:
		return 0
	case 1:
		return m.pushFlow(m.cardVertex(names[0]), wanted.Count)
	default:
		if v, ok := m.choiceVertex(names); ok {
			return m.pushFlow(v, wanted.Count)
		}

		// Without a vertex of its own the request cannot be moved to another card later. So it takes as many
		// of each card, and gets the least of these numbers.
		got := wanted.Count
		for _, name := range names {
			got = min(got, m.pushFlow(m.cardVertex(name), wanted.Count))
		}

		return got
	}
}

// pushFlow sends up to count from a vertex to the sink.
func (m *matching) pushFlow(from int, count card.Count) card.Count {
	var got int64
	for got < int64(count) {
		pushed := m.augmentPath(from, int64(count)-got)
		if pushed == 0 {
			break
		}
		got += pushed
	}
	return card.Count(got)
}

// augmentPath finds a shortest path with capacity from a vertex to the sink and pushes up to
// limit along it. It returns how much it pushed, 0 if there is no path. It is one step of the Edmonds–Karp algorithm
// for the largest flow.
func (m *matching) augmentPath(from int, limit int64) int64 {
	// Breadth first finds the shortest paths, which bounds their number by the size of the graph alone.
	// parentEdge has the index plus one of the edge that reached a vertex, and 0 for a vertex that was not
	// reached.
	clear(m.parentEdge)
	m.visited = append(m.visited[:0], from)
	for next := 0; next < len(m.visited) && m.parentEdge[sink] == 0; next++ {
		for _, i := range m.edgesFrom[m.visited[next]] {
			m.steps++
			if e := m.edges[i]; e.residual > 0 && m.parentEdge[e.to] == 0 && e.to != from {
				m.parentEdge[e.to] = i + 1
				m.visited = append(m.visited, e.to)
			}
		}
	}

	if m.parentEdge[sink] == 0 {
		return 0
	}

	// The path is walked back from the sink: i^1 is the reverse of edge i, so it leads to the vertex before.
	push := limit
	for v := sink; v != from; v = m.edges[(m.parentEdge[v]-1)^1].to {
		push = min(push, m.edges[m.parentEdge[v]-1].residual)
	}

	// The reverse edges let a later request move this one to another alternative.
	for v := sink; v != from; v = m.edges[(m.parentEdge[v]-1)^1].to {
		m.edges[m.parentEdge[v]-1].residual -= push
		m.edges[(m.parentEdge[v]-1)^1].residual += push
	}

	return push
}
