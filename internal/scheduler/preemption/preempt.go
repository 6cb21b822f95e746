package preemption

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Preempt runs execute, which is Volcano's action preempt, and returns the pods that it evicts in the
// session, by job. A gang loses only elastic pods, or all pods. The caller carries out the evictions.
func (p *Preemption) Preempt(hooks Hooks, execute func()) [][]*api.TaskInfo {
	p.Cache.EvictionPolicies = hooks.PolicyFor
	run := newPreemptRun(p, hooks)
	p.run = run
	defer func() {
		p.run = nil
		p.victims.LimitBorrowing(nil)
	}()
	defer p.hideOldNominations()()

	// Volcano does not tell for whom it evicts. Its preemptors are the pods that it pipelines
	// meanwhile.
	before := pipelinedPods(p.Session)
	p.executeByQueue(execute)
	p.kept.Preemptors = pipelinedPods(p.Session)
	maps.DeleteFunc(p.kept.Preemptors, func(uid types.UID, _ bool) bool { return before[uid] })
	// Gangs are completed when the next search begins. No search follows the last evictions.
	run.completeGangs()
	p.keepFreedCards(run.victimsByPreemptor())

	var jobs [][]*api.TaskInfo
	for id, evicted := range run.evicted {
		tasks := slices.Collect(maps.Values(evicted))
		if rest := run.restOfGangs[id]; rest != nil {
			tasks = append(tasks, rest.tasks...)
		}
		if len(tasks) > 0 {
			slices.SortFunc(tasks, func(a, b *api.TaskInfo) int { return cmp.Compare(a.UID, b.UID) })
			jobs = append(jobs, tasks)
		}
	}

	slices.SortFunc(jobs, func(a, b []*api.TaskInfo) int { return cmp.Compare(a[0].Job, b[0].Job) })
	return jobs
}

// keepFreedCards keeps what preempt freed for the pods that it pipelined. victims are the pods that it evicts,
// by the job for which it does.
func (p *Preemption) keepFreedCards(victims map[api.JobID][]*api.TaskInfo) {
	for id, evicted := range victims {
		job := p.Volcano.Jobs[id]
		// Volcano takes back what it did for a job that cannot start.
		if job == nil || !p.Volcano.JobPipelined(job) {
			continue
		}

		var tasks []*api.TaskInfo
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if p.kept.Preemptors[task.Pod.UID] {
				tasks = append(tasks, task)
			}
		}
		p.kept.KeepPreemptedCards(tasks, evicted)
	}
}

// pipelinedPods returns the pods that are pipelined.
func pipelinedPods(s *snapshot.Session) map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, job := range s.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			pods[task.Pod.UID] = true
		}
	}
	return pods
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
		p.run.limitBorrowing(queue, waiting) // not what another queue deserves and waits for
		p.Volcano.Jobs = byQueue[queue]      // the action finds only these
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
