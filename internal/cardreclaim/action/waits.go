package action

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/decision"
)

// waitsFor tells that a pod cannot be on a node only because pods that are on
// their way out are still there: beside them it could not be, or there are as
// many pods as the node takes. It waits for them, and nobody else is to go.
func (w *wave) waitsFor(c *claim, node *api.NodeInfo) bool {
	leaving := false
	for _, task := range node.Tasks {
		if w.onTheirWay[task.UID] {
			leaving = true
			if decision.KeepApart(c.tasks[0].Pod, task.Pod) {
				return true
			}
		}
	}
	return leaving && len(node.Tasks) >= node.Allocatable.MaxTaskNum
}
