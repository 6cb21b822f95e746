// Package quota keeps the books of card quota: what every queue may use,
// what its pods hold, and whether a request still fits.
//
// The package is pure and knows nothing of Kubernetes objects. All sums are
// integers; every change goes through Charge, End and Release, so that a number can
// only move together with the ledger entry that explains it.
package quota

import (
	"math"
	"math/bits"
	"time"

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
	queues map[string]*queueUsage
	pods   map[string]entry
}

// entry is what is booked for a pod, as used or as ending.
type entry struct {
	charge *Charge
	ending bool
}

// queueUsage are the running sums of one queue.
type queueUsage struct {
	limits Limits
	cards  map[card.Name]card.Count
	// listed is cards as Books handed it out, nil when they moved since.
	listed   []card.Amount
	milliCPU total
	memory   total
	// pods is how many entries of the ledger this queue pays for.
	pods int
	// ending are the cards that pods hold which end, nil when none does.
	ending map[card.Name]ending
}

// New returns an empty account with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueUsage{}, pods: make(map[string]entry, pods)}
}

func (a *Ledger) queue(name string) *queueUsage {
	q, ok := a.queues[name]
	if !ok {
		q = &queueUsage{cards: map[card.Name]card.Count{}}
		a.queues[name] = q
	}
	return q
}

// unused is the use of a queue that is not known.
var unused queueUsage

// usage is for reading only.
func (a *Ledger) usage(queue string) *queueUsage {
	if q, ok := a.queues[queue]; ok {
		return q
	}
	return &unused
}

// SetLimits sets what the queue may use. A queue without limits may use
// nothing.
func (a *Ledger) SetLimits(queue string, limits Limits) { a.queue(queue).limits = limits }

// Limits returns what the queue may use.
func (a *Ledger) Limits(queue string) Limits { return a.usage(queue).limits }

// Charge books what a pod holds; the caller must not change c afterwards.
// Charging a pod again replaces its entry, so that a repeated or corrected
// event never counts twice; charging the same entry again costs a look-up.
func (a *Ledger) Charge(pod string, c *Charge) {
	if a.pods[pod] == (entry{charge: c}) {
		return
	}
	a.Release(pod)
	a.pods[pod] = entry{charge: c}
	q := a.queue(c.Queue)
	q.pods++
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Add(held.Count)
		q.listed = nil
	}
	q.milliCPU.add(c.MilliCPU)
	q.memory.add(c.Memory)
}

// Release gives back exactly what is booked for the pod, as used or as ending, and
// nothing when nothing is.
func (a *Ledger) Release(pod string) {
	booked, ok := a.pods[pod]
	if !ok {
		return
	}
	delete(a.pods, pod)
	c := booked.charge
	q := a.queue(c.Queue)
	if booked.ending {
		q.releaseEnding(c)
		return
	}
	q.pods--
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Sub(held.Count)
		q.listed = nil
	}
	q.milliCPU.subtract(c.MilliCPU)
	q.memory.subtract(c.Memory)
}

// Charged returns what is booked for a pod as used, nil when nothing is.
func (a *Ledger) Charged(pod string) *Charge {
	if booked := a.pods[pod]; !booked.ending {
		return booked.charge
	}
	return nil
}

// Retain takes the limits of every queue that is not kept, and forgets the
// queue once its pods hold nothing.
func (a *Ledger) Retain(keep func(queue string) bool) {
	for name, q := range a.queues {
		switch {
		case keep(name):
		case q.pods == 0 && q.ending == nil:
			delete(a.queues, name)
		default:
			q.limits = Limits{}
		}
	}
}

// Used returns how many of a card the queue's pods hold.
func (a *Ledger) Used(queue string, name card.Name) card.Count { return a.usage(queue).cards[name] }

// UsedCPUMemory returns the CPU in thousandths and the memory in bytes that
// are counted against the queue.
func (a *Ledger) UsedCPUMemory(queue string) (milliCPU, memory int64) {
	q := a.usage(queue)
	return q.milliCPU.amount(), q.memory.amount()
}

// Share is how much of its quota the queue uses, by the card, CPU or memory it
// uses most of: 0 for an idle queue, 1 for a full one, more for one above a
// lowered quota.
func (a *Ledger) Share(queue string) float64 {
	q := a.usage(queue)
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

// Books are the sums of one queue at one moment. They never change, so that
// any goroutine may keep and read them while the account moves on.
type Books struct {
	Queue  string
	Limits Limits
	// Used lists the cards that the queue's pods hold, none of them 0, in no
	// order.
	Used []card.Amount
	// MilliCPU and Memory are what is counted against the limits.
	MilliCPU, Memory int64
	// Pods is how many pods the queue pays for, with cards or without.
	Pods int
}

// Books returns the books of all queues, in no order. A queue whose cards did
// not move since the last call shares its list with that call's, so that a
// quiet cluster costs a few words per queue.
//
// It remembers the lists it hands out and therefore counts as writing.
func (a *Ledger) Books() []Books {
	books := make([]Books, 0, len(a.queues))
	for name, q := range a.queues {
		if q.listed == nil {
			q.listed = make([]card.Amount, 0, len(q.cards))
			for name, held := range q.cards {
				if held > 0 {
					q.listed = append(q.listed, card.Amount{Name: name, Count: held})
				}
			}
		}
		books = append(books, Books{
			Queue: name, Limits: q.limits, Used: q.listed, MilliCPU: q.milliCPU.amount(), Memory: q.memory.amount(), Pods: q.pods,
		})
	}
	return books
}

// total is a sum of amounts of CPU or memory that is exact however large they are: a pod
// may ask for nearly as much as an int64 holds, and what is charged is given back.
type total struct{ high, low uint64 }

// add adds an amount, which is not negative.
func (t *total) add(amount int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(max(0, amount)), 0)
	t.high += carry
}

// subtract takes back an amount that was added.
func (t *total) subtract(amount int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(max(0, amount)), 0)
	t.high -= borrow
}

// amount is the sum, at most what an int64 holds.
func (t *total) amount() int64 {
	if t.high > 0 || t.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t.low)
}

// A pod that is being deleted gives its quota back at once, as in Volcano, so that
// what takes its place can wait for its cards. It holds the cards until it has
// ended, for as long as its owner chose, and whoever deletes and makes pods again
// and again would hold ever more. So the account knows what is ending as well, and
// a queue may be given a card only while what is ending of that card does not
// exceed its quota.
//
// Then no queue ever holds more than twice its quota. What it holds of a card is
// used + ending. Only a placement adds to that, by the cards of the pod; a pod that
// begins to end only moves from one sum to the other, one that is gone lessens
// them. A placement is made when, with the pod, used ≤ quota, and when
// ending ≤ quota. So right after it used + ending ≤ 2 × quota, and until the next
// one it does not grow. A whole queue may be restarted at once; it is the second
// restart within the first one's grace period that waits.

// ending is how many of a card pods hold that end, and how long they may take: the
// longest grace period since none was ending.
type ending struct {
	count   card.Count
	longest time.Duration
}

// End moves the cards of a pod from what is used to what is ending; those of a pod
// that was not charged before are only added there. The caller must not change c
// afterwards. within is how long the pod may take to end.
func (a *Ledger) End(pod string, c *Charge, within time.Duration) {
	if a.pods[pod] == (entry{c, true}) {
		return
	}
	a.Release(pod)
	if len(c.Cards) == 0 {
		return
	}
	a.pods[pod] = entry{c, true}
	q := a.queue(c.Queue)
	if q.ending == nil {
		q.ending = map[card.Name]ending{}
	}
	for _, held := range c.Cards {
		e := q.ending[held.Name]
		q.ending[held.Name] = ending{count: e.count.Add(held.Count), longest: max(e.longest, within)}
	}
}

// releaseEnding gives back what a pod held that ended.
func (q *queueUsage) releaseEnding(c *Charge) {
	for _, held := range c.Cards {
		e := q.ending[held.Name]
		if e.count = e.count.Sub(held.Count); e.count == 0 {
			delete(q.ending, held.Name)
		} else {
			q.ending[held.Name] = e
		}
	}
	if len(q.ending) == 0 {
		q.ending = nil
	}
}

// Ending returns how many of a card the queue's pods hold that end, and how long
// that may take at most.
func (a *Ledger) Ending(queue string, name card.Name) (card.Count, time.Duration) {
	e := a.usage(queue).ending[name]
	return e.count, e.longest
}

// MayEnd returns how many of a card may begin to end before the queue has to wait
// for them: more than that are evicted in vain for a pod of the same queue.
func (a *Ledger) MayEnd(queue string, name card.Name) card.Count {
	q := a.usage(queue)
	if q.limits.AnyCard {
		return card.MaxCount
	}
	return q.limits.Cards[name].Sub(q.ending[name].count)
}

// crowded tells that the queue gets no more of a card since too many are ending.
func (q *queueUsage) crowded(name card.Name) bool {
	return q.ending != nil && !q.limits.AnyCard && q.ending[name].count > q.limits.Cards[name]
}
