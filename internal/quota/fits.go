package quota

import (
	"cmp"
	"math"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Request is what a pending pod requests.
type Request struct {
	// Names are the allowed cards in order of preference; empty exactly when Count is 0.
	Names []card.Name
	// Count is how many cards of one name the pod requests.
	Count card.Count
	// MilliCPU and Memory count against the limits of the queue.
	MilliCPU, Memory int64
}

// LimitKind is the kind of a limit.
type LimitKind int

// The kinds of limits.
const (
	Cards LimitKind = iota
	CPU
	Memory
	// Terminating is a limit of cards, too: terminating pods hold too many of them, and the
	// queue has to wait until they end.
	Terminating
)

// InsufficientQuota is one limit that a request would exceed. Requested, Total and Limit are
// cards, millicores or bytes.
type InsufficientQuota struct {
	Kind  LimitKind
	Queue string
	// Names are the requested alternatives; only for Cards and Terminating.
	Names []card.Name
	// OtherCards is how many further alternatives have even less free quota.
	OtherCards int
	// Requested is the request, Total the usage including it, and Limit the limit. For
	// Terminating, Total is what terminating pods hold.
	Requested, Total, Limit int64
	// GracePeriod is the longest one of the terminating pods; only for Terminating.
	GracePeriod time.Duration
}

// CardLabel returns the alternatives as users write them, "A|B".
func (i *InsufficientQuota) CardLabel() string { return joinNames(i.Names) }

// Released are charges that a check treats as released: those of pods to evict, or of the pod
// that is checked.
type Released struct {
	Cards            map[card.Name]card.Count
	MilliCPU, Memory int64
	// Evicted is set when the charges are released by evictions; they count as terminating
	// then.
	Evicted bool
}

// Add adds the charge of one more pod.
func (r *Released) Add(c *Charge) { r.addSigned(c, 1) }

// Remove undoes Add.
func (r *Released) Remove(c *Charge) { r.addSigned(c, -1) }

func (r *Released) addSigned(c *Charge, sign int64) {
	if r.Cards == nil {
		r.Cards = map[card.Name]card.Count{}
	}
	for _, amount := range c.Cards {
		r.Cards[amount.Name] += card.Count(sign) * amount.Count
	}
	r.MilliCPU += sign * c.MilliCPU
	r.Memory += sign * c.Memory
}

// FitsAnyCard is the check before a node is chosen. It returns nil if one of the requested
// cards fits, and CPU and memory too, else the first limit that is exceeded.
func (l *Ledger) FitsAnyCard(queue string, request Request) *InsufficientQuota {
	q := l.readQueue(queue)
	if s := q.insufficientOnAllCards(queue, request); s != nil {
		return s
	}
	return firstInsufficient(q.insufficientCPUMemory(queue, request, Released{}))
}

// firstInsufficient returns the first element, nil if there is none.
func firstInsufficient(all []InsufficientQuota) *InsufficientQuota {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// FitsAllCards reports whether the request fits the quota whichever of its cards it gets.
func (l *Ledger) FitsAllCards(queue string, request Request) bool {
	for _, name := range request.Names {
		if !l.FitsCard(queue, name, request.Count) {
			return false
		}
	}
	return l.FitsAnyCard(queue, request) == nil
}

func (q *queueLedger) insufficientOnAllCards(queue string, request Request) *InsufficientQuota {
	if request.Count == 0 || len(request.Names) == 0 {
		return nil
	}
	for _, name := range request.Names {
		if q.fitsCard(name, request.Count) {
			return nil
		}
	}
	// Prefer to report a card that becomes free when pods terminate. Otherwise report the card
	// with the most free quota, and among equals the one with the largest quota.
	var best card.Name
	if index := slices.IndexFunc(request.Names, func(name card.Name) bool { return q.hasRoom(name, request.Count) }); index >= 0 {
		best = request.Names[index]
	} else {
		best = slices.MaxFunc(request.Names, func(x, y card.Name) int {
			return cmp.Or(cmp.Compare(q.freeQuota(x), q.freeQuota(y)), cmp.Compare(q.limits.Cards[x], q.limits.Cards[y]))
		})
	}
	s := q.insufficientCard(queue, best, request.Count, Released{})[0]
	s.OtherCards = len(request.Names) - 1
	return &s
}

// FitsCard is the check of the predicate: it reports whether so many of one card fit the quota
// and not too many of it are terminating. It allocates no memory, and goroutines may call it in
// parallel while none writes.
func (l *Ledger) FitsCard(queue string, name card.Name, count card.Count) bool {
	return l.readQueue(queue).fitsCard(name, count)
}

// IsTerminatingOverQuota reports whether terminating pods hold more of a card than its quota.
// Then the queue gets no more of it.
func (l *Ledger) IsTerminatingOverQuota(queue string, name card.Name) bool {
	return l.readQueue(queue).isTerminatingOverQuota(name)
}

// FitsAfterRelease is the check of a pod on a node whose card is known. It returns nil if the
// request fits once released is released, else the first limit that is exceeded. Goroutines may
// call it in parallel while none writes.
func (l *Ledger) FitsAfterRelease(queue string, request Request, name card.Name, released Released) *InsufficientQuota {
	return firstInsufficient(l.InsufficientAfterRelease(queue, request, name, released))
}

// InsufficientAfterRelease returns every limit that FitsAfterRelease finds exceeded: cards,
// terminating cards, CPU and memory, in this order.
func (l *Ledger) InsufficientAfterRelease(queue string, request Request, name card.Name, released Released) []InsufficientQuota {
	q := l.readQueue(queue)
	return append(q.insufficientCard(queue, name, request.Count, released), q.insufficientCPUMemory(queue, request, released)...)
}

// freeQuota returns quota − used of a card, negative after a quota was lowered.
func (q *queueLedger) freeQuota(name card.Name) int64 {
	return int64(q.limits.Cards[name]) - int64(q.cards[name])
}

// fitsCard reports whether so many more of a card fit the quota and not too many of it are
// terminating.
func (q *queueLedger) fitsCard(name card.Name, count card.Count) bool {
	return q.limits.AnyCard || count == 0 || q.hasRoom(name, count) && !q.isTerminatingOverQuota(name)
}

// hasRoom reports whether so many more of a card fit the quota.
func (q *queueLedger) hasRoom(name card.Name, count card.Count) bool {
	return q.cards[name].Add(count) <= q.limits.Cards[name]
}

// insufficientCard returns which limits of one card are exceeded.
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

// insufficientCPUMemory returns which limits of CPU and memory are exceeded. A pod that
// requests no CPU is never refused for CPU.
func (q *queueLedger) insufficientCPUMemory(queue string, request Request, released Released) []InsufficientQuota {
	cpu := insufficientAmount(CPU, queue, q.milliCPU.clampedInt64()-released.MilliCPU, request.MilliCPU, q.limits.MilliCPU)
	return append(cpu, insufficientAmount(Memory, queue, q.memory.clampedInt64()-released.Memory, request.Memory, q.limits.Memory)...)
}

// insufficientAmount returns the limit of CPU or memory if it is exceeded.
func insufficientAmount(kind LimitKind, queue string, used, asked, limit int64) []InsufficientQuota {
	if asked <= 0 || limit == Unlimited || AddSaturating(used, asked) <= limit {
		return nil
	}
	return []InsufficientQuota{{Kind: kind, Queue: queue, Requested: asked, Total: AddSaturating(used, asked), Limit: limit}}
}

// AddSaturating adds two amounts of CPU or memory without overflow.
func AddSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
