package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/workload"
)

const (
	// reasonForeignScheduler is the reason of those events and on the readiness page.
	reasonForeignScheduler = "ForeignScheduler"
	// lookupInterval is the time between two lookups.
	lookupInterval = time.Second
	// lookupTimeout is how long the API server may take to answer one.
	lookupTimeout = 5 * time.Second
)

// OtherSchedulers finds pods that run another scheduler. Volcano's installer starts its
// scheduler without leader election, so the lease does not exclude it: this process is a
// candidate only while there is no such pod. If the API server does not answer, it waits.
type OtherSchedulers struct {
	client kubernetes.Interface
	// namespaces are searched, sorted. A pod elsewhere belongs to a tenant, who must not be
	// able to stop the scheduler with a label.
	namespaces []string
	// selector finds the pods; nil finds none.
	selector labels.Selector
	// ownPod is the name of the pod that this process runs in.
	ownPod   string
	recorder record.EventRecorder

	mu sync.Mutex
	// obstacle is what this process waits for, "" when for nothing.
	obstacle string
	notified map[types.UID]bool
}

// NewOtherSchedulers returns an OtherSchedulers that finds the pods of a selector, nil for none, in
// some namespaces. ownPod is the name of the pod that this process runs in. The recorder, which may be
// nil, records events about the pods.
func NewOtherSchedulers(client kubernetes.Interface, namespaces []string, selector labels.Selector, ownPod string, recorder record.EventRecorder) *OtherSchedulers {
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	return &OtherSchedulers{client: client, namespaces: namespaces, selector: selector, ownPod: ownPod, recorder: recorder, notified: map[types.UID]bool{}}
}

// podsOfOtherSchedulers returns the pods in which another scheduler may run, sorted by name.
// The own pod and those of its ReplicaSet do not count: where our image replaced that of
// Volcano's Deployment, the replicas carry the label of the stock scheduler.
func podsOfOtherSchedulers(pods []*corev1.Pod, ownPod string) []*corev1.Pod {
	var replicaSet types.UID
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); pod.Name == ownPod && owner != nil {
			replicaSet = owner.UID
		}
	}

	var found []*corev1.Pod
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		isReplica := pod.Name == ownPod || (owner != nil && owner.UID == replicaSet)
		if !isReplica && workload.MayBeRunning(pod) {
			found = append(found, pod)
		}
	}

	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// describePods names pods that run another scheduler, "" for none.
func describePods(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	const maxNames = 3
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Namespace + "/" + pod.Name
	}
	return "another scheduler runs in pod " + conditions.JoinFirst(names, maxNames) + ", and two must never run at the same time: scale its Deployment to 0"
}

// waitUntilNone waits until no other scheduler runs, or ctx ends, which is an error. Meanwhile it reports what it
// waits for.
func (o *OtherSchedulers) waitUntilNone(ctx context.Context) error {
	defer o.reportObstacle("", nil)

	return wait.PollUntilContextCancel(ctx, lookupInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := o.listPods(ctx)
		obstacle := describePods(pods)
		// In a namespace that cannot be read another scheduler may run.
		if err != nil && len(pods) == 0 {
			obstacle = err.Error()
		}
		if ctx.Err() == nil && obstacle != "" {
			o.reportObstacle(obstacle, pods)
		}
		return obstacle == "", ctx.Err()
	})
}

// confirmNone waits until the API server says whether another scheduler runs, or ctx ends. A
// running one is an error, the end of ctx is not.
func (o *OtherSchedulers) confirmNone(ctx context.Context) error {
	return o.pollForAny(ctx, func(err error) bool {
		if err != nil {
			klog.ErrorS(err, "elected, but nothing is scheduled yet")
		}
		return err == nil
	})
}

// waitForAny waits until another scheduler runs and returns it as an error; nil when ctx ends
// first.
func (o *OtherSchedulers) waitForAny(ctx context.Context) error {
	return o.pollForAny(ctx, func(error) bool { return false }) // the leader continues while the API server does not answer
}

// pollForAny lists pods until it finds another scheduler, which is the error, until isDone
// accepts a result without one, or until ctx ends. isDone gets the error of the list, nil if all was read.
func (o *OtherSchedulers) pollForAny(ctx context.Context, isDone func(error) bool) error {
	err := wait.PollUntilContextCancel(ctx, lookupInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := o.listPods(ctx)
		if len(pods) > 0 {
			return false, fmt.Errorf("%s: %s", reasonForeignScheduler, describePods(pods))
		}
		return isDone(err), nil
	})
	if wait.Interrupted(err) {
		return nil
	}
	return err
}

// listPods returns the pods of other schedulers, as the API server knows them now. Beside an error they are
// those of the namespaces that could be read.
func (o *OtherSchedulers) listPods(ctx context.Context) ([]*corev1.Pod, error) {
	if o.selector == nil {
		return nil, nil
	}

	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()

	var pods []*corev1.Pod
	var unread error
	for _, namespace := range o.namespaces {
		list, err := o.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: o.selector.String()})
		if err != nil {
			// A pod in another namespace counts although this one cannot be read.
			unread = errors.Join(unread, fmt.Errorf("whether another scheduler runs is not known: pods %s in namespace %s cannot be read: %w", o.selector, namespace, err))
			continue
		}

		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
	}

	return podsOfOtherSchedulers(pods, o.ownPod), unread
}

// reportObstacle reports what this process waits for ("" for nothing) in the log, on the readiness page and
// on the pods that are the obstacle. It reports only a change, and once on each pod.
func (o *OtherSchedulers) reportObstacle(obstacle string, pods []*corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.obstacle == obstacle {
		return
	}

	o.obstacle = obstacle
	if obstacle == "" {
		klog.InfoS("no other scheduler runs")
		return
	}

	klog.InfoS("not a candidate for leader election", "reason", obstacle)
	for _, pod := range pods {
		if !o.notified[pod.UID] && o.recorder != nil {
			o.recorder.Event(pod, corev1.EventTypeNormal, reasonForeignScheduler, "cardquota-scheduler waits until this pod is gone: two schedulers must never run at the same time")
			o.notified[pod.UID] = true
		}
	}
}

// String returns the line of the readiness page, "" when this process waits for nothing.
func (o *OtherSchedulers) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.obstacle == "" {
		return ""
	}
	return reasonForeignScheduler + ": not elected: " + o.obstacle
}
