package quota

import "cardquota.dev/operator/internal/card"

// Freed is what a queue would have got back before something is asked of it:
// the charges of pods that are to be evicted, or of the pod that asks.
type Freed struct {
	Cards            map[card.Name]card.Count
	MilliCPU, Memory int64
	// Ends tells that pods are to be evicted: what they give back is ending then.
	Ends bool
}

// Add notes one more charge that would be given back.
func (f *Freed) Add(c *Charge) { f.change(c, 1) }

// Remove takes back what Add noted.
func (f *Freed) Remove(c *Charge) { f.change(c, -1) }

func (f *Freed) change(c *Charge, sign int64) {
	if f.Cards == nil {
		f.Cards = map[card.Name]card.Count{}
	}
	for _, held := range c.Cards {
		f.Cards[held.Name] += card.Count(sign) * held.Count
	}
	f.MilliCPU += sign * c.MilliCPU
	f.Memory += sign * c.Memory
}

// FitsNode is the gate of a pod on a node whose card is known: whether the
// queue has room for the ask on that very card and in CPU and memory, once
// freed is given back. It returns the first shortage, nil when there is none,
// and like FitsOn it may be called from many goroutines while nobody writes.
func (a *Ledger) FitsNode(queue string, ask Request, name card.Name, freed Freed) *Shortage {
	if all := a.ShortOn(queue, ask, name, freed); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// ShortOn is FitsNode with every shortage: of cards, of their end, of CPU and
// memory, in this order. Whoever makes room for a pod must make all of it.
func (a *Ledger) ShortOn(queue string, ask Request, name card.Name, freed Freed) []Shortage {
	q, ok := a.queues[queue]
	if !ok {
		q = &queueBooks{}
	}
	var all []Shortage
	used := q.cards[name] - freed.Cards[name]
	if ask.Count > 0 && !q.limits.AnyCard && used.Add(ask.Count) > q.limits.Cards[name] {
		all = append(all, Shortage{
			Kind: Cards, Queue: queue, Names: []card.Name{name},
			Requested: int64(ask.Count), Total: int64(used.Add(ask.Count)), Limit: int64(q.limits.Cards[name]),
		})
	}
	if ask.Count > 0 && !q.limits.AnyCard {
		short := q.shortEnding(queue, name, ask.Count)
		if freed.Ends {
			short.Total += int64(freed.Cards[name])
		}
		if short.Total > short.Limit {
			all = append(all, short)
		}
	}
	return append(all, q.shortCPUMemory(queue, ask, freed)...)
}

// shortCPUMemory limits CPU and memory only where the ask has some: a pod that
// asks for no CPU is never refused for CPU.
func (q *queueBooks) shortCPUMemory(queue string, ask Request, freed Freed) []Shortage {
	var all []Shortage
	milliCPU, memory := q.milliCPU.amount()-freed.MilliCPU, q.memory.amount()-freed.Memory
	if exceeds(milliCPU, ask.MilliCPU, q.limits.MilliCPU) {
		all = append(all, Shortage{Kind: CPU, Queue: queue, Requested: ask.MilliCPU, Total: Sum(milliCPU, ask.MilliCPU), Limit: q.limits.MilliCPU})
	}
	if exceeds(memory, ask.Memory, q.limits.Memory) {
		all = append(all, Shortage{Kind: Memory, Queue: queue, Requested: ask.Memory, Total: Sum(memory, ask.Memory), Limit: q.limits.Memory})
	}
	return all
}
