package cardquota

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
)

// loweredPriority is that of a CardQuota whose quota was lowered, or that is being deleted: an
// administrator who takes cards away must not wait for ten thousand statuses. Other changes of specs have
// priority 0, and what a count or a change of all CardQuotas wakes has handler.LowPriority.
const loweredPriority = 100

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// addWithPriority adds requests after a delay, with a priority if the queue of requests knows priorities.
func addWithPriority(q requestQueue, priority int, delay time.Duration, requests ...reconcile.Request) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priority), After: delay}, requests...)
		return
	}
	for _, request := range requests {
		q.AddAfter(request, delay)
	}
}

// lowPriorityHandler returns a handler that enqueues the requests for objects after all others.
func lowPriorityHandler(requestsFor func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
	enqueue := func(ctx context.Context, object client.Object, q requestQueue) {
		addWithPriority(q, handler.LowPriority, 0, requestsFor(ctx, object)...)
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q requestQueue) { enqueue(ctx, e.Object, q) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q requestQueue) { enqueue(ctx, e.ObjectNew, q) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q requestQueue) { enqueue(ctx, e.Object, q) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q requestQueue) { enqueue(ctx, e.Object, q) },
	}
}

// wakeupHandler enqueues the CardQuotas of the queues that a count wakes, after all others.
func wakeupHandler(requestsFor func(context.Context, string) []reconcile.Request) handler.TypedFuncs[wakeup, reconcile.Request] {
	return handler.TypedFuncs[wakeup, reconcile.Request]{
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[wakeup], q requestQueue) {
			addWithPriority(q, handler.LowPriority, e.Object.after, requestsFor(ctx, e.Object.queue)...)
		},
	}
}

// loweredHandler enqueues a CardQuota before all others.
var loweredHandler = handler.Funcs{
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requestQueue) {
		addWithPriority(q, loweredPriority, 0, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
	},
}

// isLowered selects changes by which a CardQuota grants fewer cards, or is deleted.
var isLowered = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isQuota := e.ObjectOld.(*v1alpha1.CardQuota)
		after, isStillQuota := e.ObjectNew.(*v1alpha1.CardQuota)
		if !isQuota || !isStillQuota || before.Generation == after.Generation {
			return false
		}
		if before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
			return true
		}

		has := cardquota.QuotaOf(after)
		for name, count := range cardquota.QuotaOf(before) {
			if has[name] < count {
				return true
			}
		}

		return false
	},
}
