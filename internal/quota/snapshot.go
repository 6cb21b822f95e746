package quota

import "cardquota.dev/operator/internal/card"

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
