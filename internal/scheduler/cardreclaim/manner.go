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
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// podEvictor tells pods to go: those of a vcjob by Volcano's job controller, which replaces
// them, all others by deleting them. Each write is tried again, and names the UID of the pod.
type podEvictor struct {
	// places limit how many pods are written to at the same time.
	slots chan struct{}
	// again is how a write that failed is tried again.
	backoff wait.Backoff
}

// newPodEvictor writes to so many pods at a time.
func newPodEvictor(atOnce int) podEvictor {
	return podEvictor{slots: make(chan struct{}, atOnce), backoff: writeBackoff}
}

// maxConcurrentWrites is how many pods are marked at the same time.
const maxConcurrentWrites = 32

// evictionTimeout is how long a pod may still be there that was told to go. Then it is deleted;
// the mark of one that the job controller was asked to replace keeps the policies of its
// job from counting that, too.
var evictionTimeout = 30 * time.Second

// markTimeout is the same for pods that do not even show their mark: for longer than
// writes are tried again.
var markTimeout = 2 * time.Minute

// writeTimeout is how long the API server may take to answer a write. All tries of one
// write take less than unmarked.
const writeTimeout = 10 * time.Second

// writeBackoff is how a write that failed is tried again: for about half a minute.
var writeBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 9}

// evictPods tells the pods of one job to go, and returns what could not be written, by pod.
// All of them are told why before the first is told to go. If this process ends in between,
// the next one sees what was meant, and finishes it.
func (m *podEvictor) evictPods(client kubernetes.Interface, tasks []*api.TaskInfo, replaced bool, action string) map[types.UID]error {
	last := deletePod
	if replaced {
		last = markOutOfSync
	}
	left, _ := m.writeAll(client, tasks, setDisruptionTarget(action))
	_, failed := m.writeAll(client, left, last)
	return failed
}

// podWrite is one write to a pod.
type podWrite func(context.Context, kubernetes.Interface, *corev1.Pod) error

// writeAll writes to all pods, at most atOnce at a time, until that is done or was
// given up, and returns those that are still there, and why some were given up.
func (m *podEvictor) writeAll(client kubernetes.Interface, tasks []*api.TaskInfo, write podWrite) ([]*api.TaskInfo, map[types.UID]error) {
	var all sync.WaitGroup
	there, errs := make([]bool, len(tasks)), make([]error, len(tasks))
	for i, task := range tasks {
		all.Go(func() {
			if there[i], errs[i] = m.writeWithRetry(client, task.Pod, write); errs[i] != nil {
				klog.ErrorS(errs[i], "A pod could not be told to go", "pod", klog.KObj(task.Pod))
			}
		})
	}
	all.Wait()
	var left []*api.TaskInfo
	failed := map[types.UID]error{}
	for i, task := range tasks {
		if there[i] {
			left = append(left, task)
		}
		if errs[i] != nil {
			failed[task.Pod.UID] = errs[i]
		}
	}
	return left, failed
}

// writeWithRetry writes to a pod, and tries again until that went well or the pod is
// gone; it tells whether it is still there.
func (m *podEvictor) writeWithRetry(client kubernetes.Interface, pod *corev1.Pod, write podWrite) (there bool, err error) {
	there = true
	err = wait.ExponentialBackoff(m.backoff, func() (bool, error) {
		m.slots <- struct{}{} // when one is free
		defer func() { <-m.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		err := write(ctx, client, pod)
		if err != nil && isGone(ctx, client, pod, err) {
			there = false
		} else if err != nil {
			klog.V(2).InfoS("A pod could not be told to go yet", "pod", klog.KObj(pod), "err", err)
			return false, nil
		}
		return true, nil
	})
	return there, err
}

// isGone tells that a pod could not be written to because it exists no more, or
// because another one has its name.
func isGone(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// setDisruptionTarget writes the conditions that Volcano's own eviction writes, so that the
// pod says why it ends.
func setDisruptionTarget(action string) podWrite {
	return func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
		now := metav1.Now()
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

// markOutOfSync writes the annotation by which Volcano's job controller replaces the pod. The
// status of a pod takes annotations as well: so the scheduler needs no right to change
// what a pod runs.
func markOutOfSync(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	return patchStatus(ctx, client, pod, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{workload.AnnotationOutOfSync: "true"},
	}})
}

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

// deleteOverdue deletes pods that were told to go and are still there after too long: those
// who were promised their cards wait for them.
func (a *Action) deleteOverdue(ssn *framework.Session, policy *capacitycard.ReclaimPolicy) {
	for _, task := range policy.OverdueEvictions(evictionTimeout) {
		if a.isRecreated(task.Pod.Namespace, workload.VCJobOwner(task.Pod)) && !workload.IsMarkedOutOfSync(task.Pod) && !policy.EvictingLongerThan(task, markTimeout) {
			continue // its mark is still on its way; deleted without it a retry would count
		}
		klog.InfoS("A pod that was told to go is still there, it is deleted", "pod", klog.KObj(task.Pod), "after", evictionTimeout.String())
		go a.evictor.writeAll(ssn.KubeClient(), []*api.TaskInfo{task}, deletePod)
		policy.MarkEvicting(task) // from now on, so that it is not asked again every session
	}
}

// JobPolicies tells how Volcano jobs take it when their pods are taken away.
type JobPolicies interface {
	// Open is called when a session begins.
	OpenSession(*framework.Session)
	// HabitOf is false for a job that is not known.
	EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool)
}

// jobInformer watches the jobs through the API, from the first session on. Volcano's
// scheduler knows PodGroups only, and they carry no policies.
type jobInformer struct {
	once   sync.Once
	store  cache.Store
	synced cache.InformerSynced
}

func (i *jobInformer) OpenSession(ssn *framework.Session) {
	client := ssn.VCClient()
	if client == nil {
		return
	}
	i.once.Do(func() {
		factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithTransform(keepPolicies))
		informer := factory.Batch().V1alpha1().Jobs().Informer()
		i.store, i.synced = informer.GetStore(), informer.HasSynced
		factory.Start(wait.NeverStop)
	})
}

// keepPolicies keeps what habits are read from: thousands of pod templates are
// nobody's business here.
func keepPolicies(object any) (any, error) {
	job, ok := object.(*batch.Job)
	if !ok {
		return object, nil
	}
	kept := &batch.Job{Spec: batch.JobSpec{Policies: job.Spec.Policies}}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = job.Namespace, job.Name, job.UID, job.ResourceVersion
	for i := range job.Spec.Tasks {
		kept.Spec.Tasks = append(kept.Spec.Tasks, batch.TaskSpec{Policies: job.Spec.Tasks[i].Policies})
	}
	return kept, nil
}

func (i *jobInformer) EvictionPolicyFor(namespace, name string) (workload.EvictionPolicy, bool) {
	if i.store == nil || !i.synced() {
		return workload.EvictionPolicy{}, false
	}
	stored, exists, err := i.store.GetByKey(namespace + "/" + name)
	job, ok := stored.(*batch.Job)
	if err != nil || !exists || !ok {
		return workload.EvictionPolicy{}, false
	}
	return workload.EvictionPolicyFor(job), true
}
