package action

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
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/capacitycard"
)

// manner asks Volcano's job controller to replace pods.
type manner struct {
	once sync.Once
	// places limit how many pods are written to at the same time.
	places chan struct{}
}

// atOnce is how many pods are marked at the same time.
const atOnce = 32

// patience is how long the job controller may take to delete a pod that it was
// asked to replace. Then the pod is deleted here, and its job counts a retry.
var patience = 30 * time.Second

// again is how a write that failed is tried again: for about half a minute.
var again = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 9}

// replace asks for new pods in the place of a job's pods. It returns at once:
// the session knows the pods as leaving from now on.
func (m *manner) replace(client kubernetes.Interface, tasks []*api.TaskInfo) {
	m.once.Do(func() { m.places = make(chan struct{}, atOnce) })
	for _, task := range tasks {
		go func() {
			m.places <- struct{}{}
			defer func() { <-m.places }()
			if err := replaceOne(client, task.Pod); err != nil {
				klog.ErrorS(err, "A pod that is to be replaced could not be marked", "pod", klog.KObj(task.Pod))
			}
		}()
	}
}

// replaceOne marks a pod, and tries again until it is marked or gone.
func replaceOne(client kubernetes.Interface, pod *corev1.Pod) error {
	return wait.ExponentialBackoff(again, func() (bool, error) {
		err := mark(client, pod)
		if err != nil && !gone(client, pod, err) {
			klog.V(2).InfoS("A pod that is to be replaced could not be marked yet", "pod", klog.KObj(pod), "err", err)
			return false, nil
		}
		return true, nil
	})
}

// gone tells that a pod could not be written to because it exists no more, or
// because another one has its name.
func gone(client kubernetes.Interface, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	now, err := client.CoreV1().Pods(pod.Namespace).Get(context.TODO(), pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// mark writes the conditions that Volcano's own eviction writes, so that the pod
// says why it ends, and then the annotation that ends it.
func mark(client kubernetes.Interface, pod *corev1.Pod) error {
	now := metav1.Now()
	status, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now,
			Reason: "Evict", Message: fmt.Sprintf("Pod is evicted, because of %s", Name),
		}, {
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", pod.Spec.SchedulerName),
		}}},
	})
	if err != nil {
		return fmt.Errorf("write conditions: %w", err)
	}
	meta, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1alpha1.AnnotationOutOfSync: "true"},
	}})
	if err != nil {
		return fmt.Errorf("write annotation: %w", err)
	}
	pods := client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(context.TODO(), pod.Name, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	if _, err := pods.Patch(context.TODO(), pod.Name, types.MergePatchType, meta, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch annotation: %w", err)
	}
	return nil
}

// insist deletes pods that the job controller was asked to replace and has left
// alone for too long: those who were promised their cards wait for them.
func (a *Action) insist(ssn *framework.Session, tide *capacitycard.Tide) {
	for _, task := range tide.Overdue(patience) {
		klog.InfoS("Volcano's job controller has not replaced a pod, it is deleted", "pod", klog.KObj(task.Pod), "after", patience.String())
		if err := ssn.Evict(task, Name); err != nil {
			klog.ErrorS(err, "A pod could not be deleted", "pod", klog.KObj(task.Pod))
		}
	}
}
