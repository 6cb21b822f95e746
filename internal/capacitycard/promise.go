package capacitycard

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/decision"
)

// evictionLasts is how long a pod that says that it is evicted may take until it is
// being deleted. What is not deleted by then, was not evicted.
const evictionLasts = time.Minute

// keepPromises remembers the node that each pod was promised in the session that
// closes, or in one before while pods are still on their way out there. The API
// server may be too slow to show either by the next session.
func (p *plugin) keepPromises() {
	promised := map[types.UID]string{}
	for uid, node := range p.memory.promised {
		if p.leavesNode(node) {
			promised[uid] = node
		}
	}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			promised[task.Pod.UID] = task.NodeName
		}
	}
	p.memory.promised = promised
}

// awaits tells that a pod need not have anybody evicted, because others are on their
// way out on the node that it was promised.
func (p *plugin) awaits(task *api.TaskInfo) bool {
	node, known := p.memory.promised[task.Pod.UID]
	if !known {
		node = task.Pod.Status.NominatedNodeName
	}
	return p.leavesNode(node)
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
// though not by a scheduler, leaves for nobody.
func (p *plugin) isEvicted(task *api.TaskInfo) bool {
	since, evicted := decision.EvictedSince(task.Pod)
	return leaving(task, task.Status) || evicted && (task.Status == api.Releasing || p.memory.now().Sub(since) < evictionLasts)
}
