package capacitycard

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// evictionTimeout is how long a pod that says that it is evicted may take until it is
// being deleted. What is not deleted by then, was not evicted.
const evictionTimeout = time.Minute

// nominationTimeout is how long a pod waits for the node that it was promised while nobody there
// is being deleted yet.
const nominationTimeout = 5 * time.Minute

// nomination is the node that a pod was promised first, or on which room was made for it.
type nomination struct {
	node  string
	since time.Time
}

// saveNominations remembers the node that each pod was promised in the session that
// closes, or in one before while pods are still on their way out there. The API
// server may be too slow to show either by the next session.
func (p *plugin) saveNominations() {
	promised := map[types.UID]nomination{}
	for uid, made := range p.cache.nominations {
		if p.hasEvictedPods(made.node) {
			promised[uid] = made
		}
	}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if promised[task.Pod.UID].node != task.NodeName {
				promised[task.Pod.UID] = nomination{task.NodeName, p.cache.now()}
			}
		}
		for _, task := range job.TaskStatusIndex[api.Pending] { // by a process before this one
			node := task.Pod.Status.NominatedNodeName
			if _, known := promised[task.Pod.UID]; !known && node != "" && p.hasEvictedPods(node) {
				promised[task.Pod.UID] = nomination{node, p.cache.now()}
			}
		}
	}
	p.cache.nominations = promised
}

// nominatedAmong returns the node that a pod was promised in the last session, nil when it
// is not one of those it may have now. The pods of a gang were promised nodes together: if
// one of them went elsewhere, the place of another one could be missing. Volcano itself
// follows a promise only once the API server shows it, and only where pods were evicted.
func (p *plugin) nominatedAmong(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	made, known := p.cache.nominations[task.Pod.UID]
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

// awaitsNominatedNode tells that a pod need not have anybody evicted, because others are on their
// way out on the node that it was promised. It does not wait for a node that does not take
// it any more, and for a bounded time only.
//
// It holds for the search for a node that is made: each node of it asks.
func (p *plugin) awaitsNominatedNode(task *api.TaskInfo) bool {
	s := p.search.Load()
	if s == nil || s.task.UID != task.UID {
		return p.computeAwaitsNominatedNode(task)
	}
	s.awaitsOnce.Do(func() { s.awaitsNominated = p.computeAwaitsNominatedNode(task) })
	return s.awaitsNominated
}

func (p *plugin) computeAwaitsNominatedNode(task *api.TaskInfo) bool {
	made, known := p.cache.nominations[task.Pod.UID]
	if !known {
		made = nomination{task.Pod.Status.NominatedNodeName, p.cache.now()}
	}
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	node := p.ssn.Nodes[made.node]
	return p.hasEvictedPods(made.node) && (p.cache.now().Sub(made.since) < nominationTimeout || anyTaskOn(node, isDeleted)) &&
		p.ssn.PredicateForPreemptAction(task, node) == nil
}

// hasEvictedPods tells that some pod of a node was evicted and is not gone yet.
func (p *plugin) hasEvictedPods(name string) bool {
	return anyTaskOn(p.ssn.Nodes[name], p.isBeingEvicted)
}

// anyTaskOn reports whether some pod of a node, which may be nil, is such.
func anyTaskOn(node *api.NodeInfo, is func(*api.TaskInfo) bool) bool {
	if node != nil {
		for _, task := range node.Tasks {
			if is(task) {
				return true
			}
		}
	}
	return false
}

// isBeingEvicted tells a pod that was evicted and is not gone yet. One that is being deleted,
// though not by a scheduler, leaves for nobody, and neither does one that hangs.
func (p *plugin) isBeingEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !p.IsStuckTerminating(task)
	}
	return isEvictionPending(task, task.Status) || evicted && p.cache.now().Sub(since) < evictionTimeout
}

// reclaimedRoomTimeout is how long cards that were taken back for a pod are held for it, counted
// from the eviction. They are held against those only from whom the pod may take cards:
// others could have had cards taken back themselves. A node of its gang may be away for a
// moment; Volcano then takes the whole gang back, and would give the cards to those they
// were taken from.
const reclaimedRoomTimeout = 5 * time.Minute

// roomOwner are the pods of a session for which room is held on a node.
type roomOwner struct {
	task *api.TaskInfo
	// kind and priority are the service type of the pod, and the priority of its queue.
	serviceType string
	priority    int32
}

// KeepReclaimedRoom notes that others were evicted for a pod that was promised a node.
func (p *plugin) KeepReclaimedRoom(task *api.TaskInfo) {
	p.cache.reclaimedRoom[task.Pod.UID] = nomination{task.NodeName, p.cache.now()}
}

// loadReclaimedRoom finds the pods that wait for room that is held for them, and ends the holds
// of all others.
func (p *plugin) loadReclaimedRoom() {
	p.reclaimedRoom = nil
	if len(p.cache.reclaimedRoom) == 0 {
		return
	}
	p.reclaimedRoom = map[string][]roomOwner{}
	waiting := map[types.UID]bool{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			made, known := p.cache.reclaimedRoom[task.Pod.UID]
			if !known || p.cache.now().Sub(made.since) >= reclaimedRoomTimeout || p.checkQueue(job) != nil {
				continue
			}
			waiting[task.Pod.UID] = true
			p.reclaimedRoom[made.node] = append(p.reclaimedRoom[made.node], roomOwner{task, p.ServiceType(task), p.ssn.Queues[job.Queue].Queue.Spec.Priority})
		}
	}
	maps.DeleteFunc(p.cache.reclaimedRoom, func(uid types.UID, _ nomination) bool { return !waiting[uid] })
}

// reclaimedRoomStaysFree: the node has room for the pod beside what is held there for pods that may
// take cards back from it, and that still wait. What a pod was promised or given in this
// session, the node counts itself.
func reclaimedRoomStaysFree(p *plugin, r checkInput, node *api.NodeInfo) int {
	if len(p.reclaimedRoom[node.Name]) == 0 {
		return nodeFits
	}
	needed, found, serviceType, queue := r.task.InitResreq.Clone(), false, p.ServiceType(r.task), p.ssn.Queues[r.job.Queue]
	for _, h := range p.reclaimedRoom[node.Name] {
		if h.task.Status == api.Pending && queue != nil && queue.Queue.Spec.Priority < h.priority && p.args.serviceTypes.CanReclaim(h.serviceType, serviceType) {
			needed.Add(h.task.InitResreq)
			found = true
		}
	}
	if found && !needed.LessEqual(p.FutureIdleOn(node), api.Zero) {
		return roomReclaimedByOthers
	}
	return nodeFits
}

// stuckAfter is how much longer than its grace period a pod that is being deleted is waited
// for. It may hang for ever, on its finalizer or on a kubelet that is away.
const stuckAfter = 5 * time.Minute

// findStuckPods finds the pods that should be gone and are not, also those whose job is gone.
func (p *plugin) findStuckPods() {
	p.stuckPods = map[string][]*api.TaskInfo{}
	for _, node := range p.ssn.NodeList {
		for _, task := range node.Tasks {
			if task.Status == api.Releasing && p.IsStuckTerminating(task) {
				p.stuckPods[node.Name] = append(p.stuckPods[node.Name], task)
			}
		}
	}
}

// IsStuckTerminating reports whether a pod is there for long after it should have been gone.
func (p *plugin) IsStuckTerminating(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && p.cache.now().Sub(deleted.Time) >= stuckAfter
}

// noStuckPodConflicts: no pod that hangs keeps the pod off the node. Volcano's preempt looks at
// what is left on a node without those that leave it, and would promise it for ever.
func noStuckPodConflicts(p *plugin, r checkInput, node *api.NodeInfo) int {
	if slices.ContainsFunc(p.stuckPods[node.Name], func(other *api.TaskInfo) bool { return workload.ConflictOnNode(r.task.Pod, other.Pod) }) {
		return conflictsWithStuckPod
	}
	return nodeFits
}

// FutureIdleOn returns what a node has idle or will have, without what pods hold there that hang.
// Volcano expects to get that back, too, and would promise it for ever.
func (p *plugin) FutureIdleOn(node *api.NodeInfo) *api.Resource {
	idle := node.FutureIdle()
	for _, task := range p.stuckPods[node.Name] {
		idle.MilliCPU -= task.Resreq.MilliCPU
		idle.Memory -= task.Resreq.Memory
		for name, quantity := range task.Resreq.ScalarResources {
			if _, known := idle.ScalarResources[name]; known {
				idle.ScalarResources[name] -= quantity
			}
		}
	}
	return idle
}

// needsStuckRoom reports whether a pod fits a node only once pods are gone that hang.
func (p *plugin) needsStuckRoom(task *api.TaskInfo, node *api.NodeInfo) bool {
	return len(p.stuckPods[node.Name]) > 0 && task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) &&
		!task.InitResreq.LessEqual(node.Idle, api.Zero) && !task.InitResreq.LessEqual(p.FutureIdleOn(node), api.Zero)
}

// preemptableTasksOn lists the pods of a node that may make room for another pod of their queue.
func (p *plugin) preemptableTasksOn(node *api.NodeInfo, preemptor *api.TaskInfo) []*api.TaskInfo {
	queue := p.ssn.Jobs[preemptor.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.ssn.Jobs[task.Job]
		if job != nil && job.Queue == queue && api.PreemptableStatus(task.Status) && p.hasHigherPriority(preemptor, task) && p.isEvictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// conflictsArePreemptable: no pods keep the pod off the node that preempt may not evict for it.
// Volcano promises a node on which nothing needs to go without looking at that, and looks
// at no other node when the promise is refused.
func conflictsArePreemptable(p *plugin, r checkInput, node *api.NodeInfo) int {
	if p.preemption == nil || p.hasNoConflicts(r.task, node) {
		return nodeFits
	}
	if _, _, useful := p.splitConflicting(r.task, node, p.preemptableTasksOn(node, r.task)); !useful {
		return conflictNotPreemptable
	}
	return nodeFits
}
