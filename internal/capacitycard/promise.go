package capacitycard

import (
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

// promise is the node that a pod was promised first.
type promise struct {
	node  string
	since time.Time
}

// keepPromises remembers the node that each pod was promised in the session that
// closes, or in one before while pods are still on their way out there. The API
// server may be too slow to show either by the next session.
func (p *plugin) keepPromises() {
	promised := map[types.UID]promise{}
	for uid, made := range p.memory.promised {
		if p.leavesNode(made.node) {
			promised[uid] = made
		}
	}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if promised[task.Pod.UID].node != task.NodeName {
				promised[task.Pod.UID] = promise{task.NodeName, p.memory.now()}
			}
		}
		for _, task := range job.TaskStatusIndex[api.Pending] { // by a process before this one
			node := task.Pod.Status.NominatedNodeName
			if _, known := promised[task.Pod.UID]; !known && node != "" && p.leavesNode(node) {
				promised[task.Pod.UID] = promise{node, p.memory.now()}
			}
		}
	}
	p.memory.promised = promised
}

// promisedAmong returns the node that a pod was promised in the last session, nil when it
// is not one of those it may have now. The pods of a gang were promised nodes together: if
// one of them went elsewhere, the place of another one could be missing. Volcano itself
// follows a promise only once the API server shows it, and only where pods were evicted.
func (p *plugin) promisedAmong(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	made, known := p.memory.promised[task.Pod.UID]
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
	if last := p.awaited.Load(); last != nil && last.pod == task.UID {
		return last.awaits
	}
	answer := p.awaitsPromised(task)
	p.awaited.Store(&awaited{task.UID, answer})
	return answer
}

// awaited is whether the pod for which a node is searched awaits one that it was promised.
type awaited struct {
	pod    api.TaskID
	awaits bool
}

func (p *plugin) awaitsPromised(task *api.TaskInfo) bool {
	made, known := p.memory.promised[task.Pod.UID]
	if !known {
		made = promise{task.Pod.Status.NominatedNodeName, p.memory.now()}
	}
	if !p.leavesNode(made.node) {
		return false
	}
	node := p.ssn.Nodes[made.node]
	if p.memory.now().Sub(made.since) >= promiseLasts && !anyDeleted(node) {
		return false
	}
	return p.ssn.PredicateForPreemptAction(task, node) == nil
}

func anyDeleted(node *api.NodeInfo) bool {
	for _, task := range node.Tasks {
		if task.Pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// leavesNode tells that some pod of a node was evicted and is not gone yet.
func (p *plugin) leavesNode(name string) bool {
	node, known := p.ssn.Nodes[name]
	if !known {
		return false
	}
	for _, task := range node.Tasks {
		if p.isEvicted(task) {
			return true
		}
	}
	return false
}

// isEvicted tells a pod that was evicted and is not gone yet. One that is being deleted,
// though not by a scheduler, leaves for nobody, and neither does one that hangs.
func (p *plugin) isEvicted(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	if task.Pod.DeletionTimestamp != nil {
		return evicted && !p.hangs(task)
	}
	return leaving(task, task.Status) || evicted && p.memory.now().Sub(since) < evictionLasts
}
