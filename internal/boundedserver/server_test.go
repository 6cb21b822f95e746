package boundedserver

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// startServer starts a server on a free port and returns its address. The server stops with the test.
func startServer(t *testing.T, s *Server) string {
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)

	s.Address = listener.Addr().String()
	check.NoError(t, listener.Close())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()

	t.Cleanup(func() {
		stop()
		check.NoError(t, <-ended)
	})

	for range 200 { // two seconds
		if connection, err := net.Dial("tcp", s.Address); err == nil {
			check.NoError(t, connection.Close())
			break
		}
		time.Sleep(10 * time.Millisecond)
	}

	return s.Address
}

// answer is a handler that answers "yes".
var answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })

// newLimits returns limits for so many connections, and short times: an idle one ends after 300 ms.
func newLimits(connections int) Limits {
	return Limits{
		Connections: connections,
		Header:      300 * time.Millisecond,
		Request:     time.Second,
		Response:    time.Second,
		Idle:        300 * time.Millisecond,
	}
}

// get asks the server once, and fails after some seconds.
func get(t *testing.T, client *http.Client, url string) (protocol string, err error) {
	client.Timeout = 5 * time.Second
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	check.That(t, err != nil || string(body) == "yes", "body %q", body)
	return response.Proto, err
}

// TestClientsOfHTTP2GetHTTP1: the server bounds its connections, and with them the requests that it serves at a time.
// One connection of HTTP/2 would carry hundreds, so a client that prefers HTTP/2 gets HTTP/1.1.
func TestClientsOfHTTP2GetHTTP1(t *testing.T) {
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	defer certificates.Close()
	config := certificates.TLS.Clone()
	config.NextProtos = []string{"h2"}
	address := startServer(t, &Server{Handler: answer, TLS: config, Limits: newLimits(4)})

	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	check.Equal(t, "protocol", "HTTP/1.1", check.Value(get(t, client, "https://"+address))(t))
}

// TestIdleConnectionsEnd: a client opens all 3 connections that the server allows, and sends nothing. The server ends
// them after 300 ms, so another client is answered soon.
func TestIdleConnectionsEnd(t *testing.T) {
	const connections = 3
	address := startServer(t, &Server{Handler: answer, Limits: newLimits(connections)})
	for range connections {
		idle := check.Value(net.Dial("tcp", address))(t)
		defer func() { _ = idle.Close() }()
	}
	began := time.Now()
	check.Value(get(t, &http.Client{Transport: &http.Transport{}}, "http://"+address))(t)
	check.That(t, time.Since(began) < 4*time.Second, "answered after %s", time.Since(began))
}

// TestConnectionsAreLimited: with 2 connections the server serves 2 requests at a time. Of 3 requests that each take
// until they are released, the server does not begin the third while the other two are running.
func TestConnectionsAreLimited(t *testing.T) {
	const connections = 2
	running := make(chan struct{}, 10)
	release := make(chan struct{})
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		running <- struct{}{}
		<-release
	})

	limits := newLimits(connections)
	limits.Request = time.Minute
	limits.Response = time.Minute
	address := startServer(t, &Server{Handler: slow, Limits: limits})

	done := make(chan struct{}, 10)
	for range connections + 1 {
		go func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if response, err := client.Get("http://" + address); err == nil {
				_ = response.Body.Close()
			}
			done <- struct{}{}
		}()
	}

	for range connections {
		<-running
	}

	select {
	case <-running:
		t.Error("a third request is served beside two connections")
	case <-time.After(200 * time.Millisecond): // long enough for a third request to begin, if it could
	}

	close(release)
	for range connections + 1 {
		<-done
	}
}

// TestClientThatDoesNotReadEnds: a client that requests an endless answer and does not read it would keep its
// connection for ever. After the time limit of a response, here a second, the server ends it, and the handler's write
// fails.
func TestClientThatDoesNotReadEnds(t *testing.T) {
	ended := make(chan error, 1)
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})

	connection := check.Value(net.Dial("tcp", startServer(t, &Server{Handler: endless, Limits: newLimits(2)})))(t)
	defer func() { _ = connection.Close() }()

	check.Value(io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))(t)

	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the answer is written for ever")
	}
}
