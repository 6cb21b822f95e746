package configgate

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// configMap is one key of one ConfigMap, watched through the API: faster than a mounted
// ConfigMap, which the kubelet renews once a minute, and readable before any pod is changed.
type configMap struct {
	client   kubernetes.Interface
	name     types.NamespacedName
	key      string
	store    cache.Store
	informer cache.Controller

	mu sync.Mutex
	// trouble is the last error of the watch before it first succeeded.
	trouble error
}

// NewConfigMap returns the source that is one key of one ConfigMap. It needs get, list and
// watch on that object alone.
func NewConfigMap(client kubernetes.Interface, name types.NamespacedName, key string) Source {
	return &configMap{client: client, name: name, key: key}
}

func (c *configMap) String() string {
	return fmt.Sprintf("key %s of ConfigMap %s", c.key, c.name)
}

func (c *configMap) watch(ctx context.Context, changed func()) error {
	objects := c.client.CoreV1().ConfigMaps(c.name.Namespace)
	// The selector limits what is sent and lets RBAC allow this one name only.
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, c.name.Name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = one
			list, err := objects.List(ctx, options)
			c.note(err, changed)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = one
			watcher, err := objects.Watch(ctx, options)
			c.note(err, changed)
			return watcher, err
		},
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	c.mu.Lock()
	c.store, c.informer = store, informer
	c.mu.Unlock()
	go func() {
		// An empty list makes no event, so the first answer is announced here.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			changed()
		}
	}()
	informer.RunWithContext(ctx)
	return ctx.Err()
}

// note remembers why the API did not answer, so that the status can say it.
func (c *configMap) note(err error, changed func()) {
	if err == nil {
		return
	}
	c.mu.Lock()
	c.trouble = err
	c.mu.Unlock()
	changed()
}

func (c *configMap) read() (content, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.informer == nil:
		return content{}, errNotRead
	case !c.informer.HasSynced():
		if c.trouble != nil {
			return content{}, c.trouble
		}
		return content{}, errNotRead
	}
	stored, exists, err := c.store.GetByKey(c.name.String())
	if err != nil {
		return content{}, err
	}
	if !exists {
		return content{missing: fmt.Sprintf("ConfigMap %s does not exist", c.name)}, nil
	}
	object := stored.(*corev1.ConfigMap)
	text, found := object.Data[c.key]
	if !found {
		return content{object: object, missing: fmt.Sprintf("ConfigMap %s has no key %s", c.name, c.key)}, nil
	}
	return content{object: object, text: text}, nil
}
