package controller

import (
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/internal/timing"
)

// longestLag is how long a cache is given to catch up with a report. A version that is
// older for longer is no old version: etcd was restored, and counts from where it was.
var longestLag = timing.Wait(time.Minute)

// Pace spreads reports: at most one per object and interval, however much
// changes.
type Pace struct {
	interval time.Duration
	now      func() time.Time

	mu   sync.Mutex
	last map[string]time.Time
	// written is the resource version of the object after its last report.
	written map[string]string
}

// NewPace makes a Pace.
func NewPace(interval time.Duration) *Pace {
	return &Pace{interval: interval, now: time.Now, last: map[string]time.Time{}, written: map[string]string{}}
}

// Wait returns how long the object has to wait for its next report, 0 when
// it may be written now.
func (p *Pace) Wait(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[name]
	if !ok {
		return 0
	}
	return max(0, p.interval-p.now().Sub(last))
}

// Mark notes that a report was written and which version it made.
func (p *Pace) Mark(name, resourceVersion string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[name] = p.now()
	p.written[name] = resourceVersion
}

// Delay lets the object wait for its next report as after one that was written.
func (p *Pace) Delay(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[name] = p.now()
}

// Stale tells whether an object read from the cache is older than the last
// report. Its status is then not what is stored, and nothing may be concluded
// from its being right: a state that changes and changes back would be
// reported once and never corrected.
func (p *Pace) Stale(name, resourceVersion string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, err := strconv.ParseUint(p.written[name], 10, 64)
	if err != nil || p.now().Sub(p.last[name]) >= longestLag {
		return false
	}
	read, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && read < written
}

// Forget drops an object that is gone.
func (p *Pace) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
	delete(p.written, name)
}

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
