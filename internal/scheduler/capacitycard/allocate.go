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
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// queueOrder compares two queues: it is negative if the left one comes first. That is the one of higher
// priority, then the one with the smaller dominant share for its weight. Of equal priority, one with a job that
// runs below its minimum is first until that was tried. In a tree it compares what the queues deserve and borrow.
//
// In a tree allocate runs twice: it places all pods that need not borrow before those that must, whatever
// this order. In the second run queues below what they deserve come first: their jobs that need not borrow
// may have waited behind one that must.
func (a *allocation) queueOrder(l, r any) int {
	left := l.(*api.QueueInfo)
	right := r.(*api.QueueInfo)
	if a.deservedFirst != nil && a.deservedFirst.borrows {
		below := a.Ledger.IsBelowDeserved(left.Name)
		otherBelow := a.Ledger.IsBelowDeserved(right.Name)
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
	if c := a.jobsAhead.compareQueues(left.UID, right.UID); c != 0 {
		return c
	}
	if a.IsTree() {
		return a.Ledger.CompareShares(left.Name, right.Name)
	}

	return cmp.Compare(a.weightedShare(left), a.weightedShare(right))
}

// weightedShare returns the dominant share of a flat queue, divided by its weight.
func (a *allocation) weightedShare(queue *api.QueueInfo) float64 {
	return a.Ledger.DominantShare(queue.Name) / float64(max(1, queue.Queue.Spec.Weight))
}

// allocatable checks a pod before Volcano looks for a node: some card of its request, and its
// CPU and memory, must fit the quota.
func (a *allocation) allocatable(_ *api.QueueInfo, task *api.TaskInfo) bool {
	// In a tree a step of allocate shows Volcano only one job while it lists jobs. From here on Volcano needs
	// all of them, so begin gives them back. The hook overused has done so already, unless enabledOverused is
	// off.
	a.step.begin(a)
	r, known := a.CheckInputFor(task)
	if !known { // the job is not in this session
		return false
	}
	// Preempt asks about one node, after the evictions that it tries there.
	if isAllocatable, isTried := a.preemption.AllocatableInAttempt(r); isTried {
		return isAllocatable
	}

	a.jobsAhead.markTried(r.Job)
	if a.leaveToSecondRun(r) { // in a tree, pods for which their queue must borrow wait for those that need no borrowing
		return false
	}

	refusal := a.kept.CheckQuota(r)
	if refusal == nil {
		return true
	}

	// The reservation of an enqueued job ends after a time in which it found no place. A job that waits for
	// quota, or for quota that is kept for others, keeps it: that time begins again.
	if a.waitsForQuota(r.Job, r.Request) || a.kept.CheckKeptQuota(r) != nil {
		a.Cache.Reservations.RestartWait(r.Job.PgUID, a.Now())
	}

	a.events.recordPodUnschedulable(task, refusal)
	return false
}

// waitsForQuota reports whether a pod waits for others to release quota: there is none left for it on any of
// its cards, even if what this session gave to its own job did not count. A pod that would not fit if the
// queue used nothing, and others only what they are guaranteed, does not wait: no released card helps it.
func (a *allocation) waitsForQuota(job *api.JobInfo, request *workload.Request) bool {
	// A job with such a pod can be enqueued all the same, where the cards of one request are matched with
	// several names.
	if !a.Ledger.Fits(string(job.Queue), request.OnlyCards(), quota.Within{Bound: quota.QuotaIfIdle}) {
		return false
	}

	own := a.ReleasedBy(job.Queue, slices.Collect(gang.TasksIn(job, func(status api.TaskStatus) bool {
		return status == api.Allocated || status == api.Pipelined
	}))...)

	names := request.Names
	if len(names) == 0 {
		names = []card.Name{""} // only CPU and memory count
	}

	return !slices.ContainsFunc(names, func(name card.Name) bool {
		insufficient := a.Ledger.Check(string(job.Queue), request.On(name), quota.Within{Released: own})
		// Queue is "" for root, whose limit is the inventory. If guarantees of others leave no room there,
		// the pod waits for nodes, perhaps for ever, and not for quota.
		return len(insufficient) == 0 || (insufficient[0].Kind == quota.Guaranteed && insufficient[0].Queue == "")
	})
}

// onAllocate charges a task that was allocated or pipelined, or whose eviction was undone. It is the last
// check before the binding: Volcano undoes a placement for which event.Err is set. A task whose eviction was
// undone had its place before, and is never refused.
func (a *allocation) onAllocate(event *framework.Event) {
	task := event.Task
	status := event.Task.Status
	a.prices.ForgetPrice(task.Job)
	if status == api.Allocated {
		a.Cache.OtherBindings.Assume(task.Pod.UID, task.NodeName)
	}

	job, ok := a.Volcano.Jobs[task.Job]
	if !ok {
		return
	}

	state := a.Cache.ObservePod(task.Pod)
	queue := string(job.Queue)
	state.AssumedNodeInvalid = false // the pod is on the node that its object names, until onDeallocate
	if status == api.Allocated || status == api.Pipelined {
		// What counts as released is an earlier charge of the pod, which is replaced below, and the rest of
		// gangs that preempt leaves below their minimum, which it will evict.
		event.Err = a.checkPlacement(task, task.NodeName, a.ReleasedBy(job.Queue, append(a.preemption.TasksToComplete(), task)...))
	} else { // an eviction is undone
		queue = a.ChargedQueueFor(state, job, a.HasQueue(queue), task.NodeName)
		// At the end, because it undoes the evictions of the rest of the gang, and Volcano calls this hook
		// for each.
		defer a.preemption.UndoEviction(task)
	}

	if node := a.Volcano.Nodes[task.NodeName]; event.Err == nil && status == api.Pipelined && node != nil {
		event.Err = a.victims.CheckConflicts(task, node) // Volcano's preempt does not check it on a node that needs no eviction
	}

	// A refused placement is charged too: Volcano either undoes it, with a call of onDeallocate, or keeps it.
	a.Cache.ChargePod(task.Pod, state, queue, task.NodeName, cache.ChargedAsUsed)
	a.Ledger.EndKeeping(string(task.UID)) // the charge replaces the quota that was kept for the pod
}

// checkPlacement returns why a pod may not be on a node after evictions that release these charges, nil if it
// may.
func (a *allocation) checkPlacement(task *api.TaskInfo, node string, released quota.Released) error {
	r, known := a.CheckInputFor(task)
	if !known {
		return fmt.Errorf("job %s is not in this session", task.Job)
	}
	r.Node = node
	r.Released = &released
	if refusal := a.kept.CheckPlace(r); refusal != nil {
		return refusal
	}
	return nil
}

// onDeallocate releases the charge of a task that was evicted, or whose placement is undone. An evicted pod
// releases its quota at once. Its cards count as terminating until it has ended.
func (a *allocation) onDeallocate(event *framework.Event) {
	task := event.Task
	state := a.Cache.ObservePod(event.Task.Pod)
	a.enqueue.ForgetRefusals() // quota is released
	a.prices.ForgetPrice(task.Job)

	state.AssumedNodeInvalid = task.Status == api.Pending // Volcano leaves the node in the pod
	if state.AssumedNodeInvalid {
		a.Cache.OtherBindings.ForgetAssumed(task.Pod.UID, task.NodeName)
	}

	if task.Status != api.Releasing { // a placement is undone
		a.Cache.ReleasePod(state)
		a.kept.KeepAgain(task.UID) // the quota that was freed for the pod
		return
	}

	a.preemption.RecordEviction(task)
	if state.ChargedAs == cache.ChargedAsUsed {
		a.Cache.RecordCharge(task.Pod, state, cache.ChargedAsTerminating)
	}
}

// triedEvictionsKey is the key of triedEvictions in the cycle state.
const triedEvictionsKey fwk.StateKey = schedulerconfig.CapacityCard

// triedEvictions is what topology-aware preemption evicts on one node while it tries. Volcano
// clones the cycle state for each node, so only one goroutine uses it.
type triedEvictions struct {
	node     string
	released quota.Released
}

// Clone implements fwk.StateData.
func (t *triedEvictions) Clone() fwk.StateData {
	return &triedEvictions{node: t.node, released: t.released.Clone()}
}

// triedEvictionsOf returns what the cycle state has of the evictions that Volcano tries on a node. If that is of
// another node, or nothing, it begins with no evictions on this one.
func triedEvictionsOf(state fwk.CycleState, node string) *triedEvictions {
	if data, err := state.Read(triedEvictionsKey); err == nil {
		if tried, ok := data.(*triedEvictions); ok && tried.node == node {
			return tried
		}
	}
	tried := &triedEvictions{node: node, released: quota.Released{Evicted: true}}
	state.Write(triedEvictionsKey, tried)
	return tried
}

// simulationHook returns the hook that Volcano calls when it tries a preemption without a pod, or with it
// again. note changes what is released in the queue of the preemptor: it adds the charge of a pod that was
// removed from the node, and removes that of a pod that was put back.
func (a *allocation) simulationHook(note func(*quota.Released, *quota.Charge)) func(context.Context, fwk.CycleState, *api.TaskInfo, *api.TaskInfo, *api.NodeInfo) error {
	return func(_ context.Context, state fwk.CycleState, preemptor, task *api.TaskInfo, node *api.NodeInfo) error {
		// Pods of other queues release no quota that helps the preemptor.
		if job, ok := a.Volcano.Jobs[preemptor.Job]; ok {
			if charge := a.ChargeInQueue(job.Queue, task); charge != nil {
				note(&triedEvictionsOf(state, node.Name).released, charge)
			}
		}
		return nil
	}
}

// simulateAllocatable reports whether a pod fits the quota on the node that Volcano tries, after the evictions so far.
// Volcano removes a pod before it asks. So if the cycle state has no evictions, none of them was in this queue, and
// the pod does not fit any more than before.
func (a *allocation) simulateAllocatable(_ context.Context, state fwk.CycleState, _ *api.QueueInfo, task *api.TaskInfo) bool {
	data, err := state.Read(triedEvictionsKey)
	if err != nil {
		return false
	}
	tried, ok := data.(*triedEvictions)
	return ok && a.checkPlacement(task, tried.node, tried.released) == nil
}

// simulatePredicate refuses a node on which the pod would exceed its quota or conflict with
// another pod after all evictions, or would take what is kept there for others. Volcano checks nothing else at
// the end, and its own plugins do not count host ports while it tries.
func (a *allocation) simulatePredicate(_ context.Context, state fwk.CycleState, task *api.TaskInfo, node *api.NodeInfo) error {
	if err := a.victims.CheckConflicts(task, node); err != nil {
		return err
	}
	isKept := len(a.stuck.ByNode[node.Name]) > 0 || a.kept.KeepsCardsOn(task, node)
	if isKept && !task.InitResreq.LessEqual(a.kept.IdleFor(task, node), api.Zero) {
		return fmt.Errorf("node %s has too little for pod %s beside terminating pods past their grace period and what is kept for others", node.Name, klog.KObj(task.Pod))
	}
	return a.checkPlacement(task, node.Name, triedEvictionsOf(state, node.Name).released)
}
