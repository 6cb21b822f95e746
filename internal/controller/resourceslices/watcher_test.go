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
	kjson "sigs.k8s.io/json"

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

// TestSlicesOfEveryVersionAreRead: a ResourceSlice says which devices a driver of dynamic resource allocation offers on
// which nodes. Its fields differ between versions of the API: until v1beta1 those of a device are below "basic". The
// inventory counts the devices, because such cards are under no quota. Of a driver that is not one of accelerators,
// only the name is read. Devices that are parts of cards (MIG) have consumesCounters and overlap, so no number is read
// then. Each row is a spec as JSON, and the DeviceSlice that the watcher keeps of it.
func TestSlicesOfEveryVersionAreRead(t *testing.T) {
	const pool = `"pool": {"name": "p", "generation": 3, "resourceSliceCount": 1}`
	for t, tc := range check.Cases(t, map[string]struct {
		driver string
		spec   string
		want   cardinventory.DeviceSlice
	}{
		"two devices of a node": {
			driver: "gpu.nvidia.com",
			spec:   `{` + pool + `, "nodeName": "n", "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}, Devices: 2},
		},
		"a device whose fields are below basic, until v1beta1": {
			driver: "gpu.nvidia.com",
			spec:   `{` + pool + `, "nodeName": "n", "devices": [{"name": "gpu-0", "basic": {"attributes": {}}}]}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}, Devices: 1},
		},
		"a device of all nodes": {
			driver: "gpu.nvidia.com",
			spec:   `{` + pool + `, "allNodes": true, "devices": [{"name": "gpu-0"}]}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Devices: 1},
		},
		"each device names its node, except d, which names none": {
			driver: "gpu.nvidia.com",
			spec: `{` + pool + `, "perDeviceNodeSelection": true, "devices": [
				{"name": "a", "nodeName": "n1"},
				{"name": "b", "basic": {"nodeName": "n2"}},
				{"name": "c", "nodeName": "n1"},
				{"name": "d"}]}`,
			want: cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n1", "n2"}, Devices: 4},
		},
		"a card and a part of it: the number of devices is not read": {
			driver: "gpu.nvidia.com",
			spec:   `{` + pool + `, "nodeName": "n", "devices": [{"name": "gpu-0"}, {"name": "mig", "consumesCounters": []}]}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com", Pool: "p", Generation: 3, Nodes: []string{"n"}},
		},
		"an empty spec": {
			driver: "gpu.nvidia.com",
			spec:   `{}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com"},
		},
		"fields of wrong types are ignored": {
			driver: "gpu.nvidia.com",
			spec:   `{"pool": "x", "nodeName": 3, "devices": "y"}`,
			want:   cardinventory.DeviceSlice{Driver: "gpu.nvidia.com"},
		},
		"a driver of network devices: only the driver is read": {
			driver: "dra.net",
			spec:   `{"nodeName": "n"}`,
			want:   cardinventory.DeviceSlice{Driver: "dra.net"},
		},
	}) {
		var spec map[string]any
		check.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts([]byte(tc.spec), &spec))

		check.Equal(t, "slice", tc.want, check.Value(newRecord(sliceOf("v1", "s", tc.driver, spec)))(t).(*record).slice)
	}
}

// waitForSlices waits for changes until the watcher knows so many slices.
func waitForSlices(t *testing.T, w *Watcher, changes <-chan struct{}, want int) {
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

// TestTheWatcherFollowsTheCluster: the API of ResourceSlices may come with an upgrade of the cluster, in any version. A
// watcher that starts while the API server does not answer reads the ResourceSlice that exists when it answers. Then it
// follows what is created and deleted. When the watcher has ended it knows no ResourceSlices.
func TestTheWatcherFollowsTheCluster(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			kinds := map[schema.GroupVersionResource]string{}
			for _, known := range versions {
				kinds[resourceIn(known)] = "ResourceSliceList"
			}

			// A client that says when its watch has begun.
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
			watching := make(chan struct{}, 10)
			client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
				started, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
				watching <- struct{}{}
				return true, started, err
			})

			// The watcher starts while the API server does not answer.
			api := &server{}
			api.fails.Store(true)
			watcher := newWatcher(api, client, time.Millisecond)
			changes := make(chan struct{}, 100)
			watcher.OnChange(func() { changes <- struct{}{} })

			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- watcher.Start(ctx) }()

			check.Equal(t, "slices while the API server does not answer", 0, len(knownTo(watcher)))
			api.fails.Store(false)
			create := func(name string) {
				check.Value(client.Resource(resourceIn(version)).Create(ctx, sliceOf(version, name, "gpu.nvidia.com", map[string]any{}), metav1.CreateOptions{}))(t)
			}

			create("before")
			api.serve(version)
			waitForSlices(t, watcher, changes, 1)
			<-watching // the fake client loses events from before the watch
			create("after")
			waitForSlices(t, watcher, changes, 2)

			check.NoError(t, client.Resource(resourceIn(version)).Delete(ctx, "before", metav1.DeleteOptions{}))
			waitForSlices(t, watcher, changes, 1)
			cancel()
			check.NoError(t, <-ended)
			check.Equal(t, "slices after the end", 0, len(knownTo(watcher)))
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

// TestSlicesAreReadAfterTheFirstList: until the API server has answered the first list, the watcher does not know that
// there are no ResourceSlices. It says that they are not read, since the CardInventory would otherwise end an anomaly
// that still exists. One ResourceSlice exists here.
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
	watcher := newWatcher(api, client, time.Millisecond)
	changes := make(chan struct{}, 100)
	watcher.OnChange(func() { changes <- struct{}{} })
	go func() { _ = watcher.Start(t.Context()) }()

	<-isAsked
	_, isRead := watcher.DeviceSlices()
	check.That(t, !isRead, "the slices count as read before the API server lists them")

	close(answers)
	waitUntilRead(t, watcher, changes)
	check.Equal(t, "slices once they are read", 1, len(knownTo(watcher)))
}

// TestSlicesThatCannotBeReadAreNotAwaited: the status of the CardInventory waits until the ResourceSlices are read. If
// the watcher cannot read them, it says that they are read, so that the status does not wait for ever. A list is
// forbidden in each row. The test fails if the watcher does not say so within 30 seconds.
func TestSlicesThatCannotBeReadAreNotAwaited(t *testing.T) {
	for t, prepare := range check.Cases(t, map[string]func(*server){
		"the API server does not say which versions it serves": func(api *server) { api.fails.Store(true) },
		"the API server serves no version":                     func(*server) {},
		"the API server serves v1, but the list is forbidden":  func(api *server) { api.serve("v1") },
	}) {
		client := newFakeClient(t, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right"))
		})

		api := &server{}
		prepare(api)
		watcher := newWatcher(api, client, time.Millisecond)
		changes := make(chan struct{}, 100)
		watcher.OnChange(func() { changes <- struct{}{} })
		go func() { _ = watcher.Start(t.Context()) }()
		waitUntilRead(t, watcher, changes)
	}
}
