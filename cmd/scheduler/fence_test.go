package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// server counts what reaches it and answers when it may.
type server struct {
	*httptest.Server
	arrived chan string
	// release lets it answer.
	release func()
}

func newServer(t *testing.T) *server {
	answer := make(chan struct{})
	s := &server{arrived: make(chan string, 100), release: sync.OnceFunc(func() { close(answer) })}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.arrived <- r.Method
		<-answer
	}))
	t.Cleanup(func() {
		s.release()
		s.Close()
	})
	return s
}

func (s *server) send(transport http.RoundTripper, method string) error {
	request, err := http.NewRequest(method, s.URL, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (f *fence) isShut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shut
}

func TestOnlyReadsPassAClosedFence(t *testing.T) {
	s := newServer(t)
	s.release()
	fences := map[string]func(*fence){
		"before the first term": func(*fence) {},
		"after its term":        func(f *fence) { f.extend(f.now().Add(-time.Second)) },
		"when it is closed":     func(f *fence) { f.extend(f.now().Add(time.Hour)); f.close(); f.extend(f.now().Add(2 * time.Hour)) },
	}
	for name, set := range fences {
		t.Run(name, func(t *testing.T) {
			f := newFence()
			set(f)
			transport := f.wrap(http.DefaultTransport)
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "ODD"} {
				if err := s.send(transport, method); !errors.Is(err, errFenced) {
					t.Errorf("%s: got %v, want it refused", method, err)
				}
			}
			for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
				if err := s.send(transport, method); err != nil {
					t.Errorf("%s: refused: %v", method, err)
				}
				<-s.arrived
			}
			if len(s.arrived) != 0 {
				t.Errorf("%s reached the server", <-s.arrived)
			}
		})
	}
}

func TestRefusedWriteClosesItsBody(t *testing.T) {
	body := &closeable{Reader: strings.NewReader("{}")}
	request := httptest.NewRequest(http.MethodPost, "http://127.0.0.1", nil)
	request.Body = body
	if _, err := newFence().wrap(http.DefaultTransport).RoundTrip(request); !errors.Is(err, errFenced) || !body.closed {
		t.Errorf("error %v, body closed: %v", err, body.closed)
	}
}

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error { c.closed = true; return nil }

func TestTermEndsByItself(t *testing.T) {
	s := newServer(t)
	s.release()
	f := newFence()
	clock := time.Now()
	f.now = func() time.Time { return clock }
	f.extend(clock.Add(10 * time.Second))
	f.extend(clock.Add(5 * time.Second)) // an older renewal shortens nothing
	transport := f.wrap(http.DefaultTransport)
	clock = clock.Add(9 * time.Second)
	if err := s.send(transport, "POST"); err != nil {
		t.Errorf("within the term: %v", err)
	}
	clock = clock.Add(time.Second)
	if err := s.send(transport, "POST"); !errors.Is(err, errFenced) {
		t.Errorf("at the end of the term: %v", err)
	}
}

func TestDrainWaitsForWritesUnderWay(t *testing.T) {
	s := newServer(t)
	f := newFence()
	f.extend(time.Now().Add(time.Hour))
	transport := f.wrap(http.DefaultTransport)
	sent := make(chan error, 2)
	for range 2 {
		go func() { sent <- s.send(transport, "POST") }()
	}
	<-s.arrived
	<-s.arrived
	if f.drain(10 * time.Millisecond) {
		t.Fatal("drained with two writes under way")
	}
	if err := s.send(transport, "POST"); !errors.Is(err, errFenced) {
		t.Fatalf("a write began after the drain: %v", err)
	}
	s.release()
	if !f.drain(time.Minute) {
		t.Fatal("not drained")
	}
	for range 2 {
		if err := <-sent; err != nil {
			t.Errorf("a write under way failed: %v", err)
		}
	}
	if !f.drain(0) && !f.drain(time.Second) {
		t.Error("drained no longer")
	}
}

func TestIdleFenceDrainsAtOnce(t *testing.T) {
	if !newFence().drain(time.Minute) {
		t.Error("not drained")
	}
}
