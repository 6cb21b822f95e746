package action

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
)

// Evictor evicts pods for Volcano's cache. Volcano's own writes to each pod once, and a
// gang of which one write fails is left in part. Here each write is tried again. Pods that
// preempt evicts are left to the action Preempt, which knows how their job takes it.
type Evictor struct {
	manner *manner
	// client and recorder are those of the cache.
	client   kubernetes.Interface
	recorder record.EventRecorder
}

var _ cache.Evictor = &Evictor{}

// Use gives the evictor the client and the recorder of the cache that it evicts for.
func (e *Evictor) Use(client kubernetes.Interface, recorder record.EventRecorder) *Evictor {
	e.client, e.recorder = client, recorder
	return e
}

// Evict deletes a pod that an action evicts, and returns when that is done or was given up.
// With an error Volcano's cache looks the pod up again. For preempt it does nothing: the
// action tells the pod to go, and insists until the pod is gone. Meanwhile the cache
// has it as one that goes, which is what the next session has to know.
func (e *Evictor) Evict(pod *corev1.Pod, reason string) error {
	if reason == PreemptName {
		return nil
	}
	e.tell(pod, reason)
	return e.manner.inTwoSteps(e.client, []*api.TaskInfo{{Pod: pod}}, false, reason)[pod.UID]
}

// tell sends the event that Volcano's own evictor sends.
func (e *Evictor) tell(pod *corev1.Pod, reason string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
}
