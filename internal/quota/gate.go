package quota

import (
	"cmp"
	"math"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Request is what a pod that waits would take.
type Request struct {
	// Names are the cards it may run on, in the order of preference; empty when
	// it asks for no cards, and never empty when it asks for some.
	Names []card.Name
	// Count is how many of one of the Names it takes.
	Count card.Count
	// MilliCPU and Memory are what it would add to the queue's use.
	MilliCPU, Memory int64
}

// Kind says which limit a Shortage is about.
type Kind int

// The kinds of limits.
const (
	Cards Kind = iota
	CPU
	Memory
	// Ending is of cards as well: more of them are held by pods that end than may
	// be, and only their end helps.
	Ending
)

// Shortage is one limit that a request would exceed. Requested, Total and
// Limit are whole cards, thousandths of a core, or bytes.
type Shortage struct {
	Kind  Kind
	Queue string
	// Names are the card alternatives that are short together; only for Cards and
	// Ending.
	Names []card.Name
	// Others is how many further alternatives have even less room.
	Others int
	// Requested is what was asked for, Total what would be in use with it, and
	// Limit what may be. For Ending, Total is what is ending.
	Requested, Total, Limit int64
	// Within is how long what is ending may take at most; only for Ending.
	Within time.Duration
}

// Label writes the card alternatives as users write them, "A|B".
func (s *Shortage) Label() string { return label(s.Names) }

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

// Fits is the gate Allocatable: it returns nil when the queue has room for the
// ask on at least one of its cards and in CPU and memory, and the first
// shortage otherwise.
func (a *Ledger) Fits(queue string, ask Request) *Shortage {
	if s := a.fitsCards(queue, ask); s != nil {
		return s
	}
	return firstOf(a.usage(queue).shortCPUMemory(queue, ask, Freed{}))
}

// firstOf is the first shortage, nil when there is none.
func firstOf(all []Shortage) *Shortage {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// FitsEverywhere tells whether the queue has room for the ask on every one of
// its cards, so that it does not matter which it gets.
func (a *Ledger) FitsEverywhere(queue string, ask Request) bool {
	for _, name := range ask.Names {
		if !a.FitsOn(queue, name, ask.Count) {
			return false
		}
	}
	return a.Fits(queue, ask) == nil
}

func (a *Ledger) fitsCards(queue string, ask Request) *Shortage {
	if ask.Count == 0 || len(ask.Names) == 0 {
		return nil
	}
	for _, name := range ask.Names {
		if a.FitsOn(queue, name, ask.Count) {
			return nil
		}
	}
	// Who waits for the end of pods has room as soon as they are gone. Otherwise the
	// alternative to speak of is the one with the most room, and among equals the one
	// with the largest quota.
	q := a.usage(queue)
	var best card.Name
	if waits := slices.IndexFunc(ask.Names, func(name card.Name) bool { return q.hasRoom(name, ask.Count) }); waits >= 0 {
		best = ask.Names[waits]
	} else {
		best = slices.MaxFunc(ask.Names, func(x, y card.Name) int {
			return cmp.Or(cmp.Compare(q.room(x), q.room(y)), cmp.Compare(q.limits.Cards[x], q.limits.Cards[y]))
		})
	}
	s := q.shortOn(queue, best, ask.Count, Freed{})[0]
	s.Others = len(ask.Names) - 1
	return &s
}

// FitsOn is the gate Predicate: whether the queue has room for so many of one
// card, and not too many of it are ending. It does not allocate memory and may be
// called from many goroutines while nobody writes.
func (a *Ledger) FitsOn(queue string, name card.Name, count card.Count) bool {
	q := a.usage(queue)
	return q.limits.AnyCard || count == 0 || q.hasRoom(name, count) && !q.crowded(name)
}

// Crowded tells that a queue gets no more of a card, whatever it has room for,
// because too many of it are ending.
func (a *Ledger) Crowded(queue string, name card.Name) bool { return a.usage(queue).crowded(name) }

// FitsNode is the gate of a pod on a node whose card is known: whether the
// queue has room for the ask on that very card and in CPU and memory, once
// freed is given back. It returns the first shortage, nil when there is none,
// and like FitsOn it may be called from many goroutines while nobody writes.
func (a *Ledger) FitsNode(queue string, ask Request, name card.Name, freed Freed) *Shortage {
	return firstOf(a.ShortOn(queue, ask, name, freed))
}

// ShortOn is FitsNode with every shortage: of cards, of their end, of CPU and
// memory, in this order. Whoever makes room for a pod must make all of it.
func (a *Ledger) ShortOn(queue string, ask Request, name card.Name, freed Freed) []Shortage {
	q := a.usage(queue)
	return append(q.shortOn(queue, name, ask.Count, freed), q.shortCPUMemory(queue, ask, freed)...)
}

// room is how many of a card the queue may still use, negative above a lowered
// quota.
func (q *queueUsage) room(name card.Name) int64 {
	return int64(q.limits.Cards[name]) - int64(q.cards[name])
}

// hasRoom compares with the quota what would be in use.
func (q *queueUsage) hasRoom(name card.Name, count card.Count) bool {
	return q.cards[name].Add(count) <= q.limits.Cards[name]
}

// shortOn are the shortages of one card, and of the end of its pods.
func (q *queueUsage) shortOn(queue string, name card.Name, count card.Count, freed Freed) (all []Shortage) {
	if count == 0 || q.limits.AnyCard {
		return nil
	}
	s := Shortage{Kind: Cards, Queue: queue, Names: []card.Name{name}, Requested: int64(count), Limit: int64(q.limits.Cards[name])}
	used := q.cards[name] - freed.Cards[name]
	if s.Total = int64(used.Add(count)); s.Total > s.Limit {
		all = append(all, s)
	}
	s.Kind, s.Total, s.Within = Ending, int64(q.ending[name].count), q.ending[name].longest
	if freed.Ends {
		s.Total += int64(freed.Cards[name])
	}
	if s.Total > s.Limit {
		all = append(all, s)
	}
	return all
}

// shortCPUMemory limits CPU and memory only where the ask has some: a pod that
// asks for no CPU is never refused for CPU.
func (q *queueUsage) shortCPUMemory(queue string, ask Request, freed Freed) []Shortage {
	cpu := exceeding(CPU, queue, q.milliCPU.amount()-freed.MilliCPU, ask.MilliCPU, q.limits.MilliCPU)
	return append(cpu, exceeding(Memory, queue, q.memory.amount()-freed.Memory, ask.Memory, q.limits.Memory)...)
}

// exceeding is the shortage of so much CPU or memory beside what is used, if there is one.
func exceeding(kind Kind, queue string, used, asked, limit int64) []Shortage {
	if asked <= 0 || limit == Unlimited || Sum(used, asked) <= limit {
		return nil
	}
	return []Shortage{{Kind: kind, Queue: queue, Requested: asked, Total: Sum(used, asked), Limit: limit}}
}

// Sum adds two amounts of CPU or memory without wrapping around.
func Sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
