package servicetypepolicy

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/api/v1alpha1"
)

// watch sends every change of one ConfigMap. The manager's cache cannot hold it: the
// policy may name another ConfigMap later, and all ConfigMaps are none of our business.
type watch struct {
	client kubernetes.Interface
	log    logr.Logger
	woken  chan event.TypedGenericEvent[string]
	// parent ends every watch.
	parent context.Context
	name   types.NamespacedName
	stop   context.CancelFunc
}

// follow watches the named ConfigMap, whether or not it exists, instead of the one
// before it; none for an empty name. A watch that fails is tried again with growing
// pauses, so a permission that is granted later is enough.
func (w *watch) follow(name types.NamespacedName) {
	if name == w.name {
		return
	}
	w.stop()
	w.name, w.stop = name, func() {}
	if name.Name == "" {
		return
	}
	ctx, stop := context.WithCancel(w.parent)
	w.stop = stop
	wake := func(any) {
		select {
		case w.woken <- event.TypedGenericEvent[string]{Object: v1alpha1.PolicyName}:
		case <-ctx.Done():
		}
	}
	informer := toolscache.NewSharedInformer(toolscache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "configmaps", name.Namespace,
		fields.OneTermEqualSelector("metadata.name", name.Name)), &corev1.ConfigMap{}, 0)
	// Both fail only on an informer that has been started. The condition ConfigSynced says
	// why a ConfigMap cannot be read, so the log is kept short.
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.log.V(1).Info("ConfigMap cannot be watched", "reason", err.Error())
	}))
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(_, after any) { wake(after) },
	})
	utilruntime.Must(err)
	go informer.RunWithContext(ctx)
}
