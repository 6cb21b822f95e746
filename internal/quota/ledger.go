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
	queues map[string]*queueLedger
	pods   map[string]podEntry
}

// podEntry is what is booked for a pod, as used or as ending.
type podEntry struct {
	charge      *Charge
	terminating bool
}

// queueLedger are the running sums of one queue.
type queueLedger struct {
	limits Limits
	cards  map[card.Name]card.Count
	// listed is cards as Books handed it out, nil when they moved since.
	listedCards []card.Amount
	milliCPU    exactSum
	memory      exactSum
	// pods is how many entries of the ledger this queue pays for.
	pods int
	// ending are the cards that pods hold which end, nil when none does.
	terminating map[card.Name]terminatingCards
}

// New returns an empty account with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueLedger{}, pods: make(map[string]podEntry, pods)}
}

func (l *Ledger) ensureQueue(name string) *queueLedger {
	q, ok := l.queues[name]
	if !ok {
		q = &queueLedger{cards: map[card.Name]card.Count{}}
		l.queues[name] = q
	}
	return q
}

// emptyQueue is the use of a queue that is not known.
var emptyQueue queueLedger

// readQueue is for reading only.
func (l *Ledger) readQueue(queue string) *queueLedger {
	if q, ok := l.queues[queue]; ok {
		return q
	}
	return &emptyQueue
}

// SetLimits sets what the queue may use. A queue without limits may use
// nothing.
func (l *Ledger) SetLimits(queue string, limits Limits) { l.ensureQueue(queue).limits = limits }

// Limits returns what the queue may use.
func (l *Ledger) Limits(queue string) Limits { return l.readQueue(queue).limits }

// Charge books what a pod holds; the caller must not change c afterwards.
// Charging a pod again replaces its entry, so that a repeated or corrected
// event never counts twice; charging the same entry again costs a look-up.
func (l *Ledger) Charge(pod string, c *Charge) {
	if l.pods[pod] == (podEntry{charge: c}) {
		return
	}
	l.Release(pod)
	l.pods[pod] = podEntry{charge: c}
	q := l.ensureQueue(c.Queue)
	q.pods++
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Add(held.Count)
		q.listedCards = nil
	}
	q.milliCPU.add(c.MilliCPU)
	q.memory.add(c.Memory)
}

// Release gives back exactly what is booked for the pod, as used or as ending, and
// nothing when nothing is.
func (l *Ledger) Release(pod string) {
	booked, ok := l.pods[pod]
	if !ok {
		return
	}
	delete(l.pods, pod)
	c := booked.charge
	q := l.ensureQueue(c.Queue)
	if booked.terminating {
		q.releaseTerminating(c)
		return
	}
	q.pods--
	for _, held := range c.Cards {
		q.cards[held.Name] = q.cards[held.Name].Sub(held.Count)
		q.listedCards = nil
	}
	q.milliCPU.subtract(c.MilliCPU)
	q.memory.subtract(c.Memory)
}

// Charged returns what is booked for a pod as used, nil when nothing is.
func (l *Ledger) Charged(pod string) *Charge {
	if booked := l.pods[pod]; !booked.terminating {
		return booked.charge
	}
	return nil
}

// Retain takes the limits of every queue that is not kept, and forgets the
// queue once its pods hold nothing.
func (l *Ledger) Retain(keep func(queue string) bool) {
	for name, q := range l.queues {
		switch {
		case keep(name):
		case q.pods == 0 && q.terminating == nil:
			delete(l.queues, name)
		default:
			q.limits = Limits{}
		}
	}
}

// Used returns how many of a card the queue's pods hold.
func (l *Ledger) Used(queue string, name card.Name) card.Count { return l.readQueue(queue).cards[name] }

// UsedCPUMemory returns the CPU in thousandths and the memory in bytes that
// are counted against the queue.
func (l *Ledger) UsedCPUMemory(queue string) (milliCPU, memory int64) {
	q := l.readQueue(queue)
	return q.milliCPU.clampedInt64(), q.memory.clampedInt64()
}

// DominantShare is how much of its quota the queue uses, by the card, CPU or memory it
// uses most of: 0 for an idle queue, 1 for a full one, more for one above a
// lowered quota.
func (l *Ledger) DominantShare(queue string) float64 {
	q := l.readQueue(queue)
	share := max(usedFraction(q.milliCPU.clampedInt64(), q.limits.MilliCPU), usedFraction(q.memory.clampedInt64(), q.limits.Memory))
	for name, used := range q.cards {
		if !q.limits.AnyCard {
			share = max(share, usedFraction(int64(used), int64(q.limits.Cards[name])))
		}
	}
	return share
}

func usedFraction(used, limit int64) float64 {
	switch {
	case used <= 0 || limit == Unlimited:
		return 0
	case limit <= 0:
		return math.Inf(1)
	default:
		return float64(used) / float64(limit)
	}
}

// QueueUsage are the sums of one queue at one moment. They never change, so that
// any goroutine may keep and read them while the account moves on.
type QueueUsage struct {
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

// Snapshot returns the books of all queues, in no order. A queue whose cards did
// not move since the last call shares its list with that call's, so that a
// quiet cluster costs a few words per queue.
//
// It remembers the lists it hands out and therefore counts as writing.
func (l *Ledger) Snapshot() []QueueUsage {
	books := make([]QueueUsage, 0, len(l.queues))
	for name, q := range l.queues {
		if q.listedCards == nil {
			q.listedCards = make([]card.Amount, 0, len(q.cards))
			for name, held := range q.cards {
				if held > 0 {
					q.listedCards = append(q.listedCards, card.Amount{Name: name, Count: held})
				}
			}
		}
		books = append(books, QueueUsage{
			Queue: name, Limits: q.limits, Used: q.listedCards, MilliCPU: q.milliCPU.clampedInt64(), Memory: q.memory.clampedInt64(), Pods: q.pods,
		})
	}
	return books
}

// exactSum is a sum of amounts of CPU or memory that is exact however large they are: a pod
// may ask for nearly as much as an int64 holds, and what is charged is given back.
type exactSum struct{ high, low uint64 }

// add adds an amount, which is not negative.
func (t *exactSum) add(amount int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(max(0, amount)), 0)
	t.high += carry
}

// subtract takes back an amount that was added.
func (t *exactSum) subtract(amount int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(max(0, amount)), 0)
	t.high -= borrow
}

// clampedInt64 is the sum, at most what an int64 holds.
func (t *exactSum) clampedInt64() int64 {
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

// terminatingCards is how many of a card pods hold that end, and how long they may take: the
// longest grace period since none was ending.
type terminatingCards struct {
	count              card.Count
	longestGracePeriod time.Duration
}

// ChargeTerminating moves the cards of a pod from what is used to what is ending; those of a pod
// that was not charged before are only added there. The caller must not change c
// afterwards. within is how long the pod may take to end.
func (l *Ledger) ChargeTerminating(pod string, c *Charge, gracePeriod time.Duration) {
	if l.pods[pod] == (podEntry{c, true}) {
		return
	}
	l.Release(pod)
	if len(c.Cards) == 0 {
		return
	}
	l.pods[pod] = podEntry{c, true}
	q := l.ensureQueue(c.Queue)
	if q.terminating == nil {
		q.terminating = map[card.Name]terminatingCards{}
	}
	for _, held := range c.Cards {
		e := q.terminating[held.Name]
		q.terminating[held.Name] = terminatingCards{count: e.count.Add(held.Count), longestGracePeriod: max(e.longestGracePeriod, gracePeriod)}
	}
}

// releaseTerminating gives back what a pod held that ended.
func (q *queueLedger) releaseTerminating(c *Charge) {
	for _, held := range c.Cards {
		e := q.terminating[held.Name]
		if e.count = e.count.Sub(held.Count); e.count == 0 {
			delete(q.terminating, held.Name)
		} else {
			q.terminating[held.Name] = e
		}
	}
	if len(q.terminating) == 0 {
		q.terminating = nil
	}
}

// Terminating returns how many of a card the queue's pods hold that end, and how long
// that may take at most.
func (l *Ledger) Terminating(queue string, name card.Name) (card.Count, time.Duration) {
	e := l.readQueue(queue).terminating[name]
	return e.count, e.longestGracePeriod
}

// EvictionHeadroom returns how many of a card may begin to end before the queue has to wait
// for them: more than that are evicted in vain for a pod of the same queue.
func (l *Ledger) EvictionHeadroom(queue string, name card.Name) card.Count {
	q := l.readQueue(queue)
	if q.limits.AnyCard {
		return card.MaxCount
	}
	return q.limits.Cards[name].Sub(q.terminating[name].count)
}

// isTerminatingOverQuota tells that the queue gets no more of a card since too many are ending.
func (q *queueLedger) isTerminatingOverQuota(name card.Name) bool {
	return q.terminating != nil && !q.limits.AnyCard && q.terminating[name].count > q.limits.Cards[name]
}
