package main

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// errFenced refuses a write that could meet a successor's.
var errFenced = errors.New("not the leader: write refused")

// fence stands between the scheduler and the API server and lets writes pass only while this
// process certainly leads.
//
// Volcano cannot be stopped: when its stop channel closes, the running session goes on, and
// its binding and evicting goroutines have contexts of their own. So not the scheduler is
// stopped but its writes: once the fence is shut no write begins, and once it is drained none
// is under way. Only then may the lease be released. The same fence holds back a process that
// was frozen longer than its lease is valid and wakes up in the middle of a session.
type fence struct {
	mu sync.Mutex
	// until is when writing ends unless it is extended; zero before the first term.
	until time.Time
	// shut is final.
	shut bool
	// underWay counts writes between request and answer.
	underWay int
	// drained is closed when the fence is shut and no write is under way.
	drained chan struct{}
	now     func() time.Time
}

func newFence() *fence {
	return &fence{drained: make(chan struct{}), now: time.Now}
}

// extend allows writes until a moment.
func (f *fence) extend(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.until) {
		f.until = until
	}
}

// close refuses all further writes for good.
func (f *fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return
	}
	f.shut = true
	if f.underWay == 0 {
		close(f.drained)
	}
}

// drain closes the fence and waits until no write is under way; false if that takes longer
// than patience.
func (f *fence) drain(patience time.Duration) bool {
	f.close()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-f.drained:
		return true
	case <-timeout.C:
		return false
	}
}

func (f *fence) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut || !f.now().Before(f.until) {
		return false
	}
	f.underWay++
	return true
}

func (f *fence) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.underWay--
	if f.shut && f.underWay == 0 {
		close(f.drained)
	}
}

// wrap is a transport.WrapperFunc.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper {
	return &fencedTransport{fence: f, next: next}
}

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
	if !t.fence.enter() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, errFenced
	}
	// The API server answers a write after it is stored.
	defer t.fence.leave()
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
