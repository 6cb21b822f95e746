package capacitycard

import (
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// hangsAfter is how much longer than its grace period a pod that is being deleted is waited
// for. It may hang for ever, on its finalizer or on a kubelet that is away.
const hangsAfter = 5 * time.Minute

// openHanging finds the pods that should be gone and are not, also those whose job is gone.
func (p *plugin) openHanging() {
	p.hanging = nil
	for _, node := range p.ssn.NodeList {
		for _, task := range node.Tasks {
			if task.Status != api.Releasing || !p.hangs(task) {
				continue
			}
			if p.hanging == nil {
				p.hanging = map[string][]*api.TaskInfo{}
			}
			p.hanging[node.Name] = append(p.hanging[node.Name], task)
		}
	}
}

// hangs reports whether a pod is there for long after it should have been gone.
func (p *plugin) hangs(task *api.TaskInfo) bool {
	deleted := task.Pod.DeletionTimestamp
	return deleted != nil && p.memory.now().Sub(deleted.Time) >= hangsAfter
}

// isKeptOff reports whether a pod that hangs keeps another one off a node. Volcano's
// preempt looks at what is left on a node without those that leave it, and would promise
// it for ever.
func (p *plugin) isKeptOff(task *api.TaskInfo, node *api.NodeInfo) bool {
	return slices.ContainsFunc(p.hanging[node.Name], func(other *api.TaskInfo) bool { return workload.KeepApart(task.Pod, other.Pod) })
}

// roomOn returns what a node has idle or will have, without what pods hold there that hang.
// Volcano expects to get that back, too, and would promise it for ever.
func (p *plugin) roomOn(node *api.NodeInfo) *api.Resource {
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
		!task.InitResreq.LessEqual(node.Idle, api.Zero) && !task.InitResreq.LessEqual(p.roomOn(node), api.Zero)
}

// mayPreemptOn reports whether some pod of a node may make room for another pod of its queue.
func (p *plugin) mayPreemptOn(node *api.NodeInfo, by *api.TaskInfo) bool {
	return len(p.preemptableOn(node, by)) > 0
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

// staysApart reports whether pods keep another one off a node that preempt may not evict for
// it. Volcano promises a node on which nothing needs to go without looking at that, and looks
// at no other node when the promise is refused.
func (p *plugin) staysApart(task *api.TaskInfo, node *api.NodeInfo) bool {
	if p.preemption == nil || p.fitsBeside(task, node) {
		return false
	}
	_, _, useful := p.keptApart(task, node, p.preemptableOn(node, task))
	return !useful
}
