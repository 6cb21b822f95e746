package capacitycard

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// tellIfLost says on a waiting pod of this scheduler that its queue does not
// exist or takes nothing. Volcano makes no PodGroup for such a pod, so it never
// reaches a session and nobody else would ever tell.
func (p *plugin) tellIfLost(pod *corev1.Pod) {
	if !workload.Waiting(pod) || workload.PodGroupName(pod) != "" || !ours(pod) {
		return
	}
	queue := workload.QueueOf(pod, nil, "")
	if queue == "" {
		queue = workload.DefaultQueue
	}
	_ = p.welcome(api.QueueID(queue), pod.Namespace) // so that the gate remembers it
	refusal := p.closedGate(api.QueueID(queue), pod.Namespace)
	if refusal == nil || refusal.Reason == workload.ReasonNotReady {
		return
	}
	if _, isNew := p.memory.voice.say(pod.UID, refusal); isNew {
		p.event(pod, refusal)
		go p.memory.voice.mark(p.ssn.KubeClient(), pod.DeepCopy(), refusal)
	}
}

// ours tells whether this scheduler is asked to place the pod.
func ours(pod *corev1.Pod) bool {
	return options.ServerOpts != nil && slices.Contains(options.ServerOpts.SchedulerNames, pod.Spec.SchedulerName)
}

// mark sets the pod's condition PodScheduled, outside the session, because it
// asks the API server. What could not be written is said again.
func (v *voice) mark(client kubernetes.Interface, pod *corev1.Pod, refusal *workload.Refusal) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	changed := podutil.UpdatePodCondition(&pod.Status, &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: refusal.Message,
	})
	if !changed || client == nil {
		return
	}
	if _, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		klog.V(2).InfoS("Cannot set a pod's condition yet", "pod", klog.KObj(pod), "err", err)
		v.forget(pod.UID)
	}
}
