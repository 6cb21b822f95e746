// Package quota keeps a ledger of card quota: what every queue may use, what its pods use, and
// whether a request still fits.
//
// The package is pure and knows no Kubernetes objects. All sums are integers. Every change goes
// through Charge, ChargeTerminating and Release, so each sum always matches its entries.
package quota

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

// Ledger has the charges of all queues. Any number of goroutines may read it while none
// writes.
type Ledger struct {
	queues map[string]*queueLedger
	pods   map[string]podEntry
	// positions are where the queues are in their tree.
	positions map[string]position
	// root is above all queues of a tree. Its limits are the inventory. Flat queues have none above them.
	root *queueLedger
	// kept are the charges of Keep by pod.
	kept map[string]*Charge
}

// podEntry is the charge of a pod, and whether the pod is terminating.
type podEntry struct {
	charge      *Charge
	terminating bool
	gracePeriod time.Duration
}

// New returns an empty ledger with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueLedger{}, pods: make(map[string]podEntry, pods)}
}

// ensureQueue returns the sums of a queue, and adds the queue to the ledger if it is missing.
func (l *Ledger) ensureQueue(name string) *queueLedger {
	q, ok := l.queues[name]
	if !ok {
		q = &queueLedger{name: name, usage: usage{used: newSums()}, treeSums: newTreeSums()}
		l.queues[name] = q
		l.link(q)
	}
	return q
}

// readQueue returns the sums of a queue, for reading only: a queue that the ledger does not know gets empty
// ones, and is not added, so that reads may run in parallel.
func (l *Ledger) readQueue(queue string) *queueLedger {
	if q, ok := l.queues[queue]; ok {
		return q
	}
	return &queueLedger{name: queue}
}

// Charge records what a pod uses. The caller must not change c afterwards. A second charge of
// the same pod replaces the first, so a repeated event never counts twice.
func (l *Ledger) Charge(pod string, c *Charge) {
	if l.pods[pod] == (podEntry{charge: c}) { // the same charge again, which never changes
		return
	}
	l.Release(pod)
	l.pods[pod] = podEntry{charge: c}
	l.addCharge(c)
}

// addCharge adds a charge to the sums of its queue and all ancestors.
func (l *Ledger) addCharge(c *Charge) {
	// A tree admits a pod only if it fits every ancestor, so each of them counts it.
	q := l.ensureQueue(c.Queue)
	q.pods++
	for at := q; at != nil; at = at.parent {
		if part := at.countedPart(c); part != nil {
			at.add(part)
		}
	}

	q.updateUnusedGuarantees(c)
}

// Release removes the charge of a pod, terminating or not. It does nothing for a pod without
// one.
func (l *Ledger) Release(pod string) {
	entry, ok := l.pods[pod]
	if !ok {
		return
	}

	delete(l.pods, pod)
	c := entry.charge
	q := l.ensureQueue(c.Queue)

	// ChargeTerminating took the pod out of the usage already. It is counted only as terminating.
	if entry.terminating {
		for at := q; at != nil; at = at.parent {
			at.terminating.subtract(c)
		}
		return
	}

	// The sums must lose exactly what addCharge added, whatever node or labels the pod has now. The part is
	// nil where root counted nothing.
	q.pods--
	for at := q; at != nil; at = at.parent {
		if part := at.countedPart(c); part != nil {
			at.subtract(part)
		}
	}

	q.updateUnusedGuarantees(c)
}

// Charged returns the charge of a pod, nil if it has none or is terminating.
func (l *Ledger) Charged(pod string) *Charge {
	if entry := l.pods[pod]; !entry.terminating {
		return entry.charge
	}
	return nil
}

// Used returns how many of a card the queue's pods use.
func (l *Ledger) Used(queue string, name card.Name) card.Count {
	return l.readQueue(queue).used.cards[name]
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
		if q.listedCards == nil { // a charge of cards was added or removed
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

// link sets the position and the parent of a queue: its sums count in those of its parent. Flat queues
// have no root, so their parent is nil.
func (l *Ledger) link(q *queueLedger) {
	q.position = l.positions[q.name]
	q.parent = l.root
	if q.position.parent != "" {
		q.parent = l.ensureQueue(q.position.parent)
	}
}

// DominantShare returns the largest used ÷ limit of the queue's cards, CPU and memory: 0 for an
// idle queue, 1 for a full one, more after a quota was lowered. What is not limited does not count.
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

// AboveDeserved and AboveGuarantee return how much of a resource a queue and all queues below it
// use beyond what it deserves, and beyond its guarantee. Both are negative below it. A queue that deserves
// any amount is never above it: 0.
func (l *Ledger) AboveDeserved(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	if q.limits.deservesAny(resource) {
		return 0
	}
	return q.used.amountOf(resource) - q.limits.deserved(resource)
}

// AboveGuarantee is documented at AboveDeserved.
func (l *Ledger) AboveGuarantee(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	return q.used.amountOf(resource) - q.limits.Guarantee[resource]
}

// LimitsCards reports whether a queue or one of its ancestors has a quota for cards.
func (l *Ledger) LimitsCards(queue string) bool { return l.readQueue(queue).limitsCards() }

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

// ChargeTerminating moves the cards of a pod from used to terminating, and releases its CPU and memory. A
// pod without a charge is only added to terminating. The caller must not change c afterwards.
func (l *Ledger) ChargeTerminating(pod string, c *Charge, gracePeriod time.Duration) {
	if entry := l.pods[pod]; entry.charge == c && entry.terminating {
		return
	}
	l.Release(pod)
	if len(c.Cards) == 0 {
		return
	}
	l.pods[pod] = podEntry{c, true, gracePeriod}
	l.ensureQueue(c.Queue).addTerminating(c, gracePeriod)
}

// Terminating returns how many of a card terminating pods of the queue use, and the longest
// grace period among them.
func (l *Ledger) Terminating(queue string, name card.Name) (card.Count, time.Duration) {
	e := l.readQueue(queue).terminating[name]
	return e.count, e.longestGracePeriod
}
