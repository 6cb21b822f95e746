package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// StatusInterval is the shortest time between two status writes of one object, and between two counts of all pods, on
// which most statuses depend. A burst of changes costs the API server one write an object, and users hardly wait.
const StatusInterval = time.Second

// StatusThrottle limits status writes to one per object and interval.
type StatusThrottle struct {
	*LastWrites
	interval time.Duration
	// delayed is when Delay was last called for an object.
	delayed map[string]time.Time
}

// NewStatusThrottle returns a StatusThrottle.
func NewStatusThrottle(interval time.Duration) *StatusThrottle {
	return &StatusThrottle{LastWrites: NewLastWrites(), interval: interval, delayed: map[string]time.Time{}}
}

// Wait returns how long the next status write of an object must wait, 0 for not at all.
func (s *StatusThrottle) Wait(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.writes[name].at
	if delayed := s.delayed[name]; delayed.After(last) {
		last = delayed
	}
	return max(0, s.interval-s.now().Sub(last))
}

// Delay delays the next status write of an object as if one had just been made.
func (s *StatusThrottle) Delay(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delayed[name] = s.now()
}

// Forget drops a deleted object.
func (s *StatusThrottle) Forget(name string) {
	s.LastWrites.Forget(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.delayed, name)
}

// RequeueWithin requeues after the given time at the latest; 0 means no such time.
func RequeueWithin(result ctrl.Result, again time.Duration) ctrl.Result {
	if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	return result
}

// SpecChanged selects changes of the spec and the start of a deletion, and ignores the
// status.
var SpecChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}

// IsRefused reports whether the API server or an admission webhook refused a write, so that
// an immediate retry would fail again.
func IsRefused(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// RequestFor returns the request for a cluster-scoped object.
func RequestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// debounceInterval is how long changes of other objects are debounced: a thousand CardQuotas, or constant
// writes of a ConfigMap, cost ten reconciles a second, and a rack that starts costs one.
const debounceInterval = 100 * time.Millisecond

// DebouncedHandlers returns handlers that reconcile one cluster-scoped object after
// debounceInterval, once for all events until then. One handles changes of objects, the other
// signals on a channel.
func DebouncedHandlers(name string) (handler.Funcs, handler.TypedFuncs[string, reconcile.Request]) {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue) { q.AddAfter(RequestFor(name), debounceInterval) }
	return handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { wake(q) },
			UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { wake(q) },
			DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { wake(q) },
		}, handler.TypedFuncs[string, reconcile.Request]{
			GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[string], q queue) { wake(q) },
		}
}
