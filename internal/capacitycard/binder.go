package capacitycard

import (
	"maps"

	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/cache"

	"cardquota.dev/operator/api/v1alpha1"
)

// SetupBindContextExtension puts into the annotations that a binding carries
// which queue the pod is charged to: the API server merges them into the pod in
// the same write that gives it its node. A PodGroup is its owner's to move,
// delete and make again, and says nothing reliable of cards that were handed out.
//
// Task and pod are copied: the pod is the informer's, which everybody reads, and
// the session goes on with the task while it is bound.
func (p *plugin) SetupBindContextExtension(_ *k8sframework.CycleState, binding *cache.BindContext) {
	charge := p.account.Charged(string(binding.TaskInfo.UID))
	if charge == nil {
		return
	}
	task := binding.TaskInfo.Clone()
	pod := *task.Pod
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[v1alpha1.AnnotationChargedQueue] = charge.Queue
	task.Pod = &pod
	binding.TaskInfo = task
}
