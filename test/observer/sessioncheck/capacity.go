package sessioncheck

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// checkCapacity checks a pod that the scheduler has just placed.
func (j *Checker) checkCapacity(state *podState, at time.Time) {
	object := "pod/" + state.pod.Namespace + "/" + state.pod.Name
	if state.charge != nil && j.state.countsCPUMemory(state) {
		for _, queue := range j.state.pathOf(state.charge.Queue) {
			j.checkCPUMemory(object, queue, state, at)
		}
	}
	j.checkNode(object, state, at)
}

// checkCPUMemory compares the usage of the queue with the highest limit that the session may
// have seen.
func (j *Checker) checkCPUMemory(object, queue string, state *podState, at time.Time) {
	used := j.state.subtreeUsage(queue)
	milliCPU := int64(0)
	memory := int64(0)
	for _, m := range j.history.since(j.WindowStart(at)) {
		limits, exists := m.limits[queue]
		if !exists {
			continue
		}
		milliCPU = higherLimit(milliCPU, limits.MilliCPU)
		memory = higherLimit(memory, limits.Memory)
	}

	if state.request.MilliCPU > 0 && !isWithin(milliCPU, used.milliCPU) {
		j.addViolation(Capacity, at, object, "was placed: queue <%s> now uses %dm CPU of at most %dm", queue, used.milliCPU, milliCPU)
	}
	if state.request.Memory > 0 && !isWithin(memory, used.memory) {
		j.addViolation(Capacity, at, object, "was placed: queue <%s> now uses %d bytes of memory of at most %d", queue, used.memory, memory)
	}
}

func higherLimit(a, b int64) int64 {
	if a == rule.Unlimited || b == rule.Unlimited {
		return rule.Unlimited
	}
	return max(a, b)
}

// checkNode checks that a node has what its pods request. Our scheduler may not have known a
// pod that another scheduler placed there a moment ago.
func (j *Checker) checkNode(object string, state *podState, at time.Time) {
	since := j.WindowStart(at)
	name := state.pod.Spec.NodeName
	node, known := j.state.nodes[name]
	if !known {
		return
	}

	for uid, other := range j.state.pods {
		if other.pod.Spec.NodeName == name && other.pod.Spec.SchedulerName != j.options.SchedulerName && j.history.placed[uid].After(since) {
			return
		}
	}

	most := j.highestAllocatable(name, node, since)
	for resource, amount := range j.state.nodeUsage(true)[name] {
		limit, stated := most[resource]
		if isRequested := state.requests[resource] > 0 || resource == corev1.ResourcePods; isRequested && (stated || resource != corev1.ResourcePods) && amount > limit {
			j.addViolation(Capacity, at, object, "was placed: the pods on node %s now request %d %s, and it has %d", name, amount, resource, limit)
		}
	}
}

// highestAllocatable returns the most that a node had of each resource since a moment.
func (j *Checker) highestAllocatable(name string, node nodeState, since time.Time) amounts {
	most := maps.Clone(node.allocatable)
	for _, m := range j.history.since(since) {
		for resource, amount := range m.allocatable[name] {
			most[resource] = max(most[resource], amount)
		}
	}
	return most
}
