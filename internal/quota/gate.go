package quota

import (
	"cmp"
	"math"
	"slices"
	"strings"
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
func (s *Shortage) Label() string {
	texts := make([]string, len(s.Names))
	for i, name := range s.Names {
		texts[i] = string(name)
	}
	return strings.Join(texts, "|")
}

// Fits is the gate Allocatable: it returns nil when the queue has room for the
// ask on at least one of its cards and in CPU and memory, and the first
// shortage otherwise.
func (a *Ledger) Fits(queue string, ask Request) *Shortage {
	if s := a.fitsCards(queue, ask); s != nil {
		return s
	}
	q, ok := a.queues[queue]
	if !ok {
		q = &queueBooks{}
	}
	if all := q.shortCPUMemory(queue, ask, Freed{}); len(all) > 0 {
		return &all[0]
	}
	return nil
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
	// Who waits for the end of pods has room as soon as they are gone.
	if q := a.queues[queue]; q != nil {
		for _, name := range ask.Names {
			if q.hasRoom(name, ask.Count) {
				s := q.shortEnding(queue, name, ask.Count)
				s.Others = len(ask.Names) - 1
				return &s
			}
		}
	}
	// The alternative to speak of is the one with the most room, and among
	// equals the one with the largest quota.
	best := slices.MaxFunc(ask.Names, func(x, y card.Name) int {
		return cmp.Or(cmp.Compare(a.room(queue, x), a.room(queue, y)), cmp.Compare(a.Limits(queue).Cards[x], a.Limits(queue).Cards[y]))
	})
	return &Shortage{
		Kind: Cards, Queue: queue, Names: []card.Name{best}, Others: len(ask.Names) - 1,
		Requested: int64(ask.Count), Total: int64(ask.Count) + int64(a.Used(queue, best)), Limit: int64(a.Limits(queue).Cards[best]),
	}
}

// room is how many of a card the queue may still use, negative above a lowered
// quota.
func (a *Ledger) room(queue string, name card.Name) int64 {
	return int64(a.Limits(queue).Cards[name]) - int64(a.Used(queue, name))
}

// FitsOn is the gate Predicate: whether the queue has room for so many of one
// card, and not too many of it are ending. It does not allocate memory and may be
// called from many goroutines while nobody writes.
func (a *Ledger) FitsOn(queue string, name card.Name, count card.Count) bool {
	q, ok := a.queues[queue]
	if !ok {
		return count == 0
	}
	return q.limits.AnyCard || count == 0 || q.hasRoom(name, count) && !q.crowded(name)
}

// hasRoom compares with the quota what would be in use.
func (q *queueBooks) hasRoom(name card.Name, count card.Count) bool {
	return q.cards[name].Add(count) <= q.limits.Cards[name]
}

// Crowded tells that a queue gets no more of a card, whatever it has room for,
// because too many of it are ending.
func (a *Ledger) Crowded(queue string, name card.Name) bool {
	q, ok := a.queues[queue]
	return ok && q.crowded(name)
}

func exceeds(used, ask, limit int64) bool {
	return ask > 0 && limit != Unlimited && Sum(used, ask) > limit
}

// Sum adds two amounts of CPU or memory without wrapping around.
func Sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
