package quota

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

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
