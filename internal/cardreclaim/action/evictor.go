package action

import (
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
)

// orderedWithin is how long an eviction of preempt may wait for its action to tell the pod
// to go: a session and all tries of its writes.
const orderedWithin = 10 * time.Minute

// errNotOrdered says that an action evicted a pod and did not tell it to go.
var errNotOrdered = errors.New("the action that evicts the pod did not tell it to go")

// Evictor evicts pods for Volcano's cache. Volcano's own writes to each pod once, and a
// gang of which one write fails is left in part. A deletion counts a retry of a Volcano
// job, so the action Preempt tells pods to go itself: here their evictions only wait for it.
// All others are deleted, and each write is tried again.
type Evictor struct {
	manner *manner
	// client and recorder are those of the cache.
	client   kubernetes.Interface
	recorder record.EventRecorder

	mutex   sync.Mutex
	ordered map[types.UID]chan error
}

var _ cache.Evictor = &Evictor{}

func newEvictor(m *manner) *Evictor {
	return &Evictor{manner: m, ordered: map[types.UID]chan error{}}
}

// Use gives the evictor the client and the recorder of the cache that it evicts for.
func (e *Evictor) Use(client kubernetes.Interface, recorder record.EventRecorder) *Evictor {
	e.client, e.recorder = client, recorder
	return e
}

// Evict evicts a pod for an action, and returns when that is done or was given up. With
// an error Volcano's cache looks the pod up again.
func (e *Evictor) Evict(pod *corev1.Pod, reason string) error {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
	if reason != PreemptName {
		task := &api.TaskInfo{Pod: pod}
		return e.manner.inTwoSteps(e.client, []*api.TaskInfo{task}, false, reason)[pod.UID]
	}
	order := e.order(pod.UID)
	defer e.forget(pod.UID)
	select {
	case err := <-order:
		return err
	case <-time.After(orderedWithin):
		return fmt.Errorf("evict %s/%s: %w", pod.Namespace, pod.Name, errNotOrdered)
	}
}

// order returns where the outcome for a pod is sent.
func (e *Evictor) order(pod types.UID) chan error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.ordered[pod] == nil {
		e.ordered[pod] = make(chan error, 1)
	}
	return e.ordered[pod]
}

func (e *Evictor) forget(pod types.UID) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.ordered, pod)
}

// done tells the eviction of a pod, if there is one, that the pod was told to go, or why
// not.
func (e *Evictor) done(pod types.UID, err error) {
	select {
	case e.order(pod) <- err:
		time.AfterFunc(orderedWithin, func() { e.forget(pod) }) // nobody asks about the rest of a gang
	default: // told before
	}
}
