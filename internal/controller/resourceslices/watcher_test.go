package resourceslices

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/testing/check"
)

// server is an API server that serves some versions.
type server struct {
	discovery.ServerResourcesInterface
	served atomic.Pointer[string] // the version, "" for none
	fails  atomic.Bool
}

func (s *server) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if s.fails.Load() {
		return nil, errors.New("no connection")
	}
	if served := s.served.Load(); served == nil || version != "resource.k8s.io/"+*served {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "resourceclaims"}, {Name: "resourceslices"}}}, nil
}

func (s *server) serve(version string) { s.served.Store(&version) }

func sliceOf(version, name, driver string, spec map[string]any) *unstructured.Unstructured {
	spec["driver"] = driver
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resource.k8s.io/" + version, "kind": "ResourceSlice", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func TestSlicesOfEveryVersionAreRead(t *testing.T) {
	pool := map[string]any{"name": "p", "generation": int64(3), "resourceSliceCount": int64(1)}
	for name, tc := range map[string]struct {
		spec map[string]any
		want cardinventory.DeviceSlice
	}{
		"a node": {map[string]any{"nodeName": "n", "pool": pool, "devices": []any{map[string]any{"name": "gpu-0"}, map[string]any{"name": "gpu-1"}}},
			cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}, Devices: 2}},
		"a node, until v1beta1": {map[string]any{"nodeName": "n", "pool": pool, "devices": []any{map[string]any{"name": "gpu-0", "basic": map[string]any{"attributes": map[string]any{}}}}},
			cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}, Devices: 1}},
		"all nodes": {map[string]any{"allNodes": true, "pool": pool, "devices": []any{map[string]any{"name": "gpu-0"}}},
			cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Devices: 1}},
		"a node for each device": {map[string]any{"perDeviceNodeSelection": true, "pool": pool, "devices": []any{
			map[string]any{"name": "a", "nodeName": "n1"}, map[string]any{"name": "b", "basic": map[string]any{"nodeName": "n2"}}, map[string]any{"name": "c", "nodeName": "n1"}, map[string]any{"name": "d"}}},
			cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n1", "n2"}, Devices: 4}},
		"parts of cards": {map[string]any{"nodeName": "n", "pool": pool, "devices": []any{map[string]any{"name": "gpu-0"}, map[string]any{"name": "mig", "consumesCounters": []any{}}}},
			cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}}},
		"nothing":         {map[string]any{}, cardinventory.DeviceSlice{Driver: "gpu.nvidia.com"}},
		"other than that": {map[string]any{"pool": "x", "nodeName": int64(3), "devices": "y"}, cardinventory.DeviceSlice{Driver: "gpu.nvidia.com"}},
	} {
		got := check.Value(newRecord(sliceOf("v1", "s", "gpu.nvidia.com", tc.spec)))(t)
		check.Equal(t, name, tc.want, got.(*record).slice)
	}

	got := check.Value(newRecord(sliceOf("v1", "s", "dra.net", map[string]any{"nodeName": "n"})))(t)
	check.Equal(t, "a driver without cards", cardinventory.DeviceSlice{Driver: "dra.net"}, got.(*record).slice)
}

// waitFor waits for changes until the watcher knows as many slices.
func waitFor(t *testing.T, w *Watcher, changes <-chan struct{}, want int) {
	for len(knownTo(w)) != want {
		waitForChange(t, w, changes)
	}
}

// waitUntilRead waits for changes until the watcher has read the slices, or says that it cannot.
func waitUntilRead(t *testing.T, w *Watcher, changes <-chan struct{}) {
	for _, isRead := w.DeviceSlices(); !isRead; _, isRead = w.DeviceSlices() {
		waitForChange(t, w, changes)
	}
}

func waitForChange(t *testing.T, w *Watcher, changes <-chan struct{}) {
	select {
	case <-changes:
	case <-time.After(30 * time.Second):
		check.Must(t, false, "no change after the watcher knows %v", knownTo(w))
	}
}

func knownTo(w *Watcher) []cardinventory.DeviceSlice {
	slices, _ := w.DeviceSlices()
	return slices
}

// TestTheWatcherFollowsTheCluster: the API may come with an upgrade of the cluster, in any version.
func TestTheWatcherFollowsTheCluster(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			kinds := map[schema.GroupVersionResource]string{}
			for _, known := range versions {
				kinds[resourceIn(known)] = "ResourceSliceList"
			}

			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
			watching := make(chan struct{}, 10)
			client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
				started, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
				watching <- struct{}{}
				return true, started, err
			})

			api := &server{}
			api.fails.Store(true)
			w := newWatcher(api, client, time.Millisecond)
			changes := make(chan struct{}, 100)
			w.OnChange(func() { changes <- struct{}{} })

			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Start(ctx) }()

			check.Equal(t, "slices while the API server does not answer", 0, len(knownTo(w)))
			api.fails.Store(false)
			create := func(name string) {
				check.Value(client.Resource(resourceIn(version)).Create(ctx, sliceOf(version, name, "gpu.nvidia.com", map[string]any{}), metav1.CreateOptions{}))(t)
			}

			create("before")
			api.serve(version)
			waitFor(t, w, changes, 1)
			<-watching // events before it are lost in a fake
			create("after")
			waitFor(t, w, changes, 2)

			check.NoError(t, client.Resource(resourceIn(version)).Delete(ctx, "before", metav1.DeleteOptions{}))
			waitFor(t, w, changes, 1)
			cancel()
			check.NoError(t, <-ended)
			check.Equal(t, "slices after the end", 0, len(knownTo(w)))
		})
	}
}

// newFakeClient returns a client of an API server with one slice, and what it answers to a list.
func newFakeClient(t *testing.T, list clienttesting.ReactionFunc) *fake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{resourceIn("v1"): "ResourceSliceList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	check.Value(client.Resource(resourceIn("v1")).Create(t.Context(), sliceOf("v1", "s", "gpu.nvidia.com", map[string]any{}), metav1.CreateOptions{}))(t)
	client.PrependReactor("list", "*", list)
	return client
}

// TestSlicesAreReadAfterTheFirstList: before it nothing is known, also not that there are none.
func TestSlicesAreReadAfterTheFirstList(t *testing.T) {
	isAsked := make(chan struct{})
	answers := make(chan struct{})
	client := newFakeClient(t, func(clienttesting.Action) (bool, runtime.Object, error) {
		close(isAsked)
		<-answers
		return false, nil, nil
	})

	api := &server{}
	api.serve("v1")
	w := newWatcher(api, client, time.Millisecond)
	changes := make(chan struct{}, 100)
	w.OnChange(func() { changes <- struct{}{} })
	go func() { _ = w.Start(t.Context()) }()

	<-isAsked
	_, isRead := w.DeviceSlices()
	check.That(t, !isRead, "slices are read before the API server lists them")

	close(answers)
	waitUntilRead(t, w, changes)
	check.Equal(t, "slices once they are read", 1, len(knownTo(w)))
}

// TestSlicesThatCannotBeReadAreNotAwaited: no status waits for them.
func TestSlicesThatCannotBeReadAreNotAwaited(t *testing.T) {
	for t, prepare := range check.Cases(t, map[string]func(*server){
		"no answer":  func(api *server) { api.fails.Store(true) },
		"not served": func(*server) {},
		"no right":   func(api *server) { api.serve("v1") },
	}) {
		client := newFakeClient(t, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
		})

		api := &server{}
		prepare(api)
		w := newWatcher(api, client, time.Millisecond)
		changes := make(chan struct{}, 100)
		w.OnChange(func() { changes <- struct{}{} })
		go func() { _ = w.Start(t.Context()) }()
		waitUntilRead(t, w, changes)
	}
}
