// Package resourceslices watches the ResourceSlices of the cluster, in the version that its API server
// serves. A cluster without resource.k8s.io has none, and needs none.
package resourceslices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"cardquota.dev/operator/internal/cardinventory"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceslices,verbs=list;watch

// versions are those with the fields that newRecord reads, the preferred one first.
var versions = []string{"v1", "v1beta2", "v1beta1", "v1alpha3"}

// resourceIn returns the resource of ResourceSlices in a version.
func resourceIn(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "resource.k8s.io", Version: version, Resource: "resourceslices"}
}

// lookUpInterval is how long the watcher waits before it looks again which version is served.
const lookUpInterval = time.Minute

// Watcher keeps what the ResourceSlices say. It runs in the leader only.
type Watcher struct {
	discovery discovery.ServerResourcesInterface
	client    dynamic.Interface
	interval  time.Duration
	callbacks []func()

	mu     sync.Mutex
	slices map[string]cardinventory.DeviceSlice
	// isRead is set once all slices were read, or the API server has none or did not say.
	isRead bool
}

// Setup adds a Watcher to a manager.
func Setup(mgr ctrl.Manager) (*Watcher, error) {
	server, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}

	client, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make dynamic client: %w", err)
	}

	watcher := newWatcher(server, client, lookUpInterval)
	if err := mgr.Add(watcher); err != nil {
		return nil, fmt.Errorf("add watcher of ResourceSlices: %w", err)
	}

	return watcher, nil
}

func newWatcher(server discovery.ServerResourcesInterface, client dynamic.Interface, interval time.Duration) *Watcher {
	return &Watcher{discovery: server, client: client, interval: interval, slices: map[string]cardinventory.DeviceSlice{}}
}

// OnChange registers a function that is called after each change. It must be called before Start; the
// function must not block.
func (w *Watcher) OnChange(changed func()) { w.callbacks = append(w.callbacks, changed) }

// DeviceSlices returns what the slices say, in no order. It is false after a start until all were read, or
// it is known that they cannot be read now.
func (w *Watcher) DeviceSlices() ([]cardinventory.DeviceSlice, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return slices.Collect(maps.Values(w.slices)), w.isRead
}

// Start watches until the context ends. While the API, or the right to read it, is missing, there are no slices, and
// readers do not wait for them.
func (w *Watcher) Start(ctx context.Context) error {
	for {
		if version := w.servedVersion(ctx); version != "" {
			w.watch(ctx, version)
		} else {
			w.markRead()
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.interval):
		}
	}
}

// servedVersion returns the first version that the API server serves, "" for none, and while it does not say.
func (w *Watcher) servedVersion(ctx context.Context) string {
	for _, version := range versions {
		list, err := w.discovery.ServerResourcesForGroupVersion(resourceIn(version).GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "The operator could not look up ResourceSlices, and tries again", "version", version)
			return ""
		}

		if slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool { return served.Name == resourceIn(version).Resource }) {
			return version
		}
	}
	return ""
}

// watch watches the ResourceSlices of one version until the context ends, or the API server does not serve it
// any more. Then it forgets them.
func (w *Watcher) watch(ctx context.Context, version string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	informer := dynamicinformer.NewFilteredDynamicInformer(w.client, resourceIn(version), "", 0, cache.Indexers{}, nil).Informer()
	onError := func(ctx context.Context, reflector *cache.Reflector, err error) {
		w.markRead() // without the right to list slices, the CardInventory must not wait for them
		if apierrors.IsNotFound(err) {
			cancel() // the version is gone: Start looks for another one
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	}

	handler := cache.ResourceEventHandlerFuncs{AddFunc: w.storeSlice, UpdateFunc: func(_, object any) { w.storeSlice(object) }, DeleteFunc: w.removeSlice}
	registration, err := informer.AddEventHandler(handler)
	err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(onError), informer.SetTransform(newRecord))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The operator cannot watch ResourceSlices")
		return
	}

	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			w.markRead()
		}
	}()

	informer.RunWithContext(ctx)

	// The next watch reports no deletion of what this one has stored, so old slices would stay for ever.
	w.applyChange(func() { clear(w.slices) })
}

// storeSlice keeps a slice.
func (w *Watcher) storeSlice(object any) {
	if kept, ok := object.(*record); ok {
		w.applyChange(func() { w.slices[kept.Name] = kept.slice })
	}
}

// removeSlice forgets a slice. The watch brings a tombstone for one whose deletion it has missed.
func (w *Watcher) removeSlice(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if kept, ok := object.(*record); ok {
		w.applyChange(func() { delete(w.slices, kept.Name) })
	}
}

// markRead says that the slices were read as far as they can be.
func (w *Watcher) markRead() {
	w.mu.Lock()
	isFirst := !w.isRead
	w.mu.Unlock()
	if isFirst {
		w.applyChange(func() { w.isRead = true })
	}
}

// applyChange makes a change under the lock, and calls the callbacks.
func (w *Watcher) applyChange(apply func()) {
	w.mu.Lock()
	apply()
	w.mu.Unlock()
	for _, call := range w.callbacks {
		call()
	}
}
