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

// closedGate says why a queue takes nothing at all of a namespace now, nil when it
// does.
func (p *plugin) closedGate(queue api.QueueID, namespace string) *workload.Refusal {
	if p.invalid != nil {
		return &workload.Refusal{Reason: workload.ReasonNotReady, Message: fmt.Sprintf("Arguments of %s are invalid: %v", PluginName, p.invalid)}
	}
	if p.notReady != "" {
		return &workload.Refusal{Reason: workload.ReasonNotReady, Message: p.notReady}
	}
	rules, ok := p.rules[queue]
	if !ok {
		return &workload.Refusal{Reason: workload.ReasonQueueNotFound, Message: fmt.Sprintf("Queue <%s> does not exist", queue)}
	}
	if rules.Refusal != nil {
		return rules.Refusal
	}
	return p.leftOut(queue, namespace, rules.Namespaces)
}

// allocatable is the gate of a pod before a node is looked for: some card it
// may run on has room in the queue, and its CPU and memory fit.
func (p *plugin) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	if try := p.attempt.Load(); try != nil && try.pod == task.UID {
		return p.fitsAttempt(queue, task, try)
	}
	refusal := p.closedGate(queue.UID, task.Namespace)
	ask := p.askOf(task)
	if refusal == nil {
		refusal = ask.Denied
	}
	if refusal == nil {
		if short := p.account.Fits(queue.Name, ask.Request); short != nil {
			refusal = p.rules[queue.UID].Short(short)
		}
	}
	if refusal == nil {
		return true
	}
	if job, ok := p.ssn.Jobs[task.Job]; ok && p.waitsForQuota(job, ask) {
		p.cache.patience.renew(job.PgUID, p.cache.now())
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
		event.Err = p.beyond(job, event.Task)
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
func (p *plugin) beyond(job *api.JobInfo, task *api.TaskInfo) error {
	if refusal := p.leftOut(job.Queue, job.Namespace, p.rules[job.Queue].Namespaces); refusal != nil {
		return refusal
	}
	ask := p.askOf(task)
	name, allowed := p.cardFor(ask, task.NodeName)
	if !allowed {
		return fmt.Errorf("pod %s/%s may not run on the card of node %s", task.Namespace, task.Name, task.NodeName)
	}
	var own quota.Freed
	if charge := p.chargeIn(job.Queue, task); charge != nil {
		own.Add(charge)
	}
	if short := p.account.FitsNode(string(job.Queue), ask.Request, name, own); short != nil {
		return p.rules[job.Queue].Short(short)
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
