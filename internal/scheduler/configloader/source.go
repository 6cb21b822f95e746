package configloader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Source is where a configuration is stored; NewConfigMap and NewFile return one.
type Source interface {
	// String names the source in messages.
	String() string
	// watchChanges calls changed after the source may have changed, and once at the beginning,
	// until ctx ends. It returns early, with an error, only if watching is impossible.
	watchChanges(ctx context.Context, changed func()) error
	// readContent returns what the source has now, or errNotRead as long as that is unknown.
	readContent() (content, error)
}

// errNotRead means that the source has not answered yet.
var errNotRead = errors.New("not read yet")

// content is what a source has.
type content struct {
	text string
	// missing says why there is no text, "" when there is one.
	missing string
	// object is the object of events, nil for a file.
	object runtime.Object
}

// configMap is one key of one ConfigMap, watched through the API. The kubelet updates a mounted
// ConfigMap only once a minute, and mounting needs a change of the pod.
type configMap struct {
	name     types.NamespacedName
	key      string
	informer cache.SharedInformer

	mu sync.Mutex
	// watchErr is the last error of the watch before it first succeeded.
	watchErr error
}

// NewConfigMap returns the source for one key of one ConfigMap. It needs get, list and watch on
// that object only.
func NewConfigMap(client kubernetes.Interface, name types.NamespacedName, key string) Source {
	// The selector limits what is sent and lets RBAC allow this one name only.
	one := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", name.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name))
	return &configMap{name: name, key: key, informer: cache.NewSharedInformer(one, &corev1.ConfigMap{}, 0)}
}

// String implements Source.
func (c *configMap) String() string {
	return fmt.Sprintf("key %s of ConfigMap %s", c.key, c.name)
}

// watchChanges implements Source. It also calls changed after a failed request: readContent then returns the error.
func (c *configMap) watchChanges(ctx context.Context, changed func()) error {
	err := c.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		c.mu.Lock()
		c.watchErr = err
		c.mu.Unlock()
		changed()
	})
	if err != nil {
		return err
	}

	handle, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return err
	}

	go func() {
		// An empty list causes no event.
		if cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
			changed()
		}
	}()
	c.informer.RunWithContext(ctx)

	return ctx.Err()
}

// readContent implements Source. A missing ConfigMap or key is no error, but content without a text.
func (c *configMap) readContent() (content, error) {
	c.mu.Lock()
	watchErr := c.watchErr
	c.mu.Unlock()
	// Once the first list has succeeded, the store has the last known content, and errors of the watch
	// do not count.
	switch {
	case c.informer.HasSynced():
	case watchErr != nil:
		return content{}, watchErr
	default:
		return content{}, errNotRead
	}

	stored, exists, err := c.informer.GetStore().GetByKey(c.name.String())
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

// quietPeriod is how long the directory must be quiet before the file is read. Half of a text
// that is still being written could be valid YAML.
const quietPeriod = 100 * time.Millisecond

// file is a configuration file. Its directory is watched: editors replace the file, and a
// mounted ConfigMap swaps a symbolic link beside it.
type file struct {
	path string
}

// NewFile returns the source for a file. Its directory must exist; the file may appear later.
func NewFile(path string) Source {
	return file{path: path}
}

// String implements Source.
func (f file) String() string {
	return "file " + f.path
}

// watchChanges implements Source. An event of any file in the directory counts, since a symbolic link on the way may
// have changed.
func (f file) watchChanges(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()

	if err := watcher.Add(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("directory of %s: %w", f.path, err)
	}

	quiet := time.NewTimer(0) // the file is read once without an event
	defer quiet.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet.C:
			changed()
		case _, open := <-watcher.Events:
			if !open {
				return errors.New("the file watcher ended")
			}
			quiet.Reset(quietPeriod) // the text may be incomplete until events stop
		case _, open := <-watcher.Errors:
			if !open {
				return errors.New("the file watcher ended")
			}
			// Events were lost, so something changed.
			quiet.Reset(quietPeriod)
		}
	}
}

// readContent implements Source. A missing file is no error, but content without a text.
func (f file) readContent() (content, error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{missing: fmt.Sprintf("file %s does not exist", f.path)}, nil
	}
	if err != nil {
		return content{}, err
	}
	return content{text: string(text)}, nil
}
