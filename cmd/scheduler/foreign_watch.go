package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

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
