package quota

import (
	"fmt"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// Demand is what a whole job needs before any of it may wait for cards: so
// many cards, one by one, of any of the Names. That the cards of one pod must
// come from one node is not asked here; the gates of the pods see to it.
type Demand struct {
	Names []card.Name
	Count card.Count
}

// ElasticUsage are cards that a running job holds above its minimum. They may be
// given to a job that waits, because they are the first to be given back.
type ElasticUsage struct {
	// Held is how many of each card the job's pods hold.
	Used map[card.Name]card.Count
	// Spare is how many of them are above the minimum.
	Elastic card.Count
	// MilliCPU and Memory are what its pods above the minimum hold.
	MilliCPU, Memory int64
}

// Bounds of what waits in one queue: users write which cards a job may use, and
// can think of any number of choices among 16 cards.
const (
	// maxChoices is how many different choices among several cards are told
	// apart. With more of them a demand waits for each of its cards at once: that
	// withholds more than it needs, and never less.
	maxChoices = 64
	// maxJobChoices is how many more of them one application may bring.
	maxJobChoices = 16
	// maxDemands are all choices and all cards that a quota can name. Only a
	// queue without limits sees more, where nothing is decided by them.
	maxDemands = maxChoices + card.MaxQuotaEntries
)

// InqueueDemand is everything that was admitted to a queue and is not placed yet.
type InqueueDemand struct {
	// Demands are at most one for the same cards, each with names in the order of
	// the alphabet and a count above 0.
	Demands          []Demand
	Elastic          []ElasticUsage
	MilliCPU, Memory int64

	// spareCPU and spareMemory are what running jobs could give back.
	elasticCPU, elasticMemory int64

	index   demandIndex
	pools   map[string]int // label of the cards → their pool in Elastic
	choices int            // how many Demands have several names
	// apart tells that there were too many choices.
	split bool
}

// Add notes that an application was admitted. Demands for the same cards are
// one demand, so that a thousand equal jobs cost no more than one. What it makes
// of several applications does not depend on their order.
func (w *InqueueDemand) Add(request JobRequest) {
	for _, d := range request.Demands {
		if d.Count > 0 {
			w.addDemand(sortNames(d.Names), d.Count)
		}
	}
	w.MilliCPU = AddSaturating(w.MilliCPU, request.MilliCPU)
	w.Memory = AddSaturating(w.Memory, request.Memory)
}

func (w *InqueueDemand) addDemand(names []card.Name, count card.Count) {
	if len(names) > 1 && w.split {
		for i := range names {
			w.addDemand(names[i:i+1], count)
		}
		return
	}
	switch i := w.index.find(w.Demands, names); {
	case i >= 0:
		w.Demands[i].Count = w.Demands[i].Count.Add(count)
	case len(names) == 0: // gets nothing
	case len(names) > 1 && w.choices == maxChoices:
		w.splitAlternatives()
		w.addDemand(names, count)
	case len(w.Demands) < maxDemands:
		w.Demands = append(w.Demands, Demand{Names: names, Count: count})
		if len(names) > 1 {
			w.choices++
		}
	}
}

// splitAlternatives has every demand wait for each of its cards.
func (w *InqueueDemand) splitAlternatives() {
	demands := w.Demands
	w.Demands, w.index, w.choices, w.split = nil, demandIndex{}, 0, true
	for _, d := range demands {
		w.addDemand(d.Names, d.Count)
	}
}

// AddElastic notes what a running job could give back. Jobs that hold the same one or
// two cards are one pool, which can give exactly what they can together. Of more cards
// that holds only of jobs that hold as many of each.
func (w *InqueueDemand) AddElastic(e ElasticUsage) {
	w.elasticCPU, w.elasticMemory = AddSaturating(w.elasticCPU, e.MilliCPU), AddSaturating(w.elasticMemory, e.Memory)
	var names []card.Name
	var total card.Count
	for name, held := range e.Used {
		if give := min(held, e.Elastic); give > 0 {
			names, total = append(names, name), total.Add(give)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	key := joinNames(names)
	if len(names) > 2 {
		for _, name := range names {
			key = fmt.Sprint(key, " ", min(e.Used[name], e.Elastic))
		}
		key = fmt.Sprint(key, " ", e.Elastic)
	}
	i, known := w.pools[key]
	if !known {
		if w.pools == nil {
			w.pools = map[string]int{}
		}
		i = len(w.Elastic)
		w.pools[key], w.Elastic = i, append(w.Elastic, ElasticUsage{Used: map[card.Name]card.Count{}})
	}
	pool := &w.Elastic[i]
	for _, name := range names {
		pool.Used[name] = pool.Used[name].Add(min(e.Used[name], e.Elastic))
	}
	pool.Elastic = pool.Elastic.Add(min(e.Elastic, total))
}

// sortNames is names in the order of the alphabet: another order of preference is no
// other choice. It copies only what is not.
func sortNames(names []card.Name) []card.Name {
	if slices.IsSorted(names) {
		return names
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// JobRequestBuilder adds up what a job asks for: demands for the same names, in the same order,
// are one, in the order in which the first of each came. None is of no cards.
type JobRequestBuilder struct {
	JobRequest
	index demandIndex
}

// Add adds what one pod asks for.
func (m *JobRequestBuilder) Add(r Request) {
	m.MilliCPU, m.Memory = AddSaturating(m.MilliCPU, r.MilliCPU), AddSaturating(m.Memory, r.Memory)
	if r.Count == 0 {
		return
	}
	if i := m.index.find(m.Demands, r.Names); i >= 0 {
		m.Demands[i].Count = m.Demands[i].Count.Add(r.Count)
		return
	}
	m.Demands = append(m.Demands, Demand{Names: r.Names, Count: r.Count})
}

// demandIndex finds a demand by its names in a list that only grows.
type demandIndex struct{ byNames map[string]int }

// maxLinearSearch is the length up to which a list is searched: nearly every one is
// short, and a map costs more.
const maxLinearSearch = 8

// find returns where the demand for these names is, -1 when there is none.
func (x *demandIndex) find(demands []Demand, names []card.Name) int {
	if len(demands) <= maxLinearSearch {
		for i := range demands {
			if slices.Equal(demands[i].Names, names) {
				return i
			}
		}
		return -1
	}
	if x.byNames == nil {
		x.byNames = make(map[string]int, 2*len(demands))
	}
	for i := len(x.byNames); i < len(demands); i++ {
		x.byNames[joinNames(demands[i].Names)] = i
	}
	if i, ok := x.byNames[joinNames(names)]; ok {
		return i
	}
	return -1
}

// joinNames writes names as users do, "A|B".
func joinNames(names []card.Name) string {
	if len(names) == 1 {
		return string(names[0]) // without allocating
	}
	return card.Join(names, "|")
}
