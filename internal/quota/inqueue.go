package quota

import (
	"fmt"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// Demand is how many cards of any of the Names a whole job needs. Whether the cards of one pod
// come from one node is checked per pod.
type Demand struct {
	Names []card.Name
	Count card.Count
}

// ElasticUsage is what a running job uses, and how much of it is above the job's minimum. Pods
// above the minimum are evicted first, so jobs may wait for these cards.
type ElasticUsage struct {
	// Used is how many of each card the job's pods use.
	Used map[card.Name]card.Count
	// Elastic is how many of them are above the minimum.
	Elastic card.Count
	// MilliCPU and Memory are used by its pods above the minimum.
	MilliCPU, Memory int64
}

// Bounds of the demands of one queue. Users choose the alternatives of a job, and 16 cards
// allow any number of choices.
const (
	// maxChoices is how many different choices among several cards are distinguished. Beyond
	// that a demand reserves each of its cards: more than it needs, never less.
	maxChoices = 64
	// maxJobChoices is how many more choices one job request may add.
	maxJobChoices = 16
	// maxDemands covers all choices and all cards that a quota can name. Only a queue without
	// limits sees more, and there the demands decide nothing.
	maxDemands = maxChoices + card.MaxQuotaEntries
)

// InqueueDemand is what enqueued jobs of a queue still wait for.
type InqueueDemand struct {
	// Demands has at most one entry for the same cards, each with sorted names and a count
	// above 0.
	Demands          []Demand
	Elastic          []ElasticUsage
	MilliCPU, Memory int64

	// elasticCPU and elasticMemory are used by running jobs above their minimum.
	elasticCPU, elasticMemory int64

	index   demandIndex
	pools   map[string]int // joined card names → index of their pool in Elastic
	choices int            // how many Demands have several names
	// split is set when there were too many choices.
	split bool
}

// Add adds the request of an enqueued job. Demands for the same cards become one, so a thousand
// equal jobs cost no more than one. The result does not depend on the order of the calls.
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

// splitAlternatives makes every demand reserve each of its cards.
func (w *InqueueDemand) splitAlternatives() {
	demands := w.Demands
	w.Demands, w.index, w.choices, w.split = nil, demandIndex{}, 0, true
	for _, d := range demands {
		w.addDemand(d.Names, d.Count)
	}
}

// AddElastic adds the elastic usage of a running job. Jobs that use the same one or two cards
// form one pool, which is exact. With more cards only jobs that use as many of each form a
// pool.
func (w *InqueueDemand) AddElastic(e ElasticUsage) {
	w.elasticCPU, w.elasticMemory = AddSaturating(w.elasticCPU, e.MilliCPU), AddSaturating(w.elasticMemory, e.Memory)
	var names []card.Name
	var total card.Count
	for name, used := range e.Used {
		if give := min(used, e.Elastic); give > 0 {
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

// sortNames returns names sorted, since preference does not matter here. It copies only names
// that are not sorted.
func sortNames(names []card.Name) []card.Name {
	if slices.IsSorted(names) {
		return names
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// JobRequestBuilder sums the requests of a job's pods. Demands for the same names in the same
// order become one, in the order of their first pods.
type JobRequestBuilder struct {
	JobRequest
	index demandIndex
}

// Add adds the request of one pod.
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

// maxLinearSearch is the length up to which a list is scanned: most are short, and a map costs
// more.
const maxLinearSearch = 8

// find returns the index of the demand for these names, -1 if there is none.
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

// joinNames returns names as users write them, "A|B".
func joinNames(names []card.Name) string {
	if len(names) == 1 {
		return string(names[0]) // without allocating
	}
	return card.Join(names, "|")
}
