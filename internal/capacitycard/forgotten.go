package capacitycard

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// deleteWithin is how long the API server may take to delete a pod. It is asked again by
// the next session.
const deleteWithin = 10 * time.Second

// deleteForgotten deletes pods that Volcano evicts in this session and that said so long
// ago: its evictor writes that first, and does nothing about a pod that says it already.
// Where the deletion failed then, nobody would ever try it again.
func (p *plugin) deleteForgotten() {
	client := p.ssn.KubeClient()
	if client == nil {
		return
	}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Releasing] {
			_, told := p.memory.leaving[task.Pod.UID]
			if !told && task.Pod.DeletionTimestamp == nil && p.evictionIsOld(task) {
				go deletePod(client, task)
			}
		}
	}
}

func deletePod(client kubernetes.Interface, task *api.TaskInfo) {
	ctx, cancel := context.WithTimeout(context.Background(), deleteWithin)
	defer cancel()
	err := client.CoreV1().Pods(task.Pod.Namespace).Delete(ctx, task.Pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(task.Pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		klog.ErrorS(err, "A pod that was evicted could not be deleted", "pod", klog.KObj(task.Pod))
	}
}
