package main

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

func TestOnlyReadsPassAClosedFence(t *testing.T) {
	s := newFakeAPIServer(t)
	s.release()
	for t, set := range check.Cases(t, map[string]func(*fence){
		"before the first term": func(*fence) {},
		"after its term":        func(f *fence) { f.extend(f.now().Add(-time.Second)) },
		"when it is closed":     func(f *fence) { f.extend(f.now().Add(time.Hour)); f.close(); f.extend(f.now().Add(2 * time.Hour)) },
	}) {
		f := newFence()
		set(f)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "ODD"} {
			err := s.send(f, method)
			check.That(t, errors.Is(err, errFenced), "%s: got %v, want it refused", method, err)
		}

		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			check.NoError(t, s.send(f, method))
			check.Equal(t, "arrived", method, <-s.arrived)
		}
		check.Equal(t, "more requests that reached the server", 0, len(s.arrived))
	}
}

func TestRefusedWriteClosesItsBody(t *testing.T) {
	body := &closeable{Reader: strings.NewReader("{}")}
	request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1", nil)
	request.Body = body
	_, err := newFence().wrapTransport(http.DefaultTransport).RoundTrip(request)
	check.That(t, errors.Is(err, errFenced) && body.closed, "error %v, body closed: %v", err, body.closed)
}

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error { c.closed = true; return nil }

func TestTermEndsByItself(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		s := newFakeAPIServer(t)
		f := newFence()
		s.release()
		f.extend(time.Now().Add(10 * time.Second))
		f.extend(time.Now().Add(5 * time.Second)) // an older renewal shortens nothing
		time.Sleep(9 * time.Second)
		g.Expect(s.send(f, "POST")).To(Succeed(), "within the term")
		time.Sleep(time.Second)
		g.Expect(s.send(f, "POST")).To(MatchError(errFenced), "at the end of the term")
	})
}

func TestDrainWaitsForWritesInFlight(t *testing.T) {
	inFakeTime(t, func(t *testing.T, g *WithT) {
		s := newFakeAPIServer(t)
		f := newFence()
		sent := make(chan error, 2)

		f.extend(time.Now().Add(time.Hour))
		for range 2 {
			go func() { sent <- s.send(f, "POST") }()
		}

		synctest.Wait()
		g.Expect(f.drain(time.Second)).To(BeFalse(), "two writes are under way")
		g.Expect(s.send(f, "POST")).To(MatchError(errFenced), "no write begins after the drain")

		s.release()
		g.Expect(f.drain(time.Minute)).To(BeTrue())
		g.Expect([]error{<-sent, <-sent}).To(HaveEach(BeNil()), "the writes under way")
		g.Expect(f.drain(time.Second)).To(BeTrue(), "it stays drained")
	})
}

func TestIdleFenceDrainsAtOnce(t *testing.T) {
	check.Equal(t, "drained", true, newFence().drain(time.Minute))
}
