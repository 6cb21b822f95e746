package preemption

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// nominationTimeout is how long a pod waits for its nominated node while no pod there is
// deleted.
const nominationTimeout = 5 * time.Minute

// AwaitsNominatedNode reports whether a pod needs no eviction, because pods are leaving the
// node nominated for it, which were evicted before this session. It waits only while the node still
// accepts the pod, and for a bounded time. The answer stays true for the whole node search.
func (p *Preemption) AwaitsNominatedNode(task *api.TaskInfo) bool {
	s := p.search.Load()
	if s == nil || s.Task.UID != task.UID {
		return p.computeAwaitsNominatedNode(task)
	}
	s.awaitsOnce.Do(func() { s.awaitsNominated = p.computeAwaitsNominatedNode(task) })
	return s.awaitsNominated
}

// computeAwaitsNominatedNode is AwaitsNominatedNode without the answer of the search. The pod waits longer than
// nominationTimeout only while a pod on the node is deleted, because that one certainly leaves.
func (p *Preemption) computeAwaitsNominatedNode(task *api.TaskInfo) bool {
	nomination := p.kept.NominationFor(task)
	isDeleted := func(task *api.TaskInfo) bool { return task.Pod.DeletionTimestamp != nil }
	isLeaving := func(task *api.TaskInfo) bool { return p.IsBeingEvicted(task) && !p.run.evicts(task) }
	node := p.Volcano.Nodes[nomination.Node]
	return snapshot.AnyTaskOn(node, isLeaving) && (p.Now().Sub(nomination.Since) < nominationTimeout || snapshot.AnyTaskOn(node, isDeleted)) &&
		p.Volcano.PredicateForPreemptAction(task, node) == nil
}

// hideOldNominations hides the nominated node of each pending pod if no evicted pod is on it, until the
// returned function is called. Volcano also nominates nodes of placements that it undid, and never withdraws
// a nomination. It would let no such pod preempt while the node passes the predicates.
func (p *Preemption) hideOldNominations() (restore func()) {
	hidden := map[*api.TaskInfo]*corev1.Pod{}
	for _, job := range p.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if node := task.Pod.Status.NominatedNodeName; node == "" || p.kept.HasEvictedPods(node) {
				continue
			}

			hidden[task] = task.Pod
			pod := *task.Pod // the original belongs to the informer
			pod.Status.NominatedNodeName = ""
			p.Cache.ReplaceObject(task.Pod, &pod) // it knows pods by their objects
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
