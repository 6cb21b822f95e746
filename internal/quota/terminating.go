package quota

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

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

// terminatingSums are the cards of terminating pods, without zeros.
type terminatingSums map[card.Name]terminatingCards

// terminatingCards is how many of a card terminating pods use, and the longest grace period
// among them.
type terminatingCards struct {
	count              card.Count
	longestGracePeriod time.Duration
}

// add adds the cards of a pod.
func (s *terminatingSums) add(c *Charge, gracePeriod time.Duration) {
	if *s == nil {
		*s = terminatingSums{}
	}
	for _, amount := range c.Cards {
		e := (*s)[amount.Name]
		(*s)[amount.Name] = terminatingCards{count: e.count.Add(amount.Count), longestGracePeriod: max(e.longestGracePeriod, gracePeriod)}
	}
}

// subtract removes the cards of a pod that were added.
func (s terminatingSums) subtract(c *Charge) {
	for _, amount := range c.Cards {
		e := s[amount.Name]
		e.count = e.count.Sub(amount.Count)
		if e.count == 0 {
			delete(s, amount.Name)
		} else {
			s[amount.Name] = e
		}
	}
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
	l.ensureQueue(c.Queue).addTerminating(c, gracePeriod)
}

// addTerminating adds the cards of a terminating pod to the sums of the queue and all ancestors.
func (q *queueLedger) addTerminating(c *Charge, gracePeriod time.Duration) {
	for at := q; at != nil; at = at.parent {
		at.terminating.add(c, gracePeriod)
	}
}

// Terminating returns how many of a card terminating pods of the queue use, and the longest
// grace period among them.
func (l *Ledger) Terminating(queue string, name card.Name) (card.Count, time.Duration) {
	e := l.readQueue(queue).terminating[name]
	return e.count, e.longestGracePeriod
}

// EvictionHeadroom returns how many of a card may be evicted for a pod of the same queue.
// Beyond that the pod would have to wait for terminating pods anyway.
func (l *Ledger) EvictionHeadroom(queue string, name card.Name) card.Count {
	headroom := card.MaxCount
	for q := l.readQueue(queue); q != nil && !q.isRoot; q = q.parent {
		if !q.limits.AnyCard {
			headroom = min(headroom, q.limits.Cards[name].Sub(q.terminating[name].count))
		}
	}
	return headroom
}

// IsTerminatingOverQuota reports whether terminating pods use more of a card than its quota, in
// the queue or an ancestor. Then the queue gets no more of it.
func (l *Ledger) IsTerminatingOverQuota(queue string, name card.Name) bool {
	_, isExceeded := l.readQueue(queue).checkTerminating(Resource(name), &noRelease)
	return isExceeded
}

// checkTerminating returns the first queue on the path in which terminating pods use more of a
// card than its quota.
func (q *queueLedger) checkTerminating(resource Resource, released *Released) (e exceededLimit, isExceeded bool) {
	for at := q; at != nil && !at.isRoot; at = at.parent {
		if at.limits.AnyCard || (len(at.terminating) == 0 && !released.Evicted) {
			continue
		}
		total := int64(at.terminating[resource.Card()].count)

		// An evicted pod uses its cards until it has ended, so it counts on this side at once.
		if released.Evicted {
			total += int64(released.Cards[resource.Card()])
		}

		if limit := int64(at.limits.Cards[resource.Card()]); total > limit {
			return exceededLimit{Terminating, at, total, limit}, true
		}
	}
	return e, false
}
