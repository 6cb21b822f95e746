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

// queueLedger has the sums of one queue, and of all queues below it in a tree.
type queueLedger struct {
	name string
	usage
	// parent is nil for a flat queue, and for the root of a tree.
	parent *queueLedger
	isRoot bool
	treeSums
	queueOrder
	// listedCards are the cards of used as Snapshot returned it, nil after a change.
	listedCards []card.Amount
	// pods is how many pods are charged to the queue.
	pods        int
	terminating terminatingSums
}

// New returns an empty ledger with room for the given number of pods.
func New(pods int) *Ledger {
	return &Ledger{queues: map[string]*queueLedger{}, pods: make(map[string]podEntry, pods)}
}

func (l *Ledger) ensureQueue(name string) *queueLedger {
	q, ok := l.queues[name]
	if !ok {
		q = &queueLedger{name: name, usage: usage{used: newSums()}, treeSums: newTreeSums()}
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

// counted returns what of a charge the sums of a queue of the path include, nil for nothing: root counts
// its inventory only.
func (q *queueLedger) counted(c *Charge) *Charge {
	switch {
	case !q.isRoot:
		return c
	case c.IsOffInventory:
		return nil
	}
	return c.inInventory()
}

// addCharge adds a charge to the sums of its queue and all ancestors.
func (l *Ledger) addCharge(c *Charge) {
	// A tree admits a pod only if it fits every ancestor, so each of them counts it.
	q := l.ensureQueue(c.Queue)
	q.pods++
	for at := q; at != nil; at = at.parent {
		if counted := at.counted(c); counted != nil {
			at.add(counted)
		}
	}

	q.updateUnused(c)
}

// add adds a charge to the sums of the queue alone.
func (q *queueLedger) add(c *Charge) {
	q.used.add(c)
	if c.IsUnreclaimable {
		q.unreclaimable.add(c)
	}
	q.forgetDerived(c)
}

// subtract removes a charge that was added.
func (q *queueLedger) subtract(c *Charge) {
	q.used.subtract(c)
	if c.IsUnreclaimable {
		q.unreclaimable.subtract(c)
	}
	q.forgetDerived(c)
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
			at.terminating.subtract(c)
		}
		return
	}

	// The sums must lose exactly what addCharge added, whatever node or labels the pod has now.
	q.pods--
	for at := q; at != nil; at = at.parent {
		if counted := at.counted(c); counted != nil {
			at.subtract(counted)
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
