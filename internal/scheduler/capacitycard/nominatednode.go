package capacitycard

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// hideOldNominations hides the nominated nodes of pending pods that no evicted pod leaves, until
// the returned function is called. Volcano also writes nodes of placements that it undid, and never
// withdraws one. It would let no such pod preempt while the node passes the predicates.
func (p *Plugin) hideOldNominations() (restore func()) {
	hidden := map[*api.TaskInfo]*corev1.Pod{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if node := task.Pod.Status.NominatedNodeName; node == "" || p.hasEvictedPods(node) {
				continue
			}

			hidden[task] = task.Pod
			pod := *task.Pod // the original belongs to the informer
			pod.Status.NominatedNodeName = ""
			p.cache.replaceObject(task.Pod, &pod)
			task.Pod = &pod
		}
	}

	return func() {
		for task, original := range hidden {
			p.cache.replaceObject(task.Pod, original)
			task.Pod = original
		}
	}
}

// replaceObject makes another object of a pod stand for it.
func (c *Cache) replaceObject(old, other *corev1.Pod) {
	state, known := c.podsByObject[old]
	if !known {
		return
	}
	delete(c.podsByObject, old)
	state.object = other
	c.podsByObject[other] = state
}

// evicts reports whether the action evicts a pod in this session.
func (p *preemption) evicts(task *api.TaskInfo) bool {
	return p != nil && (p.evicted[task.Job][task.UID] != nil || p.restOfGangs[task.Job] != nil)
}
