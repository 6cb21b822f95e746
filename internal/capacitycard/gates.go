package capacitycard

import (
	"cmp"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// queueOrder serves the queue of higher priority first, then the one that uses
// the smaller share of its quota.
func (p *plugin) queueOrder(l, r any) int {
	left, right := l.(*api.QueueInfo), r.(*api.QueueInfo)
	if c := cmp.Compare(right.Queue.Spec.Priority, left.Queue.Spec.Priority); c != 0 {
		return c
	}
	return cmp.Compare(p.account.Share(left.Name), p.account.Share(right.Name))
}

// allocatable is the gate of a pod before a node is looked for: some card it
// may run on has room in the queue, and its CPU and memory fit.
func (p *plugin) allocatable(_ *api.QueueInfo, task *api.TaskInfo) bool {
	r, known := p.requestOf(task)
	if !known {
		return false
	}
	if try := p.attempt.Load(); try != nil && try.pod == task.UID {
		return p.fitsAttempt(r, try)
	}
	refusal := p.refusal(quotaChecks, r)
	if refusal == nil {
		return true
	}
	if p.waitsForQuota(r.job, r.ask) {
		p.cache.patience.renew(r.job.PgUID, p.cache.now())
	}
	p.tellPod(task, refusal)
	return false
}

// waitsForQuota reports whether the queue has no room for a pod, even without what the
// pod's own job was given in this session: the session may take that back. A pod for which
// the whole quota of each of its cards is too little does not wait for quota, since none
// that comes free helps it.
func (p *plugin) waitsForQuota(job *api.JobInfo, ask *workload.Request) bool {
	if !p.quotaSuffices(job.Queue, ask) {
		return false
	}
	var own quota.Freed
	for _, status := range []api.TaskStatus{api.Allocated, api.Pipelined} {
		for _, task := range job.TaskStatusIndex[status] {
			if charge := p.chargeIn(job.Queue, task); charge != nil {
				own.Add(charge)
			}
		}
	}
	names := ask.Names
	if len(names) == 0 {
		names = []card.Name{""}
	}
	return !slices.ContainsFunc(names, func(name card.Name) bool {
		return p.account.FitsNode(string(job.Queue), ask.Request, name, own) == nil
	})
}

// quotaSuffices reports whether a pod's cards are within the quota of its queue for one of
// the cards that it may use, whatever else is in use. Admission counts cards one by one and
// lets in what no single card has quota for.
func (p *plugin) quotaSuffices(queue api.QueueID, ask *workload.Request) bool {
	limits := p.account.Limits(string(queue))
	return limits.AnyCard || ask.Count == 0 || slices.ContainsFunc(ask.Names, func(name card.Name) bool { return ask.Count <= limits.Cards[name] })
}

// allocated charges a task that was placed or promised a node. It is the last
// look before a pod is bound: a placement beyond the quota, by whatever way it
// came about, is undone by Volcano. A task that comes back from an eviction that
// failed was placed before and is never refused.
func (p *plugin) allocated(event *framework.Event) {
	if event.Task.Status == api.Allocated {
		p.cache.second.place(event.Task.Pod.UID, event.Task.NodeName)
	}
	job, ok := p.ssn.Jobs[event.Task.Job]
	if !ok {
		return
	}
	if status := event.Task.Status; status == api.Allocated || status == api.Pipelined {
		event.Err = p.beyond(event.Task)
	}
	if event.Err == nil && event.Task.Status == api.Pipelined {
		event.Err = p.keptOff(event.Task)
	}
	facts := p.cache.facts(event.Task.Pod)
	facts.nowhere = false
	queue := string(job.Queue)
	if status := event.Task.Status; status != api.Allocated && status != api.Pipelined {
		queue = p.payer(facts, job, p.exists(queue), event.Task.NodeName) // an eviction that is taken back
		defer p.preemption.takeBack(event.Task)
	}
	p.charge(string(event.Task.UID), facts, queue, event.Task.NodeName)
}

// beyond tells why a task may not be where it was placed, nil when it may.
func (p *plugin) beyond(task *api.TaskInfo) error {
	r, _ := p.requestOf(task)
	r.node, r.freed = task.NodeName, &quota.Freed{}
	if charge := p.chargeIn(r.job.Queue, task); charge != nil {
		r.freed.Add(charge)
	}
	if refusal := p.refusal(placeChecks, r); refusal != nil {
		return refusal
	}
	return nil
}

// keptOff tells why a pod can not be on the node that it is promised, beside pods that
// stay there, nil when it can. Volcano's preempt promises nodes on which nothing goes
// without looking at that.
func (p *plugin) keptOff(task *api.TaskInfo) error {
	node, known := p.ssn.Nodes[task.NodeName]
	if !known {
		return nil
	}
	if !p.fitsBeside(task, node) {
		return fmt.Errorf("pod %s/%s may not be beside pods of node %s", task.Namespace, task.Name, node.Name)
	}
	return nil
}

// deallocated gives back what the task was charged. What is evicted ends first.
func (p *plugin) deallocated(event *framework.Event) {
	facts := p.cache.facts(event.Task.Pod)
	facts.nowhere = event.Task.Status == api.Pending
	if facts.nowhere {
		p.cache.second.takeBack(event.Task.Pod.UID, event.Task.NodeName)
	}
	if event.Task.Status == api.Releasing {
		p.preemption.noteEviction(event.Task)
	}
	if !p.evicted(event, facts) {
		p.cache.refund(string(event.Task.UID), facts)
	}
}
