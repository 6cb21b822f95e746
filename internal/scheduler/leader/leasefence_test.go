package leader

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"cardquota.dev/operator/internal/testing/check"
)

func (f *fence) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// TestOnlyReadsPassAClosedFence: all requests of the scheduler pass a fence, which is open while the process has the
// Lease. Outside of that term writes are refused before they reach the API server: two schedulers that both place
// pods would break quotas. Reads pass, because a replica fills its caches before it leads.
func TestOnlyReadsPassAClosedFence(t *testing.T) {
	server := newFakeAPIServer(t)
	server.answerAll()
	for t, set := range check.Cases(t, map[string]func(*fence){
		"the process has not led yet":             func(*fence) {},
		"the term ended a second ago":             func(f *fence) { f.extend(f.now().Add(-time.Second)) },
		"closed, and then an old renewal arrives": func(f *fence) { f.extend(f.now().Add(time.Hour)); f.close(); f.extend(f.now().Add(2 * time.Hour)) },
	}) {
		fence := newFence()
		set(fence)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "ODD"} { // an unknown method may write
			err := server.send(fence, method)
			check.That(t, errors.Is(err, errFenced), "%s: got %v, want it refused", method, err)
		}

		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			check.NoError(t, server.send(fence, method))
			check.Equal(t, "arrived", method, <-server.arrived)
		}
		check.Equal(t, "more requests that reached the server", 0, len(server.arrived))
	}
}

// TestRefusedWriteClosesItsBody: a closed fence refuses a write. As a transport (net/http.RoundTripper) it must close
// the body of a request also when it fails.
func TestRefusedWriteClosesItsBody(t *testing.T) {
	body := &closeable{Reader: strings.NewReader("{}")}
	request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1", nil)
	request.Body = body
	_, err := newFence().wrapTransport(http.DefaultTransport).RoundTrip(request)
	check.That(t, errors.Is(err, errFenced), "error %v, want %v", err, errFenced)
	check.Equal(t, "the body is closed", true, body.closed)
}

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error { c.closed = true; return nil }

// TestTermEndsByItself: a process that cannot renew its Lease must stop writing when the Lease ends, after 10 seconds
// here, because another process may lead then. A later renewal that ends after 5 seconds does not shorten the term:
// answers may come in any order.
func TestTermEndsByItself(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		server := newFakeAPIServer(t)
		fence := newFence()
		server.answerAll()
		fence.extend(time.Now().Add(10 * time.Second))
		fence.extend(time.Now().Add(5 * time.Second))

		time.Sleep(9 * time.Second)
		g.Expect(server.send(fence, "POST")).To(Succeed(), "within the term")
		time.Sleep(time.Second)
		g.Expect(server.send(fence, "POST")).To(MatchError(errFenced), "at the end of the term")
	})
}

// TestClosingTheFenceWaitsForWritesInFlight: before a leader releases its Lease it closes its fence, which all writes
// pass. No write begins any more, and it waits for two writes that the API server has not answered. Waiting too long
// returns false, and may be repeated.
func TestClosingTheFenceWaitsForWritesInFlight(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		server := newFakeAPIServer(t)
		fence := newFence()
		sent := make(chan error, 2)

		fence.extend(time.Now().Add(time.Hour))
		for range 2 {
			go func() { sent <- server.send(fence, "POST") }()
		}

		synctest.Wait()
		g.Expect(fence.closeAndWait(time.Second)).To(BeFalse(), "two writes are in flight")
		g.Expect(server.send(fence, "POST")).To(MatchError(errFenced), "no write begins in a closed fence")

		server.answerAll()
		g.Expect(fence.closeAndWait(time.Minute)).To(BeTrue())
		g.Expect([]error{<-sent, <-sent}).To(HaveEach(BeNil()), "the writes that were in flight")
		g.Expect(fence.closeAndWait(time.Second)).To(BeTrue(), "the fence stays closed")
	})
}

// TestIdleFenceClosesAtOnce: a leader closes its fence before it releases the Lease. Without a write in flight the
// closing succeeds, and takes none of the minute that it may take.
func TestIdleFenceClosesAtOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		began := time.Now()
		g.Expect(newFence().closeAndWait(time.Minute)).To(BeTrue())
		g.Expect(time.Since(began)).To(BeZero())
	})
}
