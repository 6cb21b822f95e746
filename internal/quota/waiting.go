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

// Elastic are cards that a running job holds above its minimum. They may be
// given to a job that waits, because they are the first to be given back.
type Elastic struct {
	// Held is how many of each card the job's pods hold.
	Held map[card.Name]card.Count
	// Spare is how many of them are above the minimum.
	Spare card.Count
	// MilliCPU and Memory are what its pods above the minimum hold.
	MilliCPU, Memory int64
}

// Bounds of what waits in one queue: users write which cards a job may use, and
// can think of any number of choices among 16 cards.
const (
	// mostChoices is how many different choices among several cards are told
	// apart. With more of them a demand waits for each of its cards at once: that
	// withholds more than it needs, and never less.
	mostChoices = 64
	// mostOfOne is how many more of them one application may bring.
	mostOfOne = 16
	// mostDemands are all choices and all cards that a quota can name. Only a
	// queue without limits sees more, where nothing is decided by them.
	mostDemands = mostChoices + card.MaxQuotaEntries
)

// Waiting is everything that was admitted to a queue and is not placed yet.
type Waiting struct {
	// Demands are at most one for the same cards, each with names in the order of
	// the alphabet and a count above 0.
	Demands          []Demand
	Elastic          []Elastic
	MilliCPU, Memory int64

	// spareCPU and spareMemory are what running jobs could give back.
	spareCPU, spareMemory int64

	index   index
	pools   map[string]int // label of the cards → their pool in Elastic
	choices int            // how many Demands have several names
	// apart tells that there were too many choices.
	apart bool
}

// Add notes that an application was admitted. Demands for the same cards are
// one demand, so that a thousand equal jobs cost no more than one. What it makes
// of several applications does not depend on their order.
func (w *Waiting) Add(app JobRequest) {
	for _, d := range app.Demands {
		if d.Count > 0 {
			w.add(sorted(d.Names), d.Count)
		}
	}
	w.MilliCPU = Sum(w.MilliCPU, app.MilliCPU)
	w.Memory = Sum(w.Memory, app.Memory)
}

func (w *Waiting) add(names []card.Name, count card.Count) {
	if len(names) > 1 && w.apart {
		for i := range names {
			w.add(names[i:i+1], count)
		}
		return
	}
	switch i := w.index.find(w.Demands, names); {
	case i >= 0:
		w.Demands[i].Count = w.Demands[i].Count.Add(count)
	case len(names) == 0: // gets nothing
	case len(names) > 1 && w.choices == mostChoices:
		w.takeApart()
		w.add(names, count)
	case len(w.Demands) < mostDemands:
		w.Demands = append(w.Demands, Demand{Names: names, Count: count})
		if len(names) > 1 {
			w.choices++
		}
	}
}

// takeApart has every demand wait for each of its cards.
func (w *Waiting) takeApart() {
	demands := w.Demands
	w.Demands, w.index, w.choices, w.apart = nil, index{}, 0, true
	for _, d := range demands {
		w.add(d.Names, d.Count)
	}
}

// AddElastic notes what a running job could give back. Jobs that hold the same one or
// two cards are one pool, which can give exactly what they can together. Of more cards
// that holds only of jobs that hold as many of each.
func (w *Waiting) AddElastic(e Elastic) {
	w.spareCPU, w.spareMemory = Sum(w.spareCPU, e.MilliCPU), Sum(w.spareMemory, e.Memory)
	var names []card.Name
	var total card.Count
	for name, held := range e.Held {
		if give := min(held, e.Spare); give > 0 {
			names, total = append(names, name), total.Add(give)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	key := label(names)
	if len(names) > 2 {
		for _, name := range names {
			key = fmt.Sprint(key, " ", min(e.Held[name], e.Spare))
		}
		key = fmt.Sprint(key, " ", e.Spare)
	}
	i, known := w.pools[key]
	if !known {
		if w.pools == nil {
			w.pools = map[string]int{}
		}
		i = len(w.Elastic)
		w.pools[key], w.Elastic = i, append(w.Elastic, Elastic{Held: map[card.Name]card.Count{}})
	}
	pool := &w.Elastic[i]
	for _, name := range names {
		pool.Held[name] = pool.Held[name].Add(min(e.Held[name], e.Spare))
	}
	pool.Spare = pool.Spare.Add(min(e.Spare, total))
}

// sorted is names in the order of the alphabet: another order of preference is no
// other choice. It copies only what is not.
func sorted(names []card.Name) []card.Name {
	if slices.IsSorted(names) {
		return names
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// Merger adds up what a job asks for: demands for the same names, in the same order,
// are one, in the order in which the first of each came. None is of no cards.
type Merger struct {
	JobRequest
	index index
}

// Add adds what one pod asks for.
func (m *Merger) Add(r Request) {
	m.MilliCPU, m.Memory = Sum(m.MilliCPU, r.MilliCPU), Sum(m.Memory, r.Memory)
	if r.Count == 0 {
		return
	}
	if i := m.index.find(m.Demands, r.Names); i >= 0 {
		m.Demands[i].Count = m.Demands[i].Count.Add(r.Count)
		return
	}
	m.Demands = append(m.Demands, Demand{Names: r.Names, Count: r.Count})
}

// index finds a demand by its names in a list that only grows.
type index struct{ at map[string]int }

// fewDemands is the length up to which a list is searched: nearly every one is
// short, and a map costs more.
const fewDemands = 8

// find returns where the demand for these names is, -1 when there is none.
func (x *index) find(demands []Demand, names []card.Name) int {
	if len(demands) <= fewDemands {
		for i := range demands {
			if slices.Equal(demands[i].Names, names) {
				return i
			}
		}
		return -1
	}
	if x.at == nil {
		x.at = make(map[string]int, 2*len(demands))
	}
	for i := len(x.at); i < len(demands); i++ {
		x.at[label(demands[i].Names)] = i
	}
	if i, ok := x.at[label(names)]; ok {
		return i
	}
	return -1
}

// label writes names as users do, "A|B".
func label(names []card.Name) string {
	if len(names) == 1 {
		return string(names[0]) // without allocating
	}
	return card.Join(names, "|")
}
