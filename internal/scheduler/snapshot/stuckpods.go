package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// FutureIdleOf returns how much of a resource a node has idle or will have, as Volcano counts it: pods that are
// being deleted give theirs back, and pipelined pods take theirs.
func FutureIdleOf(node *api.NodeInfo, resource corev1.ResourceName) float64 {
	return node.Idle.Get(resource) + node.Releasing.Get(resource) - node.Pipelined.Get(resource)
}

// StuckPods are terminating pods long past their grace period.
type StuckPods struct {
	*Session
	// ByNode has the pods of each node, without nodes that have none.
	ByNode map[string][]*api.TaskInfo
}

// Find finds the stuck pods of all nodes, also those without a job.
func (s *StuckPods) Find() {
	s.ByNode = map[string][]*api.TaskInfo{}
	for _, node := range s.Volcano.NodeList {
		for _, task := range node.Tasks {
			if task.Status == api.Releasing && s.IsStuckTerminating(task) {
				s.ByNode[node.Name] = append(s.ByNode[node.Name], task)
			}
		}
	}
}

// FutureIdleOn returns what a node has idle or will have, without the resources of stuck pods.
// Volcano expects those back, and would pipeline pods to them for ever.
func (s *StuckPods) FutureIdleOn(node *api.NodeInfo) *api.Resource {
	idle := node.FutureIdle()
	for _, task := range s.ByNode[node.Name] {
		// Volcano's Sub panics if less is left.
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

// NeedsStuckCards reports whether a pod fits a node only after stuck pods are gone, as Volcano expects.
func (s *StuckPods) NeedsStuckCards(task *api.TaskInfo, node *api.NodeInfo) bool {
	return len(s.ByNode[node.Name]) > 0 && task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) &&
		!task.InitResreq.LessEqual(node.Idle, api.Zero) && !task.InitResreq.LessEqual(s.FutureIdleOn(node), api.Zero)
}
