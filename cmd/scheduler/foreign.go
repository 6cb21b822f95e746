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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/workload"
)

const (
	// foreignEventSource is the component of events about other schedulers' pods.
	foreignEventSource = "cardquota-scheduler-handover"
	// reasonForeign is the reason of those events and of the readiness page.
	reasonForeign = "ForeignScheduler"
	// lookAgain is the time after which what is followed is looked at again though nothing changed.
	lookAgain = 10 * time.Minute
	// askAgain is the time between two looks while an answer is missing.
	askAgain = time.Second
	// answerWithin is how long the API server may take to answer one.
	answerWithin = 5 * time.Second
)

// foreign looks for pods that run another scheduler. Volcano's installer starts
// its scheduler without leader election, so the lease keeps nobody out: this
// process stands for election only while no such pod is there. What cannot be
// seen counts as being there.
type foreign struct {
	client kubernetes.Interface
	// namespaces are looked through, sorted. A pod elsewhere is a tenant's, who must not be
	// able to stop the scheduler by a label.
	namespaces []string
	// selector finds the pods; nil: nobody is looked for.
	selector labels.Selector
	// own is the name of this process's own pod.
	own      string
	recorder record.EventRecorder

	mu sync.Mutex
	// changed is closed and replaced when something below may have changed.
	changed chan struct{}
	synced  bool
	pods    []*corev1.Pod // at work, by name
	// trouble is why the pods cannot be read, "" when they can.
	trouble string
	// waits is what this process waits for, "" when for nothing.
	waits string
	told  map[types.UID]bool
}

func newForeign(client kubernetes.Interface, namespaces []string, selector labels.Selector, own string, recorder record.EventRecorder) *foreign {
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	return &foreign{client: client, namespaces: namespaces, selector: selector, own: own, recorder: recorder,
		changed: make(chan struct{}), told: map[types.UID]bool{}}
}

// atWork are the pods in which another scheduler may be at work, sorted by name. The own pod
// is none, nor are those of its ReplicaSet: where the image of Volcano's Deployment was
// replaced by ours, the replicas carry the label of the stock scheduler and are equal.
func atWork(pods []*corev1.Pod, own string) []*corev1.Pod {
	var template types.UID
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(pod); pod.Name == own && owner != nil {
			template = owner.UID
		}
	}
	var found []*corev1.Pod
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		equal := pod.Name == own || owner != nil && owner.UID == template
		if !equal && workload.AtWork(pod) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// here are the pods in the namespaces that are looked through.
func (f *foreign) here(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !slices.Contains(f.namespaces, pod.Namespace) })
}

// describe names pods that run another scheduler, "" for none.
func describe(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	const most = 3
	var names []string
	for _, pod := range pods[:min(len(pods), most)] {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	text := "another scheduler runs in pod " + strings.Join(names, ", ")
	if more := len(pods) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", and two must never be at work: scale its Deployment to 0"
}

// gone waits until certainly no other scheduler runs, or ctx ends, which is an error.
func (f *foreign) gone(ctx context.Context) error {
	if f.selector == nil {
		return ctx.Err()
	}
	defer f.say("")
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		obstacle, changed := f.obstacle()
		if obstacle == "" {
			obstacle = f.ask(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if obstacle == "" {
			return nil
		}
		f.say(obstacle)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-again.C:
		}
	}
}

// obstacle is what stands in the way by what was seen so far, and a channel that
// is closed when more was seen.
func (f *foreign) obstacle() (string, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.pods) > 0:
		return describe(f.pods), f.changed
	case f.trouble != "":
		return f.trouble, f.changed
	case !f.synced:
		return fmt.Sprintf("whether another scheduler runs is not known yet: pods %s in %s are being read", f.selector, f.places()), f.changed
	}
	return "", f.changed
}

// absent waits until the API server says whether another scheduler runs, or ctx ends. One
// that runs is an error, the end of ctx is none.
func (f *foreign) absent(ctx context.Context) error {
	for ctx.Err() == nil {
		who, err := f.look(ctx)
		switch {
		case err == nil && who != "":
			return fmt.Errorf("%s: %s", reasonForeign, who)
		case err == nil:
			return nil
		}
		klog.ErrorS(err, "elected, but nothing is scheduled yet")
		select {
		case <-ctx.Done():
		case <-time.After(askAgain):
		}
	}
	return nil
}

// ask is what stands in the way by what the API server says now, "" for nothing.
func (f *foreign) ask(ctx context.Context) string {
	who, err := f.look(ctx)
	if err != nil {
		return err.Error()
	}
	return who
}

// look names the pods of other schedulers by what the API server says now, "" for none.
// What is followed may be late; this is not.
func (f *foreign) look(ctx context.Context) (string, error) {
	if f.selector == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	list, err := f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: f.selector.String()})
	if err != nil {
		return "", errors.New(f.unreadable(err))
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return describe(atWork(f.here(pods), f.own)), nil
}

func (f *foreign) unreadable(err error) string {
	return fmt.Sprintf("whether another scheduler runs is not known: pods %s in %s cannot be read: %v", f.selector, f.places(), err)
}

func (f *foreign) places() string {
	if len(f.namespaces) == 1 {
		return "namespace " + f.namespaces[0]
	}
	return "namespaces " + strings.Join(f.namespaces, ", ")
}

// arrival waits until another scheduler runs and names it; nil when ctx ends first.
func (f *foreign) arrival(ctx context.Context) error {
	for {
		f.mu.Lock()
		who, changed := describe(f.pods), f.changed
		f.mu.Unlock()
		if who != "" {
			return fmt.Errorf("%s: %s", reasonForeign, who)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// say tells the log, the pods and the readiness page what is waited for.
func (f *foreign) say(obstacle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits == obstacle {
		return
	}
	f.waits = obstacle
	if obstacle == "" {
		klog.InfoS("no other scheduler runs")
		return
	}
	klog.InfoS("not standing for election", "reason", obstacle)
	for _, pod := range f.pods {
		if !f.told[pod.UID] && f.recorder != nil {
			f.recorder.Event(pod, corev1.EventTypeNormal, reasonForeign, "cardquota-scheduler waits until this pod is gone: two schedulers must never be at work")
			f.told[pod.UID] = true
		}
	}
}

// String is the line of the readiness page, "" when nothing is waited for.
func (f *foreign) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits == "" {
		return ""
	}
	return reasonForeign + ": not elected: " + f.waits
}

// watchForeign begins to look for other schedulers until ctx ends, and returns a function that
// sends the last events.
func watchForeign(ctx context.Context, config *rest.Config, flags *flags) (*foreign, func(), error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "handover"))
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: foreignEventSource})
	others := newForeign(client, append(flags.foreignNamespaces, flags.volcano.LeaderElection.ResourceNamespace), flags.foreign, ownPod(), recorder)
	go others.run(ctx)
	return others, broadcaster.Shutdown, nil
}

// run follows the pods until ctx ends.
func (f *foreign) run(ctx context.Context) {
	if f.selector == nil {
		return
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = f.selector.String()
			list, err := f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
			f.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = f.selector.String()
			watcher, err := f.client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
			f.note(err)
			return watcher, err
		},
	}
	var store cache.Store
	look := func() { f.take(store.List()) }
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    &corev1.Pod{},
		ResyncPeriod:  lookAgain,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { look() },
			UpdateFunc: func(any, any) { look() },
			DeleteFunc: func(any) { look() },
		},
	})
	go func() {
		// An empty list makes no event, so the first answer is taken here.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			f.mu.Lock()
			f.synced = true
			f.mu.Unlock()
			look()
		}
	}()
	informer.RunWithContext(ctx)
}

func (f *foreign) take(objects []any) {
	var pods []*corev1.Pod
	for _, object := range objects {
		pods = append(pods, object.(*corev1.Pod))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = atWork(f.here(pods), f.own)
	f.announce()
}

// note remembers why the API server does not answer.
func (f *foreign) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = ""
	if err != nil {
		f.trouble = f.unreadable(err)
	}
	f.announce()
}

func (f *foreign) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}
