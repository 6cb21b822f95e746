package capacitycard

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// nominationTimeout is how long a pod waits for its nominated node while no pod there is
// deleted.
const nominationTimeout = 5 * time.Minute

// awaitsNominatedNode reports whether a pod needs no eviction, because pods are leaving the
// node nominated for it, which were evicted before this session. It waits only while the node still
// accepts the pod, and for a bounded time. The answer stays true for the whole node search.
func (p *preemption) awaitsNominatedNode(task *api.TaskInfo) bool {
	s := p.search.Load()
	if s == nil || s.Task.UID != task.UID {
		return p.computeAwaitsNominatedNode(task)
	}
	s.awaitsOnce.Do(func() { s.awaitsNominated = p.computeAwaitsNominatedNode(task) })
	return s.awaitsNominated
}

func (p *preemption) computeAwaitsNominatedNode(task *api.TaskInfo) bool {
	made := p.kept.NominationFor(task)
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	isLeaving := func(task *api.TaskInfo) bool { return p.IsBeingEvicted(task) && !p.run.evicts(task) }
	node := p.Volcano.Nodes[made.Node]
	return snapshot.AnyTaskOn(node, isLeaving) && (p.Cache.Now().Sub(made.Since) < nominationTimeout || snapshot.AnyTaskOn(node, isDeleted)) &&
		p.Volcano.PredicateForPreemptAction(task, node) == nil
}

// preemptableTasksOn returns the pods of a node that may be evicted for another pod of their
// queue.
func (p *preemption) preemptableTasksOn(node *api.NodeInfo, preemptor *api.TaskInfo) []*api.TaskInfo {
	queue := p.Volcano.Jobs[preemptor.Job].Queue
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.Volcano.Jobs[task.Job]
		isInQueue := job != nil && job.Queue == queue
		if isInQueue && api.PreemptableStatus(task.Status) && p.mayPreempt(preemptor, task) && p.IsEvictable(task) {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// hideOldNominations hides the nominated nodes of pending pods that no evicted pod leaves, until
// the returned function is called. Volcano also writes nodes of placements that it undid, and never
// withdraws one. It would let no such pod preempt while the node passes the predicates.
func (p *preemption) hideOldNominations() (restore func()) {
	hidden := map[*api.TaskInfo]*corev1.Pod{}
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if node := task.Pod.Status.NominatedNodeName; node == "" || p.kept.HasEvictedPods(node) {
				continue
			}

			hidden[task] = task.Pod
			pod := *task.Pod // the original belongs to the informer
			pod.Status.NominatedNodeName = ""
			p.Cache.ReplaceObject(task.Pod, &pod)
			task.Pod = &pod
		}
	}

	return func() {
		for task, original := range hidden {
			p.Cache.ReplaceObject(task.Pod, original)
			task.Pod = original
		}
	}
}

// evicts reports whether the action evicts a pod in this session.
func (p *preemptRun) evicts(task *api.TaskInfo) bool {
	return p != nil && (p.evicted[task.Job][task.UID] != nil || p.restOfGangs[task.Job] != nil)
}
