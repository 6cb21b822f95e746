// Package quota keeps a ledger of card quota: what every queue may use, what its pods use, and
// whether a request still fits.
//
// The package is pure and knows no Kubernetes objects. All sums are integers. Every change goes
// through Charge, ChargeTerminating and Release, so each sum always matches its entries.
package quota

import (
	"math"
	"math/bits"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Ledger has the charges of all queues. Any number of goroutines may read it while none
// writes.
type Ledger struct {
	queues map[string]*queueLedger
	pods   map[string]podEntry
	// positions are where the queues are in their tree, nil if the queues are flat.
	positions map[string]position
	// root is above all queues of a tree. Its limits are the inventory.
	root *queueLedger
	// kept are the charges of Keep by pod.
	kept map[string]*Charge
	// averages is what each queue borrowed of each card, see ObserveBorrowing.
	averages map[string]map[card.Name]float64
}

// podEntry is the charge of a pod, and whether the pod is terminating.
type podEntry struct {
	charge      *Charge
	terminating bool
	gracePeriod time.Duration
}

// queueLedger has the sums of one queue, and of all queues below it in a tree.
type queueLedger struct {
	name   string
	limits Limits
	// parent is nil for a flat queue, and for the root of a tree.
	parent *queueLedger
	isRoot bool
	used   sums
	// treeSums are empty for a flat queue, and nothing is counted there.
	treeSums
	// listedCards are the cards of used as Snapshot returned it, nil after a change.
	listedCards []card.Amount
	// share is that of CompareShares, as long as isShareKnown. Each comparison would visit all cards.
	share        treeShare
	isShareKnown bool
	// pods is how many pods are charged to the queue.
	pods int
	// terminating are the cards of terminating pods, nil when there are none.
	terminating map[card.Name]terminatingCards
}

// New returns an empty ledger with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueLedger{}, pods: make(map[string]podEntry, pods)}
}

func (l *Ledger) ensureQueue(name string) *queueLedger {
	q, ok := l.queues[name]
	if !ok {
		q = &queueLedger{name: name, used: newSums()}
		l.queues[name] = q
		l.link(q)
	}
	return q
}

// readQueue returns the sums of a queue, for reading only.
func (l *Ledger) readQueue(queue string) *queueLedger {
	if q, ok := l.queues[queue]; ok {
		return q
	}
	return &queueLedger{name: queue}
}

// SetLimits sets what the queue may use. A queue without limits may use nothing.
func (l *Ledger) SetLimits(queue string, limits Limits) {
	q := l.ensureQueue(queue)
	q.limits = limits
	q.isShareKnown = false
}

// Charge records what a pod uses. The caller must not change c afterwards. A second charge of
// the same pod replaces the first, so a repeated event never counts twice.
func (l *Ledger) Charge(pod string, c *Charge) {
	if l.pods[pod] == (podEntry{charge: c}) {
		return
	}
	l.Release(pod)
	l.pods[pod] = podEntry{charge: c}
	l.addCharge(c)
}

// includesCharge reports whether the sums of a queue of the path include a charge. root
// includes only its inventory.
func (l *Ledger) includesCharge(at *queueLedger, c *Charge) bool {
	return at != nil && (at != l.root || !c.IsOffInventory)
}

// countedAt returns what of a charge the sums of a queue of the path include.
func (l *Ledger) countedAt(at *queueLedger, c *Charge) *Charge {
	if at == l.root {
		return c.inInventory()
	}
	return c
}

// addCharge adds a charge to the sums of its queue and all ancestors.
func (l *Ledger) addCharge(c *Charge) {
	// A tree admits a pod only if it fits every ancestor, so each of them counts it.
	q := l.ensureQueue(c.Queue)
	q.pods++
	for at := q; l.includesCharge(at, c); at = at.parent {
		counted := l.countedAt(at, c)
		at.used.add(counted)
		at.forgetDerived(counted)
		// Flat queues deserve their quota, so only a tree bounds what cannot be reclaimed.
		if l.root != nil && c.IsUnreclaimable {
			at.unreclaimable.add(counted)
		}
	}

	q.updateUnused(c)
}

// forgetDerived forgets what was computed from the sums before a charge changed them.
func (q *queueLedger) forgetDerived(c *Charge) {
	q.isShareKnown = false
	if len(c.Cards) > 0 {
		q.listedCards = nil
	}
}

// Release removes the charge of a pod, terminating or not. It does nothing for a pod without
// one.
func (l *Ledger) Release(pod string) {
	booked, ok := l.pods[pod]
	if !ok {
		return
	}

	delete(l.pods, pod)
	c := booked.charge
	q := l.ensureQueue(c.Queue)

	// ChargeTerminating took the pod out of the usage already. It is counted only as terminating.
	if booked.terminating {
		for at := q; at != nil; at = at.parent {
			at.releaseTerminating(c)
		}
		return
	}

	// The sums must lose exactly what addCharge added, whatever node or labels the pod has now.
	q.pods--
	for at := q; l.includesCharge(at, c); at = at.parent {
		counted := l.countedAt(at, c)
		at.used.subtract(counted)
		at.forgetDerived(counted)
		if l.root != nil && c.IsUnreclaimable {
			at.unreclaimable.subtract(counted)
		}
	}

	q.updateUnused(c)
}

// Charged returns the charge of a pod, nil if it has none or is terminating.
func (l *Ledger) Charged(pod string) *Charge {
	if booked := l.pods[pod]; !booked.terminating {
		return booked.charge
	}
	return nil
}

// Retain removes the limits of every queue that is not kept. It forgets the queue once none of
// its pods uses anything, nor any pod of a queue below it.
func (l *Ledger) Retain(keep func(queue string) bool) {
	// A deleted Queue keeps its pods until they end. Their ancestors must go on counting them.
	hasUsed := map[string]bool{} // queues with a queue in use below them
	for _, q := range l.queues {
		for at := q.parent; q.isInUse() && at != nil; at = at.parent {
			hasUsed[at.name] = true
		}
	}

	for name, q := range l.queues {
		if keep(name) {
			continue
		}
		l.dropLimits(q)
		if !q.isInUse() && !hasUsed[name] {
			delete(l.queues, name)
		}
	}
}

// Used returns how many of a card the queue's pods use.
func (l *Ledger) Used(queue string, name card.Name) card.Count {
	return l.readQueue(queue).used.cards[name]
}

// UsedCPUMemory returns the CPU, in millicores, and the memory, in bytes, that are charged to
// the queue.
func (l *Ledger) UsedCPUMemory(queue string) (milliCPU, memory int64) {
	q := l.readQueue(queue)
	return q.used.amountOf(CPU), q.used.amountOf(Memory)
}

// DominantShare returns the largest used ÷ limit of the queue's cards, CPU and memory: 0 for an
// idle queue, 1 for a full one, more after a quota was lowered.
func (l *Ledger) DominantShare(queue string) float64 {
	q := l.readQueue(queue)
	share := max(usedFraction(q.used.amountOf(CPU), q.limits.MilliCPU), usedFraction(q.used.amountOf(Memory), q.limits.Memory))
	for name, used := range q.used.cards {
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

// QueueUsage is what one queue uses at one moment. It never changes, so any goroutine may keep
// it.
type QueueUsage struct {
	Queue  string
	Limits Limits
	// Used lists the cards that the queue's pods use, in no order and without zeros.
	Used []card.Amount
	// MilliCPU and Memory are counted against the limits.
	MilliCPU, Memory int64
	// Pods is how many pods are charged to the queue, with or without cards.
	Pods int
}

// Snapshot returns the usage of all queues, in no order. A queue whose cards did not change
// shares its list with the previous call. Snapshot stores these lists, so it counts as a write.
func (l *Ledger) Snapshot() []QueueUsage {
	usages := make([]QueueUsage, 0, len(l.queues))

	// Each session publishes all queues, and most of their cards did not change since the last
	// one.
	for name, q := range l.queues {
		if q.listedCards == nil {
			q.listedCards = make([]card.Amount, 0, len(q.used.cards))
			for name, used := range q.used.cards {
				if used > 0 {
					q.listedCards = append(q.listedCards, card.Amount{Name: name, Count: used})
				}
			}
		}

		usages = append(usages, QueueUsage{
			Queue: name, Limits: q.limits, Used: q.listedCards, MilliCPU: q.used.amountOf(CPU), Memory: q.used.amountOf(Memory), Pods: q.pods,
		})
	}

	return usages
}

// exactSum is a sum that cannot overflow. A pod may request nearly the largest int64, and its
// release must restore the sum.
type exactSum struct{ high, low uint64 }

// add adds an amount that is not negative.
func (e *exactSum) add(amount int64) {
	var carry uint64
	e.low, carry = bits.Add64(e.low, uint64(max(0, amount)), 0)
	e.high += carry
}

// subtract removes an amount that was added.
func (e *exactSum) subtract(amount int64) {
	var borrow uint64
	e.low, borrow = bits.Sub64(e.low, uint64(max(0, amount)), 0)
	e.high -= borrow
}

// clampedInt64 returns the sum, at most the largest int64.
func (e *exactSum) clampedInt64() int64 {
	if e.high > 0 || e.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(e.low)
}

// A pod releases its quota as soon as it is deleted, as in Volcano, so that its successor can
// wait for its cards. The cards stay in use until the pod has ended. A user who deletes and
// creates pods again and again could use more and more cards. So the ledger counts terminating
// cards too, and a queue gets more of a card only while its terminating cards do not exceed its
// quota.
//
// Then no queue ever uses more than twice its quota. Its pods use used + terminating. Only a
// placement adds to that sum. A deletion moves cards from used to terminating, and the end of a
// pod removes them. A placement requires used ≤ quota, including the pod, and terminating ≤
// quota. So used + terminating ≤ 2 × quota after it, and the sum does not grow until the next
// one. A user may restart a whole queue at once. A second restart within the first grace period
// waits.

// terminatingCards is how many of a card terminating pods use, and the longest grace period
// among them.
type terminatingCards struct {
	count              card.Count
	longestGracePeriod time.Duration
}

// ChargeTerminating moves the cards of a pod from used to terminating. A pod without a charge
// is only added to terminating. The caller must not change c afterwards.
func (l *Ledger) ChargeTerminating(pod string, c *Charge, gracePeriod time.Duration) {
	if booked := l.pods[pod]; booked.charge == c && booked.terminating {
		return
	}
	l.Release(pod)
	if len(c.Cards) == 0 {
		return
	}
	l.pods[pod] = podEntry{c, true, gracePeriod}
	l.addTerminating(c, gracePeriod)
}

// addTerminating adds the cards of a terminating pod to the sums of its queue and all ancestors.
func (l *Ledger) addTerminating(c *Charge, gracePeriod time.Duration) {
	for q := l.ensureQueue(c.Queue); q != nil; q = q.parent {
		if q.terminating == nil {
			q.terminating = map[card.Name]terminatingCards{}
		}
		for _, amount := range c.Cards {
			e := q.terminating[amount.Name]
			q.terminating[amount.Name] = terminatingCards{count: e.count.Add(amount.Count), longestGracePeriod: max(e.longestGracePeriod, gracePeriod)}
		}
	}
}

// releaseTerminating removes the cards of a terminating pod.
func (q *queueLedger) releaseTerminating(c *Charge) {
	for _, amount := range c.Cards {
		e := q.terminating[amount.Name]
		e.count = e.count.Sub(amount.Count)
		if e.count == 0 {
			delete(q.terminating, amount.Name)
		} else {
			q.terminating[amount.Name] = e
		}
	}

	if len(q.terminating) == 0 {
		q.terminating = nil
	}
}

// Terminating returns how many of a card terminating pods of the queue use, and the longest
// grace period among them.
func (l *Ledger) Terminating(queue string, name card.Name) (card.Count, time.Duration) {
	return l.readQueue(queue).terminatingOf(name)
}

func (q *queueLedger) terminatingOf(name card.Name) (card.Count, time.Duration) {
	e := q.terminating[name]
	return e.count, e.longestGracePeriod
}

// EvictionHeadroom returns how many of a card may be evicted for a pod of the same queue.
// Beyond that the pod would have to wait for terminating pods anyway.
func (l *Ledger) EvictionHeadroom(queue string, name card.Name) card.Count {
	headroom := card.MaxCount
	for q := l.readQueue(queue); q != nil && q != l.root; q = q.parent {
		if !q.limits.AnyCard {
			headroom = min(headroom, q.limits.Cards[name].Sub(q.terminating[name].count))
		}
	}
	return headroom
}

// isTerminatingOverQuota reports whether terminating pods use more of a card than its quota, in
// the queue or an ancestor.
func (q *queueLedger) isTerminatingOverQuota(name card.Name) bool {
	_, isExceeded := q.checkTerminating(Resource(name), &noRelease)
	return isExceeded
}
