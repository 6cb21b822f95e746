package main

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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/workload"
)

const (
	// handoverEventSource is the component of events about other schedulers' pods.
	handoverEventSource = "cardquota-scheduler-handover"
	// reasonForeignScheduler is the reason of those events and of the readiness page.
	reasonForeignScheduler = "ForeignScheduler"
	// lookupInterval is the time between two looks.
	lookupInterval = time.Second
	// lookupTimeout is how long the API server may take to answer one.
	lookupTimeout = 5 * time.Second
)

// otherSchedulers looks for pods that run another scheduler. Volcano's installer starts
// its scheduler without leader election, so the lease keeps nobody out: this
// process stands for election only while no such pod is there. What cannot be
// seen counts as being there.
type otherSchedulers struct {
	client kubernetes.Interface
	// namespaces are looked through, sorted. A pod elsewhere is a tenant's, who must not be
	// able to stop the scheduler by a label.
	namespaces []string
	// selector finds the pods; nil: nobody is looked for.
	selector labels.Selector
	// own is the name of this process's own pod.
	ownPod   string
	recorder record.EventRecorder

	mu sync.Mutex
	// waits is what this process waits for, "" when for nothing.
	obstacle string
	notified map[types.UID]bool
}

// watchOtherSchedulers looks for other schedulers, and returns a function that sends the last events.
func watchOtherSchedulers(config *rest.Config, flags *flags) (*otherSchedulers, func(), error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "handover"))
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}
	recorder, endEvents := newRecorder(client, "", handoverEventSource)
	namespaces := append(flags.otherSchedulerNamespaces, flags.volcano.LeaderElection.ResourceNamespace)
	return newOtherSchedulers(client, namespaces, flags.otherSchedulerSelector, ownPodName(), recorder), endEvents, nil
}

func newOtherSchedulers(client kubernetes.Interface, namespaces []string, selector labels.Selector, ownPod string, recorder record.EventRecorder) *otherSchedulers {
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	return &otherSchedulers{client: client, namespaces: namespaces, selector: selector, ownPod: ownPod, recorder: recorder, notified: map[types.UID]bool{}}
}

// podsOfOtherSchedulers are the pods in which another scheduler may be at work, sorted by name. The own pod
// is none, nor are those of its ReplicaSet: where the image of Volcano's Deployment was
// replaced by ours, the replicas carry the label of the stock scheduler and are equal.
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
		isReplica := pod.Name == ownPod || owner != nil && owner.UID == replicaSet
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
	var names []string
	for _, pod := range pods[:min(len(pods), maxNames)] {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	text := "another scheduler runs in pod " + strings.Join(names, ", ")
	if more := len(pods) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", and two must never be at work: scale its Deployment to 0"
}

// waitUntilNone waits until certainly no other scheduler runs, or ctx ends, which is an error.
func (f *otherSchedulers) waitUntilNone(ctx context.Context) error {
	defer f.reportObstacle("", nil)
	return wait.PollUntilContextCancel(ctx, lookupInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := f.listPods(ctx)
		obstacle := describePods(pods)
		if err != nil && len(pods) == 0 {
			obstacle = err.Error()
		}
		if ctx.Err() == nil && obstacle != "" {
			f.reportObstacle(obstacle, pods)
		}
		return obstacle == "", ctx.Err()
	})
}

// confirmNone waits until the API server says whether another scheduler runs, or ctx ends. One
// that runs is an error, the end of ctx is none.
func (f *otherSchedulers) confirmNone(ctx context.Context) error {
	return f.pollForAny(ctx, func(err error) bool {
		if err != nil {
			klog.ErrorS(err, "elected, but nothing is scheduled yet")
		}
		return err == nil
	})
}

// waitForAny waits until another scheduler runs and names it; nil when ctx ends first.
func (f *otherSchedulers) waitForAny(ctx context.Context) error {
	return f.pollForAny(ctx, func(error) bool { return false }) // who leads goes on while nobody answers
}

// pollForAny looks until it finds another scheduler, which is the error, or a look that finds none
// settles it, or ctx ends.
func (f *otherSchedulers) pollForAny(ctx context.Context, isDone func(error) bool) error {
	err := wait.PollUntilContextCancel(ctx, lookupInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := f.listPods(ctx)
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

// listPods returns the pods of other schedulers, by what the API server says now.
func (f *otherSchedulers) listPods(ctx context.Context) ([]*corev1.Pod, error) {
	if f.selector == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var pods []*corev1.Pod
	var unread error
	for _, namespace := range f.namespaces {
		list, err := f.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector.String()})
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("whether another scheduler runs is not known: pods %s in namespace %s cannot be read: %w", f.selector, namespace, err))
			continue
		}
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
	}
	return podsOfOtherSchedulers(pods, f.ownPod), unread
}

// reportObstacle tells the log, the pods and the readiness page what is waited for.
func (f *otherSchedulers) reportObstacle(obstacle string, pods []*corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.obstacle == obstacle {
		return
	}
	f.obstacle = obstacle
	if obstacle == "" {
		klog.InfoS("no other scheduler runs")
		return
	}
	klog.InfoS("not standing for election", "reason", obstacle)
	for _, pod := range pods {
		if !f.notified[pod.UID] && f.recorder != nil {
			f.recorder.Event(pod, corev1.EventTypeNormal, reasonForeignScheduler, "cardquota-scheduler waits until this pod is gone: two schedulers must never be at work")
			f.notified[pod.UID] = true
		}
	}
}

// String is the line of the readiness page, "" when nothing is waited for.
func (f *otherSchedulers) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.obstacle == "" {
		return ""
	}
	return reasonForeignScheduler + ": not elected: " + f.obstacle
}
