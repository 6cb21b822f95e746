package cardreclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// podEvictor evicts pods. Volcano's job controller recreates those of a vcjob, all others are
// deleted. It repeats each failed write, and names the UID of the pod.
type podEvictor struct {
	// slots limits how many pods are written to at the same time.
	slots chan struct{}
	// backoff is how it repeats a failed write.
	backoff wait.Backoff
	timeouts
}

// newPodEvictor returns an evictor that writes to so many pods at the same time.
func newPodEvictor(atOnce int) podEvictor {
	return podEvictor{slots: make(chan struct{}, atOnce), backoff: writeBackoff, timeouts: timeouts{deletionTimeout, markTimeout}}
}

// timeouts are deletionTimeout and markTimeout, shorter ones in tests.
type timeouts struct{ deletion, mark time.Duration }

// maxConcurrentWrites is how many pods are written to at the same time.
const maxConcurrentWrites = 32

// deletionTimeout is how long a pod may exist after its eviction. Then the scheduler deletes it. If Volcano's job
// controller is to recreate it, its annotation (markOutOfSync) keeps the job's policies from counting
// that deletion.
const deletionTimeout = 30 * time.Second

// markTimeout is the same for pods that job controllers are to recreate and that do not have their annotation yet. It is
// longer than a write is repeated.
const markTimeout = 2 * time.Minute

// writeTimeout is how long the API server may take for one attempt of a write. All attempts of one write take
// less than markTimeout.
const writeTimeout = 10 * time.Second

// writeBackoff repeats a failed write for about half a minute.
var writeBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 9}

// evictPods evicts the pods of one job, and returns the evictions that failed, by pod. The
// condition of each pod is written before the first pod is evicted. If this process ends in between, the next
// one sees that and completes the eviction. recreated means that Volcano's job controller recreates the pods; others are
// deleted. action is named in the conditions.
func (p *podEvictor) evictPods(client kubernetes.Interface, tasks []*api.TaskInfo, recreated bool, action string) map[types.UID]error {
	evict := deletePod
	if recreated {
		evict = markOutOfSync
	}
	// Only pods that are gone are left out: without its condition a pod is evicted all the same.
	existing, _ := p.writeAll(client, tasks, setDisruptionTarget(action))
	_, failed := p.writeAll(client, existing, evict)
	return failed
}

// podWrite is one write to a pod.
type podWrite func(context.Context, kubernetes.Interface, *corev1.Pod) error

// writeAll writes to all pods at the same time, as far as slots allow, until each write succeeds or fails for good. It
// returns the pods that still exist, also those whose write failed, and the errors by pod.
func (p *podEvictor) writeAll(client kubernetes.Interface, tasks []*api.TaskInfo, write podWrite) ([]*api.TaskInfo, map[types.UID]error) {
	var all sync.WaitGroup
	exists := make([]bool, len(tasks))
	errs := make([]error, len(tasks))
	for i, task := range tasks {
		all.Go(func() {
			exists[i], errs[i] = p.writeWithRetry(client, task.Pod, write)
			if errs[i] != nil {
				klog.ErrorS(errs[i], "Pod could not be evicted", "pod", klog.KObj(task.Pod))
			}
		})
	}

	all.Wait()
	var left []*api.TaskInfo
	failed := map[types.UID]error{}
	for i, task := range tasks {
		if exists[i] {
			left = append(left, task)
		}
		if errs[i] != nil {
			failed[task.Pod.UID] = errs[i]
		}
	}

	return left, failed
}

// writeWithRetry writes to a pod until that succeeds or the pod is gone, and reports whether the pod still
// exists. It returns an error after the last repetition of the backoff; only the log has the cause.
func (p *podEvictor) writeWithRetry(client kubernetes.Interface, pod *corev1.Pod, write podWrite) (exists bool, err error) {
	exists = true
	err = wait.ExponentialBackoff(p.backoff, func() (bool, error) {
		// A pod that fails again and again takes a slot only while it is written, not while it waits.
		p.slots <- struct{}{} // when one is free
		defer func() { <-p.slots }()

		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()

		err := write(ctx, client, pod)
		if err != nil && isGone(ctx, client, pod, err) {
			exists = false
		} else if err != nil {
			klog.V(2).InfoS("Pod could not be evicted yet", "pod", klog.KObj(pod), "err", err)
			return false, nil
		}

		return true, nil
	})

	return exists, err
}

// isGone reports whether a write failed because the pod does not exist any more, or another
// one has its name. Another one has another UID, which the API server reports as a conflict.
func isGone(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || (err == nil && now.UID != pod.UID)
}

// setDisruptionTarget returns the write of the conditions that Volcano's own eviction writes, so that the
// pod shows why it ends.
func setDisruptionTarget(action string) podWrite {
	return func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
		now := metav1.Now()

		// With the UID the API server refuses to write to a new pod of the same name.
		return patchStatus(ctx, client, pod, types.StrategicMergePatchType, map[string]any{
			"metadata": map[string]any{"uid": pod.UID},
			"status": map[string]any{"conditions": []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now,
				Reason: "Evict", Message: fmt.Sprintf("Pod is evicted, because of %s", action),
			}, {
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: corev1.PodReasonPreemptionByScheduler,
				Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", pod.Spec.SchedulerName),
			}}},
		})
	}
}

// markOutOfSync writes the annotation that makes Volcano's job controller recreate the pod. It
// writes through the status, so that the scheduler needs no right to change pod specs.
func markOutOfSync(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	return patchStatus(ctx, client, pod, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{workload.AnnotationOutOfSync: "true"},
	}})
}

// patchStatus writes a change of a pod through its status, as a patch of the given type.
func patchStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, how types.PatchType, change any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	if _, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, how, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

// deletePod deletes a pod, and no other one of its name.
func deletePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	return client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
}
