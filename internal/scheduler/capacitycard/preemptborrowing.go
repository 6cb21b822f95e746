package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/internal/card"
)

// limitBorrowing notes how many cards a queue of a tree may borrow while its pods preempt. Of a card for
// which another queue waits within what it deserves, that is what it has borrowed already. Otherwise the other
// queue would take the card back with the preemptor on it, and pods of both would be evicted again and again.
func (g *preemption) limitBorrowing(queue api.QueueID) {
	g.mostBorrowed = map[card.Name]int64{}
	for name, queues := range g.queuesThatWait() {
		if len(queues) > 1 || !queues[queue] {
			g.mostBorrowed[name] = max(0, g.p.AboveDeserved(queue, name))
		}
	}
}

// queuesThatWait returns by card the queues of a tree with a pod that waits for it within what its queue
// deserves, as they were when preempt began.
func (g *preemption) queuesThatWait() map[card.Name]map[api.QueueID]bool {
	if g.waiting != nil || !g.p.cache.tree.isTree {
		return g.waiting
	}

	g.waiting = map[card.Name]map[api.QueueID]bool{}
	for _, job := range g.p.ssn.Jobs {
		isEnqueued := !job.IsPending() || !conf.EnabledActionMap["enqueue"]
		if !isEnqueued || g.p.checkQueue(job) != nil {
			continue
		}
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if r, isKnown := g.p.checkInputFor(task); isKnown && !task.SchGated {
				g.addWaiting(r)
			}
		}
	}
	return g.waiting
}

// addWaiting adds the queue of a pod to those that wait for the cards of its request.
func (g *preemption) addWaiting(r checkInput) {
	for _, name := range r.request.Names {
		if g.waiting[name][r.job.Queue] || !g.p.deservesCard(r, name) {
			continue
		}
		if g.waiting[name] == nil {
			g.waiting[name] = map[api.QueueID]bool{}
		}
		g.waiting[name][r.job.Queue] = true
	}
}

// cardsBorrowedTooMany returns how many cards more than its queue may borrow while its pods preempt, a pod
// would use of a card. released of them are cards of pods that are evicted besides.
func (p *plugin) cardsBorrowedTooMany(r checkInput, name card.Name, released card.Count) int64 {
	if p.preemption == nil || r.request.Count == 0 {
		return 0
	}
	most, isLimited := p.preemption.mostBorrowed[name]
	if !isLimited {
		return 0
	}
	return max(0, p.AboveDeserved(r.job.Queue, name)+int64(r.request.Count)-int64(released)-most)
}
