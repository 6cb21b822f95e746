package action

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// waitsFor tells that a pod cannot be on a node only because pods that are on
// their way out are still there, or near: beside them it could not be, or there
// are as many pods as the node takes. It waits for them, and nobody else is to
// go.
func (w *wave) waitsFor(c *claim, node *api.NodeInfo) bool {
	leaving := false
	for _, task := range w.onTheirWay {
		other, known := w.ssn.Nodes[task.NodeName]
		if !known || other.Node == nil || node.Node == nil {
			continue
		}
		leaving = leaving || other.Name == node.Name
		w.pair(c.tasks[0].Pod, task.Pod)
		near := func(key string) bool {
			if key == corev1.LabelHostname {
				return other.Name == node.Name
			}
			value, has := node.Node.Labels[key]
			return has && other.Node.Labels[key] == value
		}
		if workload.KeepApartWhere(c.tasks[0].Pod, task.Pod, other.Name == node.Name, near) {
			return true
		}
	}
	return leaving && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
