package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// dropSpec is a transform of pods: it keeps their metadata. Objects of other kinds are an error.
func dropSpec(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return &corev1.Pod{ObjectMeta: pod.ObjectMeta}, nil
	}
	return nil, errors.New("no pod")
}

// TestObjectsOfAListAreTransformed: the caches keep stripped objects, to save memory; here dropSpec drops the
// spec of pods, and with it the node. The operator strips each page of a list before the cache collects the
// next one. The version of the list and the token of the next page stay. An error of the list is returned.
func TestObjectsOfAListAreTransformed(t *testing.T) {
	fail := false
	source := &toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		if fail {
			return nil, errors.New("gone")
		}
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}, Items: []corev1.Pod{*builder.Pod("lab", "a").Node("h200").Obj()}}, nil
	}}

	transformed := toolscache.ToListerWatcherWithContext(transformedListerWatcher(source, dropSpec))
	list := check.Value(transformed.ListWithContext(t.Context(), metav1.ListOptions{}))(t)

	pods, ok := list.(*corev1.PodList)
	check.Must(t, ok && len(pods.Items) == 1, "the list has %v", list)
	check.Equal(t, "name of the pod", "a", pods.Items[0].Name)
	check.Equal(t, "node of the pod", "", pods.Items[0].Spec.NodeName)
	check.Equal(t, "version of the list", "7", pods.ResourceVersion)
	check.Equal(t, "token of the next page", "next", pods.Continue)

	fail = true
	_, err := transformed.ListWithContext(t.Context(), metav1.ListOptions{})
	check.Says(t, err, "gone")
}

// TestObjectsOfAWatchAreTransformed: pods of events are stripped, whatever the event. Here dropSpec drops
// their spec, and with it the node. A bookmark states a version of the whole watch and no pod of the cluster,
// so it passes unchanged: its node stays. The transformed watch ends with its source.
func TestObjectsOfAWatchAreTransformed(t *testing.T) {
	source := watch.NewFakeWithChanSize(4, false)
	transformed := check.Value(toolscache.ToListerWatcherWithContext(transformedListerWatcher(&toolscache.ListWatch{
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
	}, dropSpec)).WatchWithContext(t.Context(), metav1.ListOptions{}))(t)

	pod := builder.Pod("lab", "a").Node("h200").Obj()
	bookmark := builder.Pod("", "").Node("kept").Obj()
	source.Add(pod)
	source.Modify(pod)
	source.Delete(pod)
	source.Action(watch.Bookmark, bookmark)

	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event := <-transformed.ResultChan()
		got, ok := event.Object.(*corev1.Pod)
		check.Must(t, ok && event.Type == want, "event %s of %v, want %s of a pod", event.Type, event.Object, want)
		check.Equal(t, "name of the pod", "a", got.Name)
		check.Equal(t, "node of the pod", "", got.Spec.NodeName)
	}

	check.Equal(t, "bookmark", watch.Event{Type: watch.Bookmark, Object: bookmark}, <-transformed.ResultChan())
	source.Stop()
	_, isOpen := <-transformed.ResultChan()
	check.Equal(t, "the watch is open after its source", false, isOpen)
}

// TestAnObjectThatCannotBeTransformedIsAnError: transform dropSpec takes pods alone, so it fails for a node.
// The cache gets an event with the error, after which it lists and watches again.
func TestAnObjectThatCannotBeTransformedIsAnError(t *testing.T) {
	source := watch.NewFakeWithChanSize(1, false)
	transformed := newTransformedWatch(source, dropSpec)
	defer transformed.Stop()
	source.Add(&corev1.Node{})
	event := <-transformed.ResultChan()
	status, isStatus := event.Object.(*metav1.Status)
	check.Must(t, event.Type == watch.Error && isStatus, "event %s of %v, want an error", event.Type, event.Object)
	check.Equal(t, "message", "no pod", status.Message)
}

// TestAStoppedWatchEnds: a cache that stops a watch reads no more events of it, here those of pods a and b. The
// transformed watch must not wait for a reader then: it ends, and stops its source. A second Stop does no harm.
func TestAStoppedWatchEnds(t *testing.T) {
	source := watch.NewFakeWithChanSize(2, false)
	transformed := newTransformedWatch(source, dropSpec)
	source.Add(builder.Pod("lab", "a").Obj())
	source.Add(builder.Pod("lab", "b").Obj())
	transformed.Stop()
	transformed.Stop()
	for range transformed.ResultChan() { // the test times out if the watch does not end
	}
	check.Equal(t, "the source is stopped", true, source.IsStopped())
}

// TestTheCacheTransformsOnce: controller-runtime would transform each object that a list returned a second
// time. So the transform that it knows changes nothing. Instead the informer transforms what it lists, here pods
// with dropSpec. Nodes have no transform at all here.
func TestTheCacheTransformsOnce(t *testing.T) {
	pod := &corev1.Pod{}
	node := &corev1.Node{}
	options := TransformWatches(cache.Options{ByObject: map[client.Object]cache.ByObject{pod: {Transform: dropSpec}, node: {}}})
	kept := check.Value(options.ByObject[pod].Transform(builder.Pod("lab", "a").Node("h200").Obj()))(t)
	check.Equal(t, "node of a pod after the transform of controller-runtime", "h200", kept.(*corev1.Pod).Spec.NodeName)
	check.That(t, options.ByObject[node].Transform == nil, "nodes have a transform")

	source := watch.NewFakeWithChanSize(2, false)
	informer := options.NewInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{Items: []corev1.Pod{*builder.Pod("lab", "a").Node("h200").Obj()}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
	}, pod, 0, toolscache.Indexers{})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	go informer.RunWithContext(ctx)
	check.Must(t, toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced), "no sync")
	check.Equal(t, "node of a pod in the cache", "", informer.GetStore().List()[0].(*corev1.Pod).Spec.NodeName)
}

// TestTheDefaultTransformStripsOtherKinds: a kind without a transform of its own has the default one. Here the default
// drops the labels of nodes. A cache that has only the metadata of nodes has objects of another type, which this
// default does not change.
func TestTheDefaultTransformStripsOtherKinds(t *testing.T) {
	options := TransformWatches(cache.Options{DefaultTransform: func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, nil
		}
		return object, nil
	}})

	for t, tc := range check.Cases(t, map[string]struct {
		object    client.Object
		list      runtime.Object
		wantLabel string
	}{
		"nodes lose their label": {
			object: &corev1.Node{},
			list:   &corev1.NodeList{Items: []corev1.Node{*builder.Node("a").Label("b", "c").Obj()}},
		},
		"metadata of nodes keep their label": {
			object:    &metav1.PartialObjectMetadata{},
			list:      &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: builder.Node("a").Label("b", "c").Obj().ObjectMeta}}},
			wantLabel: "c",
		},
	}) {
		source := watch.NewFakeWithChanSize(2, false)
		informer := options.NewInformer(&toolscache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return tc.list, nil },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
		}, tc.object, 0, toolscache.Indexers{})

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go informer.RunWithContext(ctx)
		check.Must(t, toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced), "no sync")
		stored, ok := informer.GetStore().List()[0].(client.Object)
		check.Must(t, ok, "the cache has %v", informer.GetStore().List()[0])
		check.Equal(t, "name", "a", stored.GetName())
		check.Equal(t, "label b", tc.wantLabel, stored.GetLabels()["b"])
		cancel()
	}
}
