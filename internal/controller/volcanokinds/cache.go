package volcanokinds

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// NewCache is cache.New for a manager. In its cache there are no objects of the missing kinds. A cache of controller-runtime
// would fail on an option for such a kind, and never be complete.
func (k *Kinds) NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	options.ByObject = maps.Clone(options.ByObject)
	maps.DeleteFunc(options.ByObject, func(object client.Object, _ cache.ByObject) bool {
		_, isMissing := k.findMissingKind(object, options.Scheme)
		return isMissing
	})

	served, err := cache.New(config, options)
	if err != nil || len(k.missing) == 0 {
		return served, err
	}

	return k.wrapCache(served, options.Scheme)
}

// wrapCache returns a cache that has no objects of the missing kinds, and leaves all others to the cache of those.
func (k *Kinds) wrapCache(served cache.Cache, scheme *runtime.Scheme) (cache.Cache, error) {
	wrapped := &cacheWithoutMissing{Cache: served, kinds: k, scheme: scheme, informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
	for _, name := range k.missing {
		kind := v1beta1.SchemeGroupVersion.WithKind(name)
		object, err := scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("make an informer of kind %s: %w", name, err)
		}
		wrapped.informers[kind] = toolscache.NewSharedIndexInformer(newEmptySource(object), object, 0, toolscache.Indexers{})
	}
	return wrapped, nil
}

// cacheWithoutMissing is a cache of the kinds that are served. Readers, handlers and indexes of the missing ones find
// nothing.
type cacheWithoutMissing struct {
	cache.Cache
	kinds  *Kinds
	scheme *runtime.Scheme
	// informers are those of the missing kinds. They are complete at once, and never report anything.
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer
}

// Get implements cache.Cache.
func (c *cacheWithoutMissing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if kind, isMissing := c.kinds.findMissingKind(object, c.scheme); isMissing {
		return newNotFound(kind, key.Name)
	}
	return c.Cache.Get(ctx, key, object, options...)
}

// List implements cache.Cache.
func (c *cacheWithoutMissing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, isMissing := c.kinds.findMissingKind(list, c.scheme); isMissing {
		return meta.SetList(list, nil)
	}
	return c.Cache.List(ctx, list, options...)
}

// GetInformer implements cache.Cache.
func (c *cacheWithoutMissing) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	if kind, isMissing := c.kinds.findMissingKind(object, c.scheme); isMissing {
		return c.informers[kind], nil
	}
	return c.Cache.GetInformer(ctx, object, options...)
}

// GetInformerForKind implements cache.Cache.
func (c *cacheWithoutMissing) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	if c.kinds.isMissing(kind) {
		return c.informers[kind], nil
	}
	return c.Cache.GetInformerForKind(ctx, kind, options...)
}

// RemoveInformer implements cache.Cache. The informer of a missing kind stays.
func (c *cacheWithoutMissing) RemoveInformer(ctx context.Context, object client.Object) error {
	if _, isMissing := c.kinds.findMissingKind(object, c.scheme); isMissing {
		return nil
	}
	return c.Cache.RemoveInformer(ctx, object)
}

// IndexField implements cache.Cache. Lists of a missing kind need no index.
func (c *cacheWithoutMissing) IndexField(ctx context.Context, object client.Object, field string, valuesOf client.IndexerFunc) error {
	if _, isMissing := c.kinds.findMissingKind(object, c.scheme); isMissing {
		return nil
	}
	return c.Cache.IndexField(ctx, object, field, valuesOf)
}

// Start implements cache.Cache.
func (c *cacheWithoutMissing) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also when the cache of the other kinds fails

	for _, informer := range c.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return c.Cache.Start(ctx)
}

// WaitForCacheSync implements cache.Cache.
func (c *cacheWithoutMissing) WaitForCacheSync(ctx context.Context) bool {
	for _, informer := range c.informers {
		if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return false
		}
	}
	return c.Cache.WaitForCacheSync(ctx)
}

// newEmptySource returns the source of an informer that has no objects of the kind of an object, and never gets one.
func newEmptySource(object runtime.Object) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events := make(chan watch.Event, 1)
			if ptr.Deref(options.SendInitialEvents, false) { // the reader of a stream waits for the end of the list
				events <- watch.Event{Type: watch.Bookmark, Object: newEndOfList(object)}
			}
			return watch.NewProxyWatcher(events), nil
		},
	}
}

// newEndOfList returns the bookmark that ends a list that is read as a stream. It has the kind of the objects.
func newEndOfList(object runtime.Object) runtime.Object {
	end := object.DeepCopyObject()
	if accessor, err := meta.Accessor(end); err == nil { // each kind of the operator has metadata
		accessor.SetResourceVersion("1")
		accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return end
}
