package judge

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// judgeCapacity checks a pod that the scheduler has just placed.
func (j *Judge) judgeCapacity(state *podState, at time.Time) {
	object := "pod/" + state.pod.Namespace + "/" + state.pod.Name
	if state.charge != nil && j.world.countsCPUMemory(state) {
		j.judgeCPUMemory(object, state, at)
	}
	j.judgeNode(object, state, at)
}

// judgeCPUMemory compares what the queue holds now with the highest limit that the
// session may have seen.
func (j *Judge) judgeCPUMemory(object string, state *podState, at time.Time) {
	queue := state.charge.Queue
	used, milliCPU, memory := j.world.useOf(queue), int64(0), int64(0)
	for _, m := range j.history.since(j.Since(at)) {
		limits, exists := m.limits[queue]
		if !exists {
			continue
		}
		milliCPU, memory = higher(milliCPU, limits.MilliCPU), higher(memory, limits.Memory)
	}
	if state.ask.MilliCPU > 0 && !within(milliCPU, used.milliCPU) {
		j.report(Capacity, at, object, "was placed: queue <%s> now holds %dm CPU of at most %dm", queue, used.milliCPU, milliCPU)
	}
	if state.ask.Memory > 0 && !within(memory, used.memory) {
		j.report(Capacity, at, object, "was placed: queue <%s> now holds %d bytes of memory of at most %d", queue, used.memory, memory)
	}
}

func higher(a, b int64) int64 {
	if a == rule.Unlimited || b == rule.Unlimited {
		return rule.Unlimited
	}
	return max(a, b)
}

// judgeNode checks that a node has what its pods request. What another scheduler
// placed there a moment ago may have been unknown to ours.
func (j *Judge) judgeNode(object string, state *podState, at time.Time) {
	since := j.Since(at)
	name := state.pod.Spec.NodeName
	node, known := j.world.nodes[name]
	if !known {
		return
	}
	most := maps.Clone(node.allocatable)
	for _, m := range j.history.since(since) {
		for resource, amount := range m.allocatable[name] {
			most[resource] = max(most[resource], amount)
		}
	}
	for uid, other := range j.world.pods {
		if other.pod.Spec.NodeName == name && other.pod.Spec.SchedulerName != j.options.SchedulerName && j.history.placed[uid].After(since) {
			return
		}
	}
	used := j.world.usedOn(true)[name]
	for resource, amount := range used {
		limit, stated := most[resource]
		if asks := state.requests[resource] > 0 || resource == corev1.ResourcePods; asks && (stated || resource != corev1.ResourcePods) && amount > limit {
			j.report(Capacity, at, object, "was placed: the pods on node %s now request %d %s, and it has %d", name, amount, resource, limit)
		}
	}
}
