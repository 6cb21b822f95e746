package account

import (
	"math"
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
}

// Waiting is everything that was admitted to a queue and is not placed yet.
type Waiting struct {
	Demands          []Demand
	Elastic          []Elastic
	MilliCPU, Memory int64
}

// Application is what one job asks for when it applies for admission.
type Application struct {
	Demands          []Demand
	MilliCPU, Memory int64
}

// Admit is the gate Enqueue: it returns nil when the cards of everything that
// waits in the queue and of the application can be handed out together within
// ⌊quota × overCommit⌋, after what is in use, and CPU and memory fit likewise.
// overCommit is at least 1.
//
// With alternatives a sum per card is wrong in both directions, so this is a
// matching: a flow from the demands to the card names, found exactly.
func (a *Account) Admit(queue string, waiting Waiting, app Application, overCommit float64) *Shortage {
	limits := a.Limits(queue)
	if !limits.AnyCard {
		if s := a.admitCards(queue, waiting, app, overCommit); s != nil {
			return s
		}
	}
	milliCPU, memory := a.UsedCPUMemory(queue)
	cpuLimit, memoryLimit := scale(limits.MilliCPU, overCommit), scale(limits.Memory, overCommit)
	switch {
	case exceeds(Sum(milliCPU, waiting.MilliCPU), app.MilliCPU, cpuLimit):
		return &Shortage{Kind: CPU, Queue: queue, Requested: app.MilliCPU, Total: Sum(Sum(milliCPU, waiting.MilliCPU), app.MilliCPU), Limit: cpuLimit}
	case exceeds(Sum(memory, waiting.Memory), app.Memory, memoryLimit):
		return &Shortage{Kind: Memory, Queue: queue, Requested: app.Memory, Total: Sum(Sum(memory, waiting.Memory), app.Memory), Limit: memoryLimit}
	}
	return nil
}

// admitCards adds the demands of the application one after the other, so that
// the shortage names the first that does not fit. What is in use above a
// lowered quota, and earlier admissions that a lowered quota left without
// room, hold up only those who compete with them for a card.
func (a *Account) admitCards(queue string, waiting Waiting, app Application, overCommit float64) *Shortage {
	limits := a.Limits(queue)
	limit := func(name card.Name) int64 { return scale(int64(limits.Cards[name]), overCommit) }
	m := newMatching(waiting.Elastic, func(name card.Name) int64 {
		return max(0, limit(name)-int64(a.Used(queue, name)))
	})
	for _, name := range a.overused(queue, limit) {
		m.add(Demand{Names: []card.Name{name}, Count: card.Count(int64(a.Used(queue, name)) - limit(name))})
	}
	for _, d := range waiting.Demands {
		m.add(d)
	}
	waits := waiting.Demands
	for _, d := range app.Demands {
		if got := m.add(d); got < d.Count {
			s := &Shortage{Kind: Cards, Queue: queue, Names: d.Names, Requested: int64(d.Count)}
			s.Total = s.Requested + int64(competing(waits, d))
			for _, name := range d.Names {
				s.Total += int64(a.Used(queue, name))
				s.Limit += limit(name)
			}
			// With alternatives the sums may look as if it fitted; what is missing
			// is what the matching could not give.
			s.Total = max(s.Total, s.Limit+int64(d.Count-got))
			return s
		}
		waits = append(slices.Clip(waits), d)
	}
	return nil
}

// overused lists the cards that the queue uses beyond the limit, sorted.
func (a *Account) overused(queue string, limit func(card.Name) int64) []card.Name {
	var over []card.Name
	if q, ok := a.queues[queue]; ok {
		for name, used := range q.cards {
			if int64(used) > limit(name) {
				over = append(over, name)
			}
		}
	}
	slices.Sort(over)
	return over
}

// competing sums the demands that share a card name with d.
func competing(demands []Demand, d Demand) card.Count {
	var total card.Count
	for _, other := range demands {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(d.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// scale multiplies a limit, rounding down: nothing that is not whole is given.
func scale(limit int64, by float64) int64 {
	if limit == Unlimited || by == 1 {
		return limit
	}
	scaled := math.Floor(float64(limit) * by)
	if scaled >= math.MaxInt64 {
		return Unlimited
	}
	return int64(scaled)
}

// Add notes that an application was admitted. Demands for the same cards are
// one demand, so that a thousand equal jobs cost no more than one.
func (w *Waiting) Add(app Application) {
	for _, d := range app.Demands {
		w.Demands = Merge(w.Demands, d)
	}
	w.MilliCPU = Sum(w.MilliCPU, app.MilliCPU)
	w.Memory = Sum(w.Memory, app.Memory)
}

// AddElastic notes what a running job could give back. Jobs that hold one and
// the same card are one pool.
func (w *Waiting) AddElastic(e Elastic) {
	if len(e.Held) != 1 {
		w.Elastic = append(w.Elastic, e)
		return
	}
	for name, held := range e.Held {
		give := min(held, e.Spare)
		for i := range w.Elastic {
			if pool, ok := w.Elastic[i].Held[name]; ok && len(w.Elastic[i].Held) == 1 {
				w.Elastic[i].Held[name] = pool.Add(give)
				w.Elastic[i].Spare = w.Elastic[i].Spare.Add(give)
				return
			}
		}
		w.Elastic = append(w.Elastic, Elastic{Held: map[card.Name]card.Count{name: give}, Spare: give})
	}
}

// Merge adds a demand to a list, to the one for the same cards if there is one.
func Merge(demands []Demand, d Demand) []Demand {
	for i := range demands {
		if slices.Equal(demands[i].Names, d.Names) {
			demands[i].Count = demands[i].Count.Add(d.Count)
			return demands
		}
	}
	return append(demands, d)
}
