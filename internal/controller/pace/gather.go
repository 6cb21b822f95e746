package pace

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Gathered has one cluster-scoped object looked at in a moment, once for all that
// happens until then: by changes of any objects, and by whoever sends a word.
func Gathered(name string, after time.Duration) (handler.Funcs, handler.TypedFuncs[string, reconcile.Request]) {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue) { q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, after) }
	objects := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { wake(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { wake(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { wake(q) },
	}
	words := handler.TypedFuncs[string, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[string], q queue) { wake(q) },
	}
	return objects, words
}
