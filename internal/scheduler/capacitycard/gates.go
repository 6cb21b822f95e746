package capacitycard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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
	return cmp.Compare(p.account.DominantShare(left.Name), p.account.DominantShare(right.Name))
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
// that comes free helps it: admission counts cards one by one and lets it in.
func (p *plugin) waitsForQuota(job *api.JobInfo, ask *workload.Request) bool {
	limits, names := p.account.Limits(string(job.Queue)), ask.Names
	suffices := func(name card.Name) bool { return ask.Count <= limits.Cards[name] }
	if !limits.AnyCard && ask.Count > 0 && !slices.ContainsFunc(names, suffices) {
		return false
	}
	own := p.freedBy(job.Queue, slices.Collect(tasksIn(job, func(status api.TaskStatus) bool {
		return status == api.Allocated || status == api.Pipelined
	}))...)
	if len(names) == 0 {
		names = []card.Name{""}
	}
	return !slices.ContainsFunc(names, func(name card.Name) bool {
		return p.account.FitsAfterRelease(string(job.Queue), ask.Request, name, own) == nil
	})
}

// allocated charges a task that was placed or promised a node. It is the last
// look before a pod is bound: a placement beyond the quota, by whatever way it
// came about, is undone by Volcano. A task that comes back from an eviction that
// failed was placed before and is never refused.
func (p *plugin) allocated(event *framework.Event) {
	task, status := event.Task, event.Task.Status
	if status == api.Allocated {
		p.cache.second.place(task.Pod.UID, task.NodeName)
	}
	job, ok := p.ssn.Jobs[task.Job]
	if !ok {
		return
	}
	facts, queue := p.cache.facts(task.Pod), string(job.Queue)
	facts.nowhere = false
	if status == api.Allocated || status == api.Pipelined {
		event.Err = p.mayBeOn(task, task.NodeName, p.freedBy(job.Queue, task))
	} else {
		queue = p.payer(facts, job, p.exists(queue), task.NodeName) // an eviction that is taken back
		defer p.preemption.takeBack(task)
	}
	if node := p.ssn.Nodes[task.NodeName]; event.Err == nil && status == api.Pipelined && node != nil {
		event.Err = p.mayBeBeside(task, node) // Volcano's preempt promises nodes on which nothing goes without looking at that
	}
	p.charge(task.Pod, facts, queue, task.NodeName, asUsed)
}

// mayBeOn tells why a pod may not be on a node once others have given back what is freed,
// nil when it may.
func (p *plugin) mayBeOn(task *api.TaskInfo, node string, freed quota.Released) error {
	r, known := p.requestOf(task)
	if !known {
		return fmt.Errorf("job %s is not in this session", task.Job)
	}
	r.node, r.freed = node, &freed
	if refusal := p.refusal(placeChecks, r); refusal != nil {
		return refusal
	}
	return nil
}

// mayBeBeside tells why a pod can not be on a node beside pods that stay there, nil when it
// can.
func (p *plugin) mayBeBeside(task *api.TaskInfo, node *api.NodeInfo) error {
	if !p.fitsBeside(task, node) {
		return fmt.Errorf("pod %s may not be beside another pod of node %s", klog.KObj(task.Pod), node.Name)
	}
	return nil
}

// deallocated gives back what the task was charged. What is evicted gives its quota back,
// and its cards when it has ended.
func (p *plugin) deallocated(event *framework.Event) {
	task, facts := event.Task, p.cache.facts(event.Task.Pod)
	if facts.nowhere = task.Status == api.Pending; facts.nowhere {
		p.cache.second.takeBack(task.Pod.UID, task.NodeName)
	}
	if task.Status != api.Releasing {
		p.cache.refund(facts)
		return
	}
	p.preemption.noteEviction(task)
	if facts.booked == asUsed {
		p.book(task.Pod, facts, asEnding)
	}
}

// simulationKey is where a simulation keeps what it evicted so far.
const simulationKey fwk.StateKey = PluginName

// simulation is what topology-aware preemption evicts on one node while it
// tries: Volcano clones the cycle state for each node it tries in parallel, so
// one goroutine alone reads and writes it.
type simulation struct {
	node  string
	freed quota.Released
}

// Clone implements fwk.StateData.
func (s *simulation) Clone() fwk.StateData {
	return &simulation{node: s.node, freed: quota.Released{
		Cards: maps.Clone(s.freed.Cards), MilliCPU: s.freed.MilliCPU, Memory: s.freed.Memory, Evicted: s.freed.Evicted,
	}}
}

func simulationOf(state fwk.CycleState, node string) *simulation {
	if data, err := state.Read(simulationKey); err == nil {
		if s, ok := data.(*simulation); ok && s.node == node {
			return s
		}
	}
	s := &simulation{node: node, freed: quota.Released{Evicted: true}}
	state.Write(simulationKey, s)
	return s
}

// simulate notes a pod of the queue of the preemptor that is taken from a node, or put back.
func (p *plugin) simulate(note func(*quota.Released, *quota.Charge)) func(context.Context, fwk.CycleState, *api.TaskInfo, *api.TaskInfo, *api.NodeInfo) error {
	return func(_ context.Context, state fwk.CycleState, preemptor, task *api.TaskInfo, node *api.NodeInfo) error {
		if job, ok := p.ssn.Jobs[preemptor.Job]; ok {
			if charge := p.chargeIn(job.Queue, task); charge != nil {
				note(&simulationOf(state, node.Name).freed, charge)
			}
		}
		return nil
	}
}

// simulateAllocatable answers for the node of the simulation. Volcano removes
// a task before it asks, so a simulation without one has evicted nothing of
// this queue anywhere and fits as little as before.
func (p *plugin) simulateAllocatable(_ context.Context, state fwk.CycleState, _ *api.QueueInfo, task *api.TaskInfo) bool {
	data, err := state.Read(simulationKey)
	if err != nil {
		return false
	}
	s, ok := data.(*simulation)
	return ok && p.mayBeOn(task, s.node, s.freed) == nil
}

// simulatePredicate refuses a node on which the pod would still exceed its
// quota with everything evicted, or be beside somebody whom it must not be beside:
// Volcano looks at nothing else at the end, and simulates no host ports.
func (p *plugin) simulatePredicate(_ context.Context, state fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
	if err := p.mayBeBeside(task, node); err != nil {
		return err
	}
	if len(p.hanging[node.Name]) > 0 && !task.InitResreq.LessEqual(p.RoomOn(node), api.Zero) {
		return fmt.Errorf("node %s has too little room for pod %s beside pods that hang", node.Name, klog.KObj(task.Pod))
	}
	return p.mayBeOn(task, node.Name, simulationOf(state, node.Name).freed)
}
