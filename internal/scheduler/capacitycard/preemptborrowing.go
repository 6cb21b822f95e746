package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
)

// waitingQueues are by card the queues of a tree with a pod that waits for it within what its queue deserves.
type waitingQueues map[card.Name]map[api.QueueID]bool

// findWaitingQueues returns the queues that wait now, none if the queues are flat.
func (p *plugin) findWaitingQueues() waitingQueues {
	waiting := waitingQueues{}
	if !p.cache.tree.isTree {
		return waiting
	}

	for r := range p.podsForAllocate() {
		for _, name := range r.request.Names {
			if !waiting[name][r.job.Queue] && p.deservesCard(r, name) && p.checkQueue(r.job) == nil {
				waiting.addQueue(name, r.job.Queue)
			}
		}
	}

	return waiting
}

// addQueue adds a queue that waits for a card.
func (w waitingQueues) addQueue(name card.Name, queue api.QueueID) {
	if w[name] == nil {
		w[name] = map[api.QueueID]bool{}
	}
	w[name][queue] = true
}

// limitBorrowing notes how many cards a queue of a tree may borrow while its pods preempt. Of a card for
// which another queue waits within what it deserves, that is what it has borrowed already. Otherwise the other
// queue would take the card back with the preemptor on it, and pods of both would be evicted again and again.
func (g *preemption) limitBorrowing(queue api.QueueID, waiting waitingQueues) {
	g.mostBorrowed = map[card.Name]int64{}
	for name, queues := range waiting {
		if len(queues) > 1 || !queues[queue] {
			g.mostBorrowed[name] = max(0, g.p.ledger.AboveDeserved(string(queue), name))
		}
	}
}

// cardsBorrowedTooMany returns how many cards more than its queue may borrow while its pods preempt, a pod
// would use of a card.
func (p *plugin) cardsBorrowedTooMany(r checkInput, name card.Name) int64 {
	if p.preemption == nil || r.request.Count == 0 {
		return 0
	}
	most, isLimited := p.preemption.mostBorrowed[name]
	if !isLimited {
		return 0
	}

	used := p.ledger.AboveDeserved(string(r.job.Queue), name) + int64(r.request.Count)
	if r.released != nil {
		used -= int64(r.released.Cards[name])
	}

	return max(0, used-most)
}
