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

// LimitKind says which limit a Shortage is about.
type LimitKind int

// The kinds of limits.
const (
	Cards LimitKind = iota
	CPU
	Memory
	// Terminating is of cards as well: more of them are held by pods that end than may
	// be, and only their end helps.
	Terminating
)

// InsufficientQuota is one limit that a request would exceed. Requested, Total and
// Limit are whole cards, thousandths of a core, or bytes.
type InsufficientQuota struct {
	Kind  LimitKind
	Queue string
	// Names are the card alternatives that are short together; only for Cards and
	// Ending.
	Names []card.Name
	// Others is how many further alternatives have even less room.
	OtherCards int
	// Requested is what was asked for, Total what would be in use with it, and
	// Limit what may be. For Ending, Total is what is ending.
	Requested, Total, Limit int64
	// Within is how long what is ending may take at most; only for Ending.
	GracePeriod time.Duration
}

// CardLabel writes the card alternatives as users write them, "A|B".
func (s *InsufficientQuota) CardLabel() string { return joinNames(s.Names) }

// Released is what a queue would have got back before something is asked of it:
// the charges of pods that are to be evicted, or of the pod that asks.
type Released struct {
	Cards            map[card.Name]card.Count
	MilliCPU, Memory int64
	// Ends tells that pods are to be evicted: what they give back is ending then.
	Evicted bool
}

// Add notes one more charge that would be given back.
func (f *Released) Add(c *Charge) { f.addSigned(c, 1) }

// Remove takes back what Add noted.
func (f *Released) Remove(c *Charge) { f.addSigned(c, -1) }

func (f *Released) addSigned(c *Charge, sign int64) {
	if f.Cards == nil {
		f.Cards = map[card.Name]card.Count{}
	}
	for _, held := range c.Cards {
		f.Cards[held.Name] += card.Count(sign) * held.Count
	}
	f.MilliCPU += sign * c.MilliCPU
	f.Memory += sign * c.Memory
}

// FitsAnyCard is the gate Allocatable: it returns nil when the queue has room for the
// request on at least one of its cards and in CPU and memory, and the first
// shortage otherwise.
func (l *Ledger) FitsAnyCard(queue string, request Request) *InsufficientQuota {
	if s := l.insufficientOnAllCards(queue, request); s != nil {
		return s
	}
	return firstInsufficient(l.readQueue(queue).insufficientCPUMemory(queue, request, Released{}))
}

// firstInsufficient is the first shortage, nil when there is none.
func firstInsufficient(all []InsufficientQuota) *InsufficientQuota {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// FitsAllCards tells whether the queue has room for the request on every one of
// its cards, so that it does not matter which it gets.
func (l *Ledger) FitsAllCards(queue string, request Request) bool {
	for _, name := range request.Names {
		if !l.FitsCard(queue, name, request.Count) {
			return false
		}
	}
	return l.FitsAnyCard(queue, request) == nil
}

func (l *Ledger) insufficientOnAllCards(queue string, request Request) *InsufficientQuota {
	if request.Count == 0 || len(request.Names) == 0 {
		return nil
	}
	for _, name := range request.Names {
		if l.FitsCard(queue, name, request.Count) {
			return nil
		}
	}
	// Who waits for the end of pods has room as soon as they are gone. Otherwise the
	// alternative to speak of is the one with the most room, and among equals the one
	// with the largest quota.
	q := l.readQueue(queue)
	var best card.Name
	if waits := slices.IndexFunc(request.Names, func(name card.Name) bool { return q.hasRoom(name, request.Count) }); waits >= 0 {
		best = request.Names[waits]
	} else {
		best = slices.MaxFunc(request.Names, func(x, y card.Name) int {
			return cmp.Or(cmp.Compare(q.freeQuota(x), q.freeQuota(y)), cmp.Compare(q.limits.Cards[x], q.limits.Cards[y]))
		})
	}
	s := q.insufficientCard(queue, best, request.Count, Released{})[0]
	s.OtherCards = len(request.Names) - 1
	return &s
}

// FitsCard is the gate Predicate: whether the queue has room for so many of one
// card, and not too many of it are ending. It does not allocate memory and may be
// called from many goroutines while nobody writes.
func (l *Ledger) FitsCard(queue string, name card.Name, count card.Count) bool {
	q := l.readQueue(queue)
	return q.limits.AnyCard || count == 0 || q.hasRoom(name, count) && !q.isTerminatingOverQuota(name)
}

// IsTerminatingOverQuota tells that a queue gets no more of a card, whatever it has room for,
// because too many of it are ending.
func (l *Ledger) IsTerminatingOverQuota(queue string, name card.Name) bool {
	return l.readQueue(queue).isTerminatingOverQuota(name)
}

// FitsAfterRelease is the gate of a pod on a node whose card is known: whether the
// queue has room for the request on that very card and in CPU and memory, once
// released is given back. It returns the first shortage, nil when there is none,
// and like FitsOn it may be called from many goroutines while nobody writes.
func (l *Ledger) FitsAfterRelease(queue string, request Request, name card.Name, released Released) *InsufficientQuota {
	return firstInsufficient(l.InsufficientAfterRelease(queue, request, name, released))
}

// InsufficientAfterRelease is FitsNode with every shortage: of cards, of their end, of CPU and
// memory, in this order. Whoever makes room for a pod must make all of it.
func (l *Ledger) InsufficientAfterRelease(queue string, request Request, name card.Name, released Released) []InsufficientQuota {
	q := l.readQueue(queue)
	return append(q.insufficientCard(queue, name, request.Count, released), q.insufficientCPUMemory(queue, request, released)...)
}

// freeQuota is how many of a card the queue may still use, negative above a lowered
// quota.
func (q *queueLedger) freeQuota(name card.Name) int64 {
	return int64(q.limits.Cards[name]) - int64(q.cards[name])
}

// hasRoom compares with the quota what would be in use.
func (q *queueLedger) hasRoom(name card.Name, count card.Count) bool {
	return q.cards[name].Add(count) <= q.limits.Cards[name]
}

// insufficientCard are the shortages of one card, and of the end of its pods.
func (q *queueLedger) insufficientCard(queue string, name card.Name, count card.Count, released Released) (all []InsufficientQuota) {
	if count == 0 || q.limits.AnyCard {
		return nil
	}
	s := InsufficientQuota{Kind: Cards, Queue: queue, Names: []card.Name{name}, Requested: int64(count), Limit: int64(q.limits.Cards[name])}
	used := q.cards[name] - released.Cards[name]
	if s.Total = int64(used.Add(count)); s.Total > s.Limit {
		all = append(all, s)
	}
	s.Kind, s.Total, s.GracePeriod = Terminating, int64(q.terminating[name].count), q.terminating[name].longestGracePeriod
	if released.Evicted {
		s.Total += int64(released.Cards[name])
	}
	if s.Total > s.Limit {
		all = append(all, s)
	}
	return all
}

// insufficientCPUMemory limits CPU and memory only where the request has some: a pod that
// asks for no CPU is never refused for CPU.
func (q *queueLedger) insufficientCPUMemory(queue string, request Request, released Released) []InsufficientQuota {
	cpu := insufficientAmount(CPU, queue, q.milliCPU.clampedInt64()-released.MilliCPU, request.MilliCPU, q.limits.MilliCPU)
	return append(cpu, insufficientAmount(Memory, queue, q.memory.clampedInt64()-released.Memory, request.Memory, q.limits.Memory)...)
}

// insufficientAmount is the shortage of so much CPU or memory beside what is used, if there is one.
func insufficientAmount(kind LimitKind, queue string, used, asked, limit int64) []InsufficientQuota {
	if asked <= 0 || limit == Unlimited || AddSaturating(used, asked) <= limit {
		return nil
	}
	return []InsufficientQuota{{Kind: kind, Queue: queue, Requested: asked, Total: AddSaturating(used, asked), Limit: limit}}
}

// AddSaturating adds two amounts of CPU or memory without wrapping around.
func AddSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
