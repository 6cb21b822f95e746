package controller

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// TransformWatches makes a cache transform objects as soon as a watch or a list brings them.
//
// The reflector of client-go 0.34 keeps the objects of a list that it reads as a stream until it has
// all. It would transform them first, but asks its queue for an interface that no queue implements
// (TransformingStore). With 50,000 pods the whole ones take 900 MB, and the transformed ones 100 MB.
// The queues of client-go 0.35 implement it, and this file goes when Volcano and controller-runtime use it.
//
// Each key of ByObject must have a Go type of its own. The cache itself runs the default transform again, so
// that must be one that may run twice, and that lets metadata and unstructured objects pass.
func TransformWatches(options cache.Options) cache.Options {
	transforms := map[reflect.Type]toolscache.TransformFunc{}
	for object, by := range options.ByObject {
		if by.Transform != nil {
			transforms[reflect.TypeOf(object)] = by.Transform
			by.Transform = keepObject // not again in the cache; nil would mean the default transform
			options.ByObject[object] = by
		}
	}

	options.NewInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		transform := transforms[reflect.TypeOf(object)]
		if transform == nil {
			transform = options.DefaultTransform
		}
		if transform != nil {
			lw = transformedListerWatcher(toolscache.ToListerWatcherWithContext(lw), transform)
		}
		return toolscache.NewSharedIndexInformer(lw, object, resync, indexers)
	}
	return options
}

func keepObject(object any) (any, error) { return object, nil }

// transformedListerWatcher transforms what the lists and watches of a source bring, before a reflector keeps it.
func transformedListerWatcher(source toolscache.ListerWatcherWithContext, transform toolscache.TransformFunc) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}

			objects, err := meta.ExtractList(list)
			if err != nil {
				return nil, err
			}

			for i := range objects {
				objects[i], err = transformObject(objects[i], transform)
				if err != nil {
					return nil, err
				}
			}

			return list, meta.SetList(list, objects)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := source.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return newTransformedWatch(w, transform), nil
		},
	}
}

// transformObject returns what a transform makes of an object. What is no object of the API stays as it was.
func transformObject(object runtime.Object, transform toolscache.TransformFunc) (runtime.Object, error) {
	transformed, err := transform(object)
	if err != nil {
		return nil, err
	}
	if kept, ok := transformed.(runtime.Object); ok {
		return kept, nil
	}
	return object, nil
}

// transformedWatch transforms the objects of a watch. It ends with the watch, or when it is stopped.
type transformedWatch struct {
	source  watch.Interface
	events  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

func newTransformedWatch(source watch.Interface, transform toolscache.TransformFunc) *transformedWatch {
	w := &transformedWatch{source: source, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.forwardEvents(transform)
	return w
}

// forwardEvents sends each event of the source, transformed, until the source ends or the watch is stopped.
func (w *transformedWatch) forwardEvents(transform toolscache.TransformFunc) {
	defer close(w.events)
	for event := range w.source.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted: // a bookmark or an error is no such object
			object, err := transformObject(event.Object, transform)
			if err != nil { // the reflector begins again, as after a list with this error
				object = &metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInternalError}
				event.Type = watch.Error
			}
			event.Object = object
		}

		// The reader may have gone, and then nothing ever receives again.
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (w *transformedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *transformedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.source.Stop()
}
