// Package quota keeps the books of card quota: what every queue may use,
// what its pods hold, and whether a request still fits.
//
// The package is pure and knows nothing of Kubernetes objects. All sums are
// integers; every change goes through Charge and Refund, so that a number can
// only move together with the ledger entry that explains it.
package quota

import (
	"math"

	"cardquota.dev/operator/internal/card"
)

// Unlimited is a limit that nothing exceeds.
const Unlimited int64 = math.MaxInt64

// Limits are what a queue may use.
type Limits struct {
	// Cards is the quota per card name; a missing name is 0.
	Cards card.Quota
	// AnyCard lifts the card limits: a queue without a quota of its own in a
	// cluster that is being migrated.
	AnyCard bool
	// MilliCPU is the CPU limit in thousandths of a core, or Unlimited.
	MilliCPU int64
	// Memory is the memory limit in bytes, or Unlimited.
	Memory int64
}

// Charge is what one pod holds and who pays for it.
type Charge struct {
	// Queue pays; "" means that no queue does.
	Queue string
	// Cards are the cards held. A pod holds one amount; it holds several only
	// when it was placed past the rules or when it is uncertain which card its
	// node has, and then every possible one is held.
	Cards []card.Amount
	// MilliCPU and Memory are counted against the queue's limits.
	MilliCPU, Memory int64
}

// Ledger is the account of all queues at one moment. It is not safe for
// concurrent writing; any number of goroutines may read while nobody writes.
type Ledger struct {
	queues map[string]*queueBooks
	ledger map[string]*Charge
	// ended is the ledger of the pods that end, nil before the first one does.
	ended map[string]*Charge
}

// queueBooks are the running sums of one queue.
type queueBooks struct {
	limits Limits
	cards  map[card.Name]card.Count
	// listed is cards as Books handed it out, nil when they moved since.
	listed   []card.Amount
	milliCPU total
	memory   total
	// pods is how many entries of the ledger this queue pays for.
	pods int
	// ending are the cards that pods hold which end, nil when none does, and leaving
	// how many pods that is.
	ending  map[card.Name]ending
	leaving int
}

// New returns an empty account with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueBooks{}, ledger: make(map[string]*Charge, pods)}
}

func (a *Ledger) queue(name string) *queueBooks {
	q, ok := a.queues[name]
	if !ok {
		q = &queueBooks{cards: map[card.Name]card.Count{}}
		a.queues[name] = q
	}
	return q
}

// SetLimits sets what the queue may use. A queue without limits may use
// nothing.
func (a *Ledger) SetLimits(queue string, limits Limits) { a.queue(queue).limits = limits }

// Limits returns what the queue may use.
func (a *Ledger) Limits(queue string) Limits {
	if q, ok := a.queues[queue]; ok {
		return q.limits
	}
	return Limits{}
}

// Charge books what a pod holds; the caller must not change c afterwards.
// Charging a pod again replaces its entry, so that a repeated or corrected
// event never counts twice; charging the same entry again costs a look-up.
func (a *Ledger) Charge(pod string, c *Charge) {
	if a.ledger[pod] == c {
		return
	}
	a.Gone(pod)
	a.Refund(pod)
	a.ledger[pod] = c
	q := a.queue(c.Queue)
	q.pods++
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Add(held.Count)
		q.listed = nil
	}
	q.milliCPU.add(c.MilliCPU)
	q.memory.add(c.Memory)
}

// Refund gives back exactly what was charged for the pod, and nothing when
// nothing was.
func (a *Ledger) Refund(pod string) {
	c, ok := a.ledger[pod]
	if !ok {
		return
	}
	delete(a.ledger, pod)
	q := a.queue(c.Queue)
	q.pods--
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Sub(held.Count)
		q.listed = nil
	}
	q.milliCPU.subtract(c.MilliCPU)
	q.memory.subtract(c.Memory)
}

// Charged returns the ledger entry of a pod, nil when it has none.
func (a *Ledger) Charged(pod string) *Charge { return a.ledger[pod] }

// Retain takes the limits of every queue that is not kept, and forgets the
// queue once its pods hold nothing.
func (a *Ledger) Retain(keep func(queue string) bool) {
	for name, q := range a.queues {
		switch {
		case keep(name):
		case q.pods == 0 && q.leaving == 0:
			delete(a.queues, name)
		default:
			q.limits = Limits{}
		}
	}
}

// Used returns how many of a card the queue's pods hold.
func (a *Ledger) Used(queue string, name card.Name) card.Count {
	if q, ok := a.queues[queue]; ok {
		return q.cards[name]
	}
	return 0
}

// UsedCPUMemory returns the CPU in thousandths and the memory in bytes that
// are counted against the queue.
func (a *Ledger) UsedCPUMemory(queue string) (milliCPU, memory int64) {
	if q, ok := a.queues[queue]; ok {
		return q.milliCPU.amount(), q.memory.amount()
	}
	return 0, 0
}

// Share is how much of its quota the queue uses, by the card, CPU or memory it
// uses most of: 0 for an idle queue, 1 for a full one, more for one above a
// lowered quota.
func (a *Ledger) Share(queue string) float64 {
	q, ok := a.queues[queue]
	if !ok {
		return 0
	}
	share := max(part(q.milliCPU.amount(), q.limits.MilliCPU), part(q.memory.amount(), q.limits.Memory))
	for name, used := range q.cards {
		if !q.limits.AnyCard {
			share = max(share, part(int64(used), int64(q.limits.Cards[name])))
		}
	}
	return share
}

func part(used, limit int64) float64 {
	switch {
	case used <= 0 || limit == Unlimited:
		return 0
	case limit <= 0:
		return math.Inf(1)
	default:
		return float64(used) / float64(limit)
	}
}
