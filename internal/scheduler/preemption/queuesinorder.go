package preemption

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Hooks are what the action preempt knows and the plugin does not.
type Hooks struct {
	// PolicyFor returns how a Volcano job handles evictions, false if that is not known.
	PolicyFor cache.EvictionPolicies
	// Begin is called before the first search, if some pod may preempt others. MaySearch
	// reports whether preempt may search a node for a pod. generation changes with each eviction
	// and each undone one. Without these two, every pod has its search.
	Begin     func()
	MaySearch func(task *api.TaskInfo, generation int) bool
}

// executeByQueue runs Volcano's action preempt for each queue with pods that may preempt, in
// the order of queues. In one run for all queues, Volcano would take them in random order, and after
// the first queue skip a pending pod of each job.
func (p *Preemption) executeByQueue(execute func()) {
	all := p.Volcano.Jobs
	byQueue := map[api.QueueID]map[api.JobID]*api.JobInfo{}
	defer func() { p.Volcano.Jobs = all }()

	for id, job := range all {
		if byQueue[job.Queue] == nil {
			byQueue[job.Queue] = map[api.JobID]*api.JobInfo{}
		}
		byQueue[job.Queue][id] = job
	}

	queues := util.NewPriorityQueue(p.Volcano.QueueOrderFn)
	for id, jobs := range byQueue {
		if queue := p.Volcano.Queues[id]; queue != nil && p.run.hasPreemptor(jobs) {
			queues.Push(queue)
		}
	}

	if queues.Empty() {
		return
	}

	// Begin looks at all nodes and pods, so it runs only if some queue can preempt.
	if p.run.hooks.Begin != nil {
		p.run.hooks.Begin()
	}

	waiting := findWaitingQueues(p.Session)
	for !queues.Empty() {
		queue := queues.Pop().(*api.QueueInfo).UID
		p.run.limitBorrowing(queue, waiting)
		p.Volcano.Jobs = byQueue[queue]
		execute()
	}
}

// waitingQueues are, by card, the queues of a tree that have a pod waiting for this card, within what they deserve.
type waitingQueues map[card.Name]map[api.QueueID]bool

// findWaitingQueues returns the queues that wait now, none if the queues are flat.
func findWaitingQueues(s *snapshot.Session) waitingQueues {
	waiting := waitingQueues{}
	if !s.IsTree() {
		return waiting
	}

	for r := range s.PodsForAllocate() {
		for _, name := range r.Request.Names {
			if !waiting[name][r.Job.Queue] && s.DeservesCard(r, name) && s.CheckQueue(r.Job) == nil {
				waiting.addQueue(name, r.Job.Queue)
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
func (r *preemptRun) limitBorrowing(queue api.QueueID, waiting waitingQueues) {
	most := map[card.Name]int64{}
	for name, queues := range waiting {
		if len(queues) > 1 || !queues[queue] {
			most[name] = max(0, r.preemption.Ledger.AboveDeserved(string(queue), quota.Resource(name)))
		}
	}
	r.preemption.victims.LimitBorrowing(most)
}
