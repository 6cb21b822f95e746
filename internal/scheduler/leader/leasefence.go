package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errFenced refuses a write that could meet a successor's.
var errFenced = errors.New("not the leader: write refused")

// fence is between the scheduler and the API server and passes writes only while this process
// certainly leads.
//
// Volcano cannot be stopped: when its stop channel closes, the running session continues, and
// its binding and evicting goroutines have contexts of their own. So the fence stops its
// writes: no write starts after close, and none is in flight after closeAndWait. Only then may the
// election release the lease. The fence also stops a process that was frozen for longer than
// its lease and continues in the middle of a session.
type fence struct {
	mu sync.Mutex
	// until is when writes end unless it is extended; zero before the first term.
	until time.Time
	// closed is final.
	closed bool
	// inFlight counts writes between request and answer; none starts once the fence is closed.
	inFlight sync.WaitGroup
	now      func() time.Time
}

func newFence() *fence { return &fence{now: time.Now} }

// extend allows writes until the given time.
func (f *fence) extend(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.until) {
		f.until = until
	}
}

// close refuses all further writes, permanently.
func (f *fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// closeAndWait closes the fence and waits for writes in flight. It returns false if one has not ended in time.
func (f *fence) closeAndWait(timeout time.Duration) bool {
	f.close()
	ended := make(chan struct{})
	go func() { f.inFlight.Wait(); close(ended) }()
	select {
	case <-ended:
		return true
	case <-time.After(timeout):
		return false
	}
}

// beginWrite counts a write in flight and reports whether it may start.
func (f *fence) beginWrite() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || !f.now().Before(f.until) {
		return false
	}
	f.inFlight.Add(1)
	return true
}

// wrapTransport puts the fence before a transport, for rest.Config.Wrap.
func (f *fence) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return &fencedTransport{fence: f, next: next}
}

// fencedTransport sends requests through a fence.
type fencedTransport struct {
	fence *fence
	next  http.RoundTripper
}

// RoundTrip refuses writes while the fence is closed. Reads always pass.
func (t *fencedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return t.next.RoundTrip(request)
	}

	if !t.fence.beginWrite() {
		if request.Body != nil { // a RoundTripper must close it, also after an error
			_ = request.Body.Close()
		}
		return nil, errFenced
	}

	// The API server answers a write after it is stored.
	defer t.fence.inFlight.Done()

	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// fencedLock is a lease whose renewals keep the fence open.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
	// writeWindow is how long writes are allowed after a renewal. It is the renew deadline,
	// shorter than the lease, so that even the last write ends before a successor starts.
	writeWindow time.Duration
	// onLost is called when this process leads and finds another holder.
	onLost   func()
	isLeader bool
}

// Get also detects another holder, closes the fence and calls onLost. client-go would try to renew until its
// deadline, while two schedulers run.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.isLeader && record.HolderIdentity != l.Identity() {
		l.fence.close()
		l.onLost()
	}
	return record, raw, err
}

// Create takes a lease that does not exist yet.
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes, renews or releases the lease.
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(record, func() error { return l.Interface.Update(ctx, record) })
}

// writeRecord writes the lease, and extends the fence if this process holds it then. The time counts from before
// the request: other candidates count from when they see it, which is later.
func (l *fencedLock) writeRecord(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := time.Now()
	if err := write(); err != nil {
		return err
	}
	if record.HolderIdentity == l.Identity() {
		l.isLeader = true
		l.fence.extend(sent.Add(l.writeWindow))
	}
	return nil
}

// releaseLease frees the lease, so that a successor need not wait for its end. No write may be in flight and the
// election must be over: the release itself ignores the fence.
func (l *fencedLock) releaseLease(ctx context.Context) error {
	if !l.isLeader {
		return nil
	}

	l.isLeader = false
	record, _, err := l.Interface.Get(ctx)
	if err != nil {
		return fmt.Errorf("read the lease %s: %w", l.Describe(), err)
	}
	if record.HolderIdentity != l.Identity() { // a successor has it already
		return nil
	}

	// The one second is what client-go writes when it releases a lease.
	record.HolderIdentity = ""
	record.LeaseDurationSeconds = 1
	if err := l.Interface.Update(ctx, *record); err != nil {
		return fmt.Errorf("release the lease %s: %w", l.Describe(), err)
	}

	return nil
}
