package harness

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Roles of pods.
const (
	Trainer   = "trainer"   // of a gang
	Single    = "single"    // training on its own
	Inference = "inference" // reclaims cards
)

// podRecord is the record of a pod.
type podRecord struct {
	node string
	// bound and running are when the pod was first seen so.
	bound, running time.Time
	// terminating reports whether the pod was deleted or has ended.
	terminating bool
}

// workload has the pods of one gang or Deployment.
type workload struct {
	role string
	pods map[types.UID]*podRecord
	// broken is when the first pod was lost, zero while the gang is complete.
	broken time.Time
}

// PodTracker watches all pods and records what evictions destroy.
type PodTracker struct {
	mu        sync.Mutex
	workloads map[string]*workload
	cards     int // used: bound and not leaving
	loss      Loss
	lastLoss  time.Time // of the last pod
}

// watchPods tracks the pods until ctx ends.
func watchPods(ctx context.Context, config *rest.Config) (*PodTracker, error) {
	// The tracker shares its processors with what is measured. So it reads pods in the cheap
	// encoding and keeps little of them.
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}

	b := &PodTracker{workloads: map[string]*workload{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(Namespace), informers.WithTransform(stripPod))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { b.observe(object.(*corev1.Pod), time.Now()) },
		UpdateFunc: func(_, object any) { b.observe(object.(*corev1.Pod), time.Now()) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				b.podDeleted(pod, time.Now())
			}
		},
	})
	if err != nil {
		return nil, err
	}

	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}

	return b, nil
}

func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	small := &corev1.Pod{Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}, Status: corev1.PodStatus{Phase: pod.Status.Phase}}
	small.Namespace = pod.Namespace
	small.Name = pod.Name
	small.UID = pod.UID
	small.Labels = pod.Labels
	small.DeletionTimestamp = pod.DeletionTimestamp
	return small, nil
}

func (b *PodTracker) observe(pod *corev1.Pod, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()

	name := pod.Labels[GroupLabel]
	if name == "" {
		return
	}

	w := b.workloads[name]
	if w == nil {
		w = &workload{role: pod.Labels[RoleLabel], pods: map[types.UID]*podRecord{}}
		b.workloads[name] = w
	}

	e := w.pods[pod.UID]
	if e == nil {
		e = &podRecord{}
		w.pods[pod.UID] = e
	}

	if e.bound.IsZero() && pod.Spec.NodeName != "" {
		e.bound = now
		e.node = pod.Spec.NodeName
		b.cards++
	}

	if e.running.IsZero() && pod.Status.Phase == corev1.PodRunning {
		e.running = now
	}

	if isLeaving(pod) {
		b.recordLeaving(w, e, now)
	}

	if !w.broken.IsZero() && w.runningPods() == GangSize {
		w.broken = time.Time{}
	}
}

// isLeaving reports whether a pod has ended or must end.
func isLeaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func (b *PodTracker) podDeleted(pod *corev1.Pod, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.workloads[pod.Labels[GroupLabel]]
	if w == nil || w.pods[pod.UID] == nil {
		return
	}
	b.recordLeaving(w, w.pods[pod.UID], now)
	delete(w.pods, pod.UID)
}

// recordLeaving records once that a pod is leaving. A gang that loses its first pod has lost
// the work of all its pods.
func (b *PodTracker) recordLeaving(w *workload, e *podRecord, now time.Time) {
	if e.terminating {
		return
	}

	e.terminating = true
	if e.bound.IsZero() {
		return
	}

	b.cards--
	b.lastLoss = now
	switch w.role {
	case Single:
		b.loss.Singles++
		b.loss.CardSeconds += e.secondsRun(now)
	case Trainer:
		if w.broken.IsZero() {
			w.broken = now
			b.loss.Gangs++
			for _, other := range w.pods {
				if other == e || !other.terminating {
					b.loss.CardSeconds += other.secondsRun(now)
				}
			}
		}
		b.loss.Apart = max(b.loss.Apart, now.Sub(w.broken))
	}
}

func (e *podRecord) secondsRun(now time.Time) float64 {
	if e.running.IsZero() {
		return 0
	}
	return now.Sub(e.running).Seconds()
}

func (w *workload) runningPods() int {
	return len(w.podTimes(func(e *podRecord) time.Time { return e.running }))
}

// podTimes returns when the remaining pods reached a state, for those that did.
func (w *workload) podTimes(when func(*podRecord) time.Time) (times []time.Time) {
	for _, e := range w.pods {
		if at := when(e); !at.IsZero() && !e.terminating {
			times = append(times, at)
		}
	}
	return times
}
