package capacitycard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/enqueue"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
	"cardquota.dev/operator/internal/scheduler/waitingjobs"
	"cardquota.dev/operator/internal/workload"
)

// allocation decides in which order Volcano's action allocate serves queues and jobs, and charges what it
// places.
type allocation struct {
	*snapshot.Session
	prices     *victims.Prices
	events     *Events
	stuck      *snapshot.StuckPods
	kept       *keptcards.Kept
	waiting    *waitingjobs.Jobs
	victims    *victims.Selection
	preemption *preemption.Preemption
	enqueue    *enqueue.Votes
	reserver   *enqueue.Reserver
	// deservedFirst is the state of the action in a tree, nil unless it runs in parts.
	deservedFirst *deservedFirst
	// step is the state of the action in a tree, nil unless a step of it runs.
	step *allocationStep
	// jobsAhead are jobs below their minimum that the running part of it has not tried, nil for none.
	jobsAhead *jobsAhead
	// belowMinimum are the jobs that run below their minimum.
	belowMinimum map[api.JobID]bool
}

// queueOrder puts first the queue of higher priority, then the one with the smaller dominant
// share for its weight. Of equal priority, one with a job that runs below its minimum is first until that
// was tried. In a tree it compares what the queues deserve and borrow.
//
// In a tree allocate serves all pods that need not borrow before those that must, whatever this order. In the
// second part queues below what they deserve come first: their jobs that need not borrow may have waited behind
// one that must.
func (p *allocation) queueOrder(l, r any) int {
	left := l.(*api.QueueInfo)
	right := r.(*api.QueueInfo)
	if p.deservedFirst != nil && p.deservedFirst.borrows {
		below := p.Ledger.IsBelowDeserved(left.Name)
		otherBelow := p.Ledger.IsBelowDeserved(right.Name)
		switch {
		case below && !otherBelow:
			return -1
		case otherBelow && !below:
			return 1
		}
	}

	if c := cmp.Compare(right.Queue.Spec.Priority, left.Queue.Spec.Priority); c != 0 {
		return c
	}
	if c := p.jobsAhead.compareQueues(left.UID, right.UID); c != 0 {
		return c
	}
	if p.IsTree() {
		return p.Ledger.CompareShares(left.Name, right.Name)
	}

	return cmp.Compare(p.weightedShare(left), p.weightedShare(right))
}

// weightedShare returns the dominant share of a flat queue, divided by its weight.
func (p *allocation) weightedShare(queue *api.QueueInfo) float64 {
	return p.Ledger.DominantShare(queue.Name) / float64(max(1, queue.Queue.Spec.Weight))
}

// allocatable checks a pod before Volcano looks for a node: some card of its request, and its
// CPU and memory, must fit the quota.
func (p *allocation) allocatable(_ *api.QueueInfo, task *api.TaskInfo) bool {
	p.step.begin(p) // unless enabledOverused is off, it has begun
	r, known := p.CheckInputFor(task)
	if !known {
		return false
	}
	if isAllocatable, isTried := p.preemption.AllocatableInAttempt(r); isTried {
		return isAllocatable
	}

	p.jobsAhead.markTried(r.Job)
	if !p.isTurnOf(r) {
		return false
	}

	refusal := p.kept.CheckQuota(r)
	if refusal == nil {
		return true
	}

	// A job that waits for quota keeps its reservation. Only other reasons end it after a time.
	if p.waitsForQuota(r.Job, r.Request) || p.kept.CheckKeptQuota(r) != nil {
		p.Cache.Reservations.RestartWait(r.Job.PgUID, p.Cache.Now())
	}

	p.events.recordPodUnschedulable(task, refusal)
	return false
}

// waitsForQuota reports whether the quota has no room for a pod, even without what this session
// gave the pod's own job and may undo. A pod that exceeds the whole quota of each of its cards
// does not wait for quota. Enqueue counts single cards and lets it pass, but no released card
// helps it.
func (p *allocation) waitsForQuota(job *api.JobInfo, request *workload.Request) bool {
	names := request.Names
	if !p.Ledger.Fits(string(job.Queue), request.OnlyCards(), quota.Within{Bound: quota.QuotaIfIdle}) {
		return false
	}

	own := p.ReleasedBy(job.Queue, slices.Collect(gang.TasksIn(job, func(status api.TaskStatus) bool {
		return status == api.Allocated || status == api.Pipelined
	}))...)

	if len(names) == 0 {
		names = []card.Name{""}
	}

	return !slices.ContainsFunc(names, func(name card.Name) bool {
		insufficient := p.Ledger.Check(string(job.Queue), request.On(name), quota.Within{Released: own})
		// An inventory that others are guaranteed is no quota, and may be too small for ever.
		return len(insufficient) == 0 || (insufficient[0].Kind == quota.Guaranteed && insufficient[0].Queue == "")
	})
}

// onAllocate charges a task that was allocated or pipelined. It is the last check before the
// binding: Volcano undoes a placement that exceeds the quota. A task whose eviction failed was
// placed before and is never refused.
func (p *allocation) onAllocate(event *framework.Event) {
	task := event.Task
	status := event.Task.Status
	p.prices.ForgetPrice(task.Job)
	if status == api.Allocated {
		p.Cache.OtherBindings.Assume(task.Pod.UID, task.NodeName)
	}

	job, ok := p.Volcano.Jobs[task.Job]
	if !ok {
		return
	}

	state := p.Cache.ObservePod(task.Pod)
	queue := string(job.Queue)
	state.AssumedNodeInvalid = false
	if status == api.Allocated || status == api.Pipelined {
		// A charge from before is replaced and the rest of broken gangs is evicted, so neither counts.
		event.Err = p.checkPlacement(task, task.NodeName, p.ReleasedBy(job.Queue, append(p.preemption.TasksToComplete(), task)...))
	} else {
		queue = p.ChargedQueueFor(state, job, p.HasQueue(queue), task.NodeName) // an eviction is undone
		defer p.preemption.UndoEviction(task)
	}

	if node := p.Volcano.Nodes[task.NodeName]; event.Err == nil && status == api.Pipelined && node != nil {
		event.Err = p.victims.CheckConflicts(task, node) // Volcano's preempt does not check it on a node that needs no eviction
	}

	// A refused placement is charged too: Volcano takes it back through onDeallocate, or keeps it.
	p.Cache.ChargePod(task.Pod, state, queue, task.NodeName, cache.ChargedAsUsed)
	p.Ledger.EndKeeping(string(task.UID))
}

// checkPlacement returns why a pod may not be on a node once released is released, nil if it
// may.
func (p *allocation) checkPlacement(task *api.TaskInfo, node string, released quota.Released) error {
	r, known := p.CheckInputFor(task)
	if !known {
		return fmt.Errorf("job %s is not in this session", task.Job)
	}
	r.Node = node
	r.Released = &released
	if refusal := p.kept.CheckPlace(r); refusal != nil {
		return refusal
	}
	return nil
}

// onDeallocate releases the charge of a task. An evicted pod releases its quota at once, and
// its cards when it has ended.
func (p *allocation) onDeallocate(event *framework.Event) {
	task := event.Task
	state := p.Cache.ObservePod(event.Task.Pod)
	p.enqueue.ForgetRefusals() // quota is released
	p.prices.ForgetPrice(task.Job)

	state.AssumedNodeInvalid = task.Status == api.Pending
	if state.AssumedNodeInvalid {
		p.Cache.OtherBindings.ForgetAssumed(task.Pod.UID, task.NodeName)
	}

	if task.Status != api.Releasing {
		p.Cache.ReleasePod(state)
		p.kept.KeepAgain(task.UID)
		return
	}

	p.preemption.RecordEviction(task)
	if state.ChargedAs == cache.ChargedAsUsed {
		p.Cache.RecordCharge(task.Pod, state, cache.ChargedAsTerminating)
	}
}

// triedEvictionsKey is the key of the trial in the cycle state.
const triedEvictionsKey fwk.StateKey = snapshot.PluginName

// triedEvictions is what topology-aware preemption evicts on one node while it tries. Volcano
// clones the cycle state for each node, so only one goroutine uses it.
type triedEvictions struct {
	node     string
	released quota.Released
}

// Clone implements fwk.StateData.
func (s *triedEvictions) Clone() fwk.StateData {
	return &triedEvictions{node: s.node, released: s.released.Clone()}
}

// triedEvictionsOf returns the tried evictions of a node in the cycle state. If they are of another node, it starts
// with none.
func triedEvictionsOf(state fwk.CycleState, node string) *triedEvictions {
	if data, err := state.Read(triedEvictionsKey); err == nil {
		if s, ok := data.(*triedEvictions); ok && s.node == node {
			return s
		}
	}
	s := &triedEvictions{node: node, released: quota.Released{Evicted: true}}
	state.Write(triedEvictionsKey, s)
	return s
}

// simulationHook returns the hook that Volcano calls when it tries a preemption without a pod, or with it
// again. note changes what is released in the queue of the preemptor: it adds the charge of a pod that was
// removed from the node, and removes that of a pod that was put back.
func (p *allocation) simulationHook(note func(*quota.Released, *quota.Charge)) func(context.Context, fwk.CycleState, *api.TaskInfo, *api.TaskInfo, *api.NodeInfo) error {
	return func(_ context.Context, state fwk.CycleState, preemptor, task *api.TaskInfo, node *api.NodeInfo) error {
		if job, ok := p.Volcano.Jobs[preemptor.Job]; ok {
			if charge := p.ChargeInQueue(job.Queue, task); charge != nil {
				note(&triedEvictionsOf(state, node.Name).released, charge)
			}
		}
		return nil
	}
}

// simulateAllocatable reports whether a pod fits the quota on the node of the trial after the evictions so far.
// Volcano removes a pod before it asks. So if the cycle state has no evictions, none of them was in this queue, and
// the pod does not fit any more than before.
func (p *allocation) simulateAllocatable(_ context.Context, state fwk.CycleState, _ *api.QueueInfo, task *api.TaskInfo) bool {
	data, err := state.Read(triedEvictionsKey)
	if err != nil {
		return false
	}
	s, ok := data.(*triedEvictions)
	return ok && p.checkPlacement(task, s.node, s.released) == nil
}

// simulatePredicate refuses a node on which the pod would exceed its quota or conflict with
// another pod after all evictions. Volcano checks nothing else at the end and simulates no host
// ports.
func (p *allocation) simulatePredicate(_ context.Context, state fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
	if err := p.victims.CheckConflicts(task, node); err != nil {
		return err
	}
	isKept := len(p.stuck.ByNode[node.Name]) > 0 || p.kept.KeepsCardsOn(task, node)
	if isKept && !task.InitResreq.LessEqual(p.kept.IdleFor(task, node), api.Zero) {
		return fmt.Errorf("node %s has too little for pod %s beside terminating pods past their grace period and what is kept for others", node.Name, klog.KObj(task.Pod))
	}
	return p.checkPlacement(task, node.Name, triedEvictionsOf(state, node.Name).released)
}
