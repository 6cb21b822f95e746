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

// maxCacheLag is how long a cache is given to catch up with a report. A version that is
// older for longer is no old version: etcd was restored, and counts from where it was.
var maxCacheLag = build.Wait(time.Minute)

// StatusThrottle spreads reports: at most one per object and interval, however much changes.
type StatusThrottle struct {
	interval time.Duration
	now      func() time.Time

	mu     sync.Mutex
	writes map[string]lastWrite
}

// lastWrite is the last report about an object: when it was, and which resource version of
// the object it made.
type lastWrite struct {
	at              time.Time
	resourceVersion string
}

// NewStatusThrottle makes a Pace.
func NewStatusThrottle(interval time.Duration) *StatusThrottle {
	return &StatusThrottle{interval: interval, now: time.Now, writes: map[string]lastWrite{}}
}

// Wait returns how long the object has to wait for its next report, 0 when it may be
// written now.
func (p *StatusThrottle) Wait(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.interval-p.now().Sub(p.writes[name].at))
}

// RecordWrite notes that a report was written and which version it made.
func (p *StatusThrottle) RecordWrite(name, resourceVersion string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes[name] = lastWrite{p.now(), resourceVersion}
}

// Delay lets the object wait for its next report as after one that was written.
func (p *StatusThrottle) Delay(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes[name] = lastWrite{p.now(), p.writes[name].resourceVersion}
}

// CacheIsStale reports whether an object read from the cache is older than the last report. Its
// status is not what is stored then, and must not be taken for right: a state that
// changes and changes back would be reported once and never corrected.
func (p *StatusThrottle) CacheIsStale(name, resourceVersion string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.writes[name]
	written, err := strconv.ParseUint(last.resourceVersion, 10, 64)
	if err != nil || p.now().Sub(last.at) >= maxCacheLag {
		return false
	}
	read, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && read < written
}

// Forget drops an object that is gone.
func (p *StatusThrottle) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.writes, name)
}

// RequeueWithin looks again after a time at the latest; 0 is no such time.
func RequeueWithin(result ctrl.Result, again time.Duration) ctrl.Result {
	if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	return result
}

// SpecChanged lets changes of an object pass except those of its status: a changed spec,
// and the beginning of its deletion.
var SpecChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}

// IsRefused reports whether the API server or an admission webhook refused a write, so that
// trying again at once would only repeat the answer.
func IsRefused(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// DebouncedHandlers has one cluster-scoped object looked at in a moment, once for all that
// happens until then: by changes of any objects, and by whoever sends a word.
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
