package controller

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/internal/build"
)

// maxCacheLag is how long a cache has to catch up with a write. A version that stays older
// for longer is not stale: etcd was restored and counts from an earlier version.
var maxCacheLag = build.Wait(time.Minute)

// StatusThrottle limits status writes to one per object and interval.
type StatusThrottle struct {
	interval time.Duration
	now      func() time.Time

	mu     sync.Mutex
	writes map[string]lastWrite
}

// lastWrite is the time of the last status write of an object, and the resource version
// that it made.
type lastWrite struct {
	at              time.Time
	resourceVersion string
}

// NewStatusThrottle returns a StatusThrottle.
func NewStatusThrottle(interval time.Duration) *StatusThrottle {
	return &StatusThrottle{interval: interval, now: time.Now, writes: map[string]lastWrite{}}
}

// Wait returns how long the next status write of an object must wait, 0 for not at all.
func (s *StatusThrottle) Wait(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.interval-s.now().Sub(s.writes[name].at))
}

// RecordWrite records a status write and the resource version that it made.
func (s *StatusThrottle) RecordWrite(name, resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[name] = lastWrite{s.now(), resourceVersion}
}

// Delay delays the next status write of an object as if one had just been made.
func (s *StatusThrottle) Delay(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[name] = lastWrite{s.now(), s.writes[name].resourceVersion}
}

// CacheIsStale reports whether an object from the cache is older than its last status
// write. Its status is outdated then: a state that changes and changes back would be
// written once and never corrected.
func (s *StatusThrottle) CacheIsStale(name, resourceVersion string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.writes[name]
	written, err := strconv.ParseUint(last.resourceVersion, 10, 64)
	if err != nil || s.now().Sub(last.at) >= maxCacheLag {
		return false
	}
	read, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && read < written
}

// Forget drops a deleted object.
func (s *StatusThrottle) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writes, name)
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

// DebouncedHandlers returns handlers that reconcile one cluster-scoped object after a
// delay, once for all events until then. One handles changes of objects, the other signals
// on a channel.
func DebouncedHandlers(name string, after time.Duration) (handler.Funcs, handler.TypedFuncs[string, reconcile.Request]) {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue) { q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, after) }
	return handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { wake(q) },
			UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { wake(q) },
			DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { wake(q) },
		}, handler.TypedFuncs[string, reconcile.Request]{
			GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[string], q queue) { wake(q) },
		}
}
