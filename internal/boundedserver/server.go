// Package boundedserver serves HTTP/1.1 on ports that any pod may reach: with a limit of connections, and
// with a time limit for everything that a client does. HTTP/2 is off, because one of its connections
// carries hundreds of requests.
package boundedserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 64 << 10

// shutdownTimeout is how long requests may end after the program was asked to stop.
const shutdownTimeout = time.Minute

// Limits bound what clients can take of a server.
type Limits struct {
	// Connections is how many are open at a time. Further ones wait until one is closed.
	Connections int
	// Header bounds the handshake and the headers of a request, Request all of it, Response the time from
	// its headers to the end of the answer. Idle is how long a connection may wait for its next request.
	Header, Request, Response, Idle time.Duration
}

// ProbeLimits are the limits of a port for probes. The kubelet opens a connection for each probe and sends
// its request at once, so clients that wait make room for it within seconds.
var ProbeLimits = Limits{Connections: 256, Header: 2 * time.Second, Request: 5 * time.Second, Response: 15 * time.Second, Idle: 2 * time.Second}

// Server serves a handler at an address.
type Server struct {
	Address string
	Handler http.Handler
	// TLS is nil for a server without TLS. NextProtos is ignored.
	TLS    *tls.Config
	Limits Limits
}

// Listen returns the listener of the server.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", s.Address, err)
	}

	// The limit is on connections before TLS, so that those count whose handshake is not done.
	listener = netutil.LimitListener(listener, s.Limits.Connections)
	if s.TLS != nil {
		config := s.TLS.Clone()
		config.NextProtos = []string{"http/1.1"} // HTTP/2 is off
		listener = tls.NewListener(listener, config)
	}
	return listener, nil
}

// HTTPServer returns the server for the listener.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s.Handler,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: s.Limits.Header,
		ReadTimeout:       s.Limits.Request,
		WriteTimeout:      s.Limits.Response,
		IdleTimeout:       s.Limits.Idle,
	}
}

// Start listens and serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.Listen(ctx)
	if err != nil {
		return err
	}

	server := s.HTTPServer()

	// Serve returns as soon as Shutdown begins, so wait until requests that still run have their
	// answer.
	closed := make(chan struct{})
	stopped := make(chan struct{}) // Serve has returned, perhaps by an error of the listener
	go func() {
		defer close(closed)
		select {
		case <-ctx.Done():
		case <-stopped:
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = server.Shutdown(end) // what still runs then ends with the program
	}()

	err = server.Serve(listener)
	close(stopped)
	<-closed
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", s.Address, err)
	}

	return nil
}
