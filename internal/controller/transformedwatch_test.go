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

// dropSpec is a transform of pods.
func dropSpec(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return &corev1.Pod{ObjectMeta: pod.ObjectMeta}, nil
	}
	return nil, errors.New("no pod")
}

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
	check.Must(t, ok && len(pods.Items) == 1, "it lists %v", list)
	check.Equal(t, "list", []string{"a", "", "7", "next"}, []string{pods.Items[0].Name, pods.Items[0].Spec.NodeName, pods.ResourceVersion, pods.Continue})

	fail = true
	_, err := transformed.ListWithContext(t.Context(), metav1.ListOptions{})
	check.Says(t, err, "gone")
}

func TestObjectsOfAWatchAreTransformed(t *testing.T) {
	source := watch.NewFakeWithChanSize(4, false)
	transformed := check.Value(toolscache.ToListerWatcherWithContext(transformedListerWatcher(&toolscache.ListWatch{
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
	}, dropSpec)).WatchWithContext(t.Context(), metav1.ListOptions{}))(t)

	pod := builder.Pod("lab", "a").Node("h200").Obj()
	end := builder.Pod("", "").Node("kept").Annotation(metav1.InitialEventsAnnotationKey, "true").Obj()
	source.Add(pod)
	source.Modify(pod)
	source.Delete(pod)
	source.Action(watch.Bookmark, end)

	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event := <-transformed.ResultChan()
		got, ok := event.Object.(*corev1.Pod)
		check.Must(t, ok && event.Type == want, "%s of %v", event.Type, event.Object)
		check.Equal(t, "pod", []string{"a", ""}, []string{got.Name, got.Spec.NodeName})
	}

	bookmark := <-transformed.ResultChan()
	check.That(t, bookmark.Type == watch.Bookmark && bookmark.Object == runtime.Object(end), "a bookmark is %v", bookmark)
	source.Stop()
	_, isOpen := <-transformed.ResultChan()
	check.That(t, !isOpen, "it goes on after its source")
}

func TestAnObjectThatCannotBeTransformedIsAnError(t *testing.T) {
	source := watch.NewFakeWithChanSize(1, false)
	transformed := newTransformedWatch(source, dropSpec)
	defer transformed.Stop()
	source.Add(&corev1.Node{})
	event := <-transformed.ResultChan()
	status, isStatus := event.Object.(*metav1.Status)
	check.That(t, event.Type == watch.Error && isStatus && status.Message == "no pod", "%s of %v", event.Type, event.Object)
}

// TestAStoppedWatchEnds: a reflector that stops a watch reads no more events of it.
func TestAStoppedWatchEnds(t *testing.T) {
	source := watch.NewFakeWithChanSize(2, false)
	transformed := newTransformedWatch(source, dropSpec)
	source.Add(builder.Pod("lab", "a").Obj())
	source.Add(builder.Pod("lab", "b").Obj())
	transformed.Stop()
	transformed.Stop()
	for range transformed.ResultChan() { // the test times out if it does not end
	}
	check.That(t, source.IsStopped(), "the source goes on")
}

func TestTheCacheTransformsOnce(t *testing.T) {
	pod := &corev1.Pod{}
	node := &corev1.Node{}
	options := TransformWatches(cache.Options{ByObject: map[client.Object]cache.ByObject{pod: {Transform: dropSpec}, node: {}}})
	kept := check.Value(options.ByObject[pod].Transform(builder.Pod("lab", "a").Node("h200").Obj()))(t)
	check.Equal(t, "node", "h200", kept.(*corev1.Pod).Spec.NodeName)
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
	check.Equal(t, "node", "", informer.GetStore().List()[0].(*corev1.Pod).Spec.NodeName)
}

// TestTheDefaultTransformSeesWatches: of kinds without a transform of their own, such as LocalCardQuotas, which a
// cluster may not have yet. It also lets metadata pass.
func TestTheDefaultTransformSeesWatches(t *testing.T) {
	options := TransformWatches(cache.Options{DefaultTransform: func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, nil
		}
		return object, nil
	}})

	for t, tc := range check.Cases(t, map[string]struct {
		object client.Object
		list   runtime.Object
		want   string
	}{
		"a kind":   {&corev1.Node{}, &corev1.NodeList{Items: []corev1.Node{*builder.Node("a").Label("b", "c").Obj()}}, ""},
		"metadata": {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}}}}, "c"},
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
		check.That(t, ok && stored.GetName() == "a" && stored.GetLabels()["b"] == tc.want, "it stores %v", informer.GetStore().List()[0])
		cancel()
	}
}
