package capacitycard

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// evictionLasts is how long a pod that says that it is evicted may take until it is
// being deleted. What is not deleted by then, was not evicted.
const evictionLasts = time.Minute

// promiseLasts is how long a pod waits for the node that it was promised while nobody there
// is being deleted yet.
const promiseLasts = 5 * time.Minute

// promise is the node that a pod was promised first, or on which room was made for it.
type promise struct {
	node  string
	since time.Time
}

// keepPromises remembers the node that each pod was promised in the session that
// closes, or in one before while pods are still on their way out there. The API
// server may be too slow to show either by the next session.
func (p *plugin) keepPromises() {
	promised := map[types.UID]promise{}
	for uid, made := range p.cache.promised {
		if p.leavesNode(made.node) {
			promised[uid] = made
		}
	}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if promised[task.Pod.UID].node != task.NodeName {
				promised[task.Pod.UID] = promise{task.NodeName, p.cache.now()}
			}
		}
		for _, task := range job.TaskStatusIndex[api.Pending] { // by a process before this one
			node := task.Pod.Status.NominatedNodeName
			if _, known := promised[task.Pod.UID]; !known && node != "" && p.leavesNode(node) {
				promised[task.Pod.UID] = promise{node, p.cache.now()}
			}
		}
	}
	p.cache.promised = promised
}

// promisedAmong returns the node that a pod was promised in the last session, nil when it
// is not one of those it may have now. The pods of a gang were promised nodes together: if
// one of them went elsewhere, the place of another one could be missing. Volcano itself
// follows a promise only once the API server shows it, and only where pods were evicted.
func (p *plugin) promisedAmong(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	made, known := p.cache.promised[task.Pod.UID]
	if !known {
		return nil
	}
	for _, nodes := range scored {
		for _, node := range nodes {
			if node.Name == made.node {
				return node
			}
		}
	}
	return nil
}

// awaits tells that a pod need not have anybody evicted, because others are on their
// way out on the node that it was promised. It does not wait for a node that does not take
// it any more, and for a bounded time only.
//
// It holds for the search for a node that is made: each node of it asks.
func (p *plugin) awaits(task *api.TaskInfo) bool {
	s := p.search.Load()
	if s == nil || s.task.UID != task.UID {
		return p.awaitsPromised(task)
	}
	s.awaitsOnce.Do(func() { s.awaits = p.awaitsPromised(task) })
	return s.awaits
}

func (p *plugin) awaitsPromised(task *api.TaskInfo) bool {
	made, known := p.cache.promised[task.Pod.UID]
	if !known {
		made = promise{task.Pod.Status.NominatedNodeName, p.cache.now()}
	}
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	node := p.ssn.Nodes[made.node]
	return p.leavesNode(made.node) && (p.cache.now().Sub(made.since) < promiseLasts || anyOn(node, isDeleted)) &&
		p.ssn.PredicateForPreemptAction(task, node) == nil
}

// leavesNode tells that some pod of a node was evicted and is not gone yet.
func (p *plugin) leavesNode(name string) bool { return anyOn(p.ssn.Nodes[name], p.isEvicted) }

// anyOn reports whether some pod of a node, which may be nil, is such.
func anyOn(node *api.NodeInfo, is func(*api.TaskInfo) bool) bool {
	if node != nil {
		for _, task := range node.Tasks {
			if is(task) {
				return true
			}
		}
	}
	return false
}

// isEvicted tells a pod that was evicted and is not gone yet. One that is being deleted,
// though not by a scheduler, leaves for nobody, and neither does one that hangs.
func (p *plugin) isEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !p.Hangs(task)
	}
	return leaving(task, task.Status) || evicted && p.cache.now().Sub(since) < evictionLasts
}

// holdLasts is how long cards that were taken back for a pod are held for it, counted
// from the eviction. They are held against those only from whom the pod may take cards:
// others could have had cards taken back themselves. A node of its gang may be away for a
// moment; Volcano then takes the whole gang back, and would give the cards to those they
// were taken from.
const holdLasts = 5 * time.Minute

// held are the pods of a session for which room is held on a node.
type held struct {
	task *api.TaskInfo
	// kind and priority are the service type of the pod, and the priority of its queue.
	kind     string
	priority int32
}

// Hold notes that others were evicted for a pod that was promised a node.
func (p *plugin) Hold(task *api.TaskInfo) {
	p.cache.holds[task.Pod.UID] = promise{task.NodeName, p.cache.now()}
}

// openHolds finds the pods that wait for room that is held for them, and ends the holds
// of all others.
func (p *plugin) openHolds() {
	p.held = nil
	if len(p.cache.holds) == 0 {
		return
	}
	p.held = map[string][]held{}
	waiting := map[types.UID]bool{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			made, known := p.cache.holds[task.Pod.UID]
			if !known || p.cache.now().Sub(made.since) >= holdLasts || p.closedGate(job) != nil {
				continue
			}
			waiting[task.Pod.UID] = true
			p.held[made.node] = append(p.held[made.node], held{task, p.TypeOf(task), p.ssn.Queues[job.Queue].Queue.Spec.Priority})
		}
	}
	maps.DeleteFunc(p.cache.holds, func(uid types.UID, _ promise) bool { return !waiting[uid] })
}

// roomIsNotHeld: the node has room for the pod beside what is held there for pods that may
// take cards back from it, and that still wait. What a pod was promised or given in this
// session, the node counts itself.
func roomIsNotHeld(p *plugin, r request, node *api.NodeInfo) int {
	if len(p.held[node.Name]) == 0 {
		return fits
	}
	needed, anyHeld, kind, queue := r.task.InitResreq.Clone(), false, p.TypeOf(r.task), p.ssn.Queues[r.job.Queue]
	for _, h := range p.held[node.Name] {
		if h.task.Status == api.Pending && queue != nil && queue.Queue.Spec.Priority < h.priority && p.args.serviceTypes.CanReclaim(h.kind, kind) {
			needed.Add(h.task.InitResreq)
			anyHeld = true
		}
	}
	if anyHeld && !needed.LessEqual(p.RoomOn(node), api.Zero) {
		return heldForOthers
	}
	return fits
}

// hangsAfter is how much longer than its grace period a pod that is being deleted is waited
// for. It may hang for ever, on its finalizer or on a kubelet that is away.
const hangsAfter = 5 * time.Minute

// openHanging finds the pods that should be gone and are not, also those whose job is gone.
func (p *plugin) openHanging() {
	p.hanging = map[string][]*api.TaskInfo{}
	for _, node := range p.ssn.NodeList {
		for _, task := range node.Tasks {
			if task.Status == api.Releasing && p.Hangs(task) {
				p.hanging[node.Name] = append(p.hanging[node.Name], task)
			}
		}
	}
}

// Hangs reports whether a pod is there for long after it should have been gone.
func (p *plugin) Hangs(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && p.cache.now().Sub(deleted.Time) >= hangsAfter
}

// noPodKeepsItOff: no pod that hangs keeps the pod off the node. Volcano's preempt looks at
// what is left on a node without those that leave it, and would promise it for ever.
func noPodKeepsItOff(p *plugin, r request, node *api.NodeInfo) int {
	if slices.ContainsFunc(p.hanging[node.Name], func(other *api.TaskInfo) bool { return workload.ConflictOnNode(r.task.Pod, other.Pod) }) {
		return keptOff
	}
	return fits
}

// RoomOn returns what a node has idle or will have, without what pods hold there that hang.
// Volcano expects to get that back, too, and would promise it for ever.
func (p *plugin) RoomOn(node *api.NodeInfo) *api.Resource {
	room := node.FutureIdle()
	for _, task := range p.hanging[node.Name] {
		room.MilliCPU -= task.Resreq.MilliCPU
		room.Memory -= task.Resreq.Memory
		for name, quantity := range task.Resreq.ScalarResources {
			if _, known := room.ScalarResources[name]; known {
				room.ScalarResources[name] -= quantity
			}
		}
	}
	return room
}

// needsHanging reports whether a pod fits a node only once pods are gone that hang.
func (p *plugin) needsHanging(task *api.TaskInfo, node *api.NodeInfo) bool {
	return len(p.hanging[node.Name]) > 0 && task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) &&
		!task.InitResreq.LessEqual(node.Idle, api.Zero) && !task.InitResreq.LessEqual(p.RoomOn(node), api.Zero)
}

// preemptableOn lists the pods of a node that may make room for another pod of their queue.
func (p *plugin) preemptableOn(node *api.NodeInfo, by *api.TaskInfo) []*api.TaskInfo {
	queue := p.ssn.Jobs[by.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.ssn.Jobs[task.Job]
		if job != nil && job.Queue == queue && api.PreemptableStatus(task.Status) && p.outranks(by, task) && p.evictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// noPodStaysApart: no pods keep the pod off the node that preempt may not evict for it.
// Volcano promises a node on which nothing needs to go without looking at that, and looks
// at no other node when the promise is refused.
func noPodStaysApart(p *plugin, r request, node *api.NodeInfo) int {
	if p.preemption == nil || p.fitsBeside(r.task, node) {
		return fits
	}
	if _, _, useful := p.keptApart(r.task, node, p.preemptableOn(node, r.task)); !useful {
		return staysApart
	}
	return fits
}
