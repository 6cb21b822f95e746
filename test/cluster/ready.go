package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	pollEvery    = 50 * time.Millisecond
	readyTimeout = 3 * time.Minute // also beside a build of everything
	portAttempts = 4
)

// errPortTaken ends an attempt to start a component whose port somebody else took first.
var errPortTaken = errors.New("port taken by somebody else")

// until polls the probe until it succeeds, the process ends or time is up.
func until(ctx context.Context, what string, p *Process, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var ended <-chan struct{}
	if p != nil {
		ended = p.Done()
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ended:
			if portTaken(p.LogFile()) {
				return fmt.Errorf("%s: %w", what, errPortTaken)
			}
			if err := p.crashed(); err != nil {
				return err
			}
			return fmt.Errorf("%s was stopped before it was ready", what)
		case <-ctx.Done():
			err := fmt.Errorf("%s: not ready: %w (%w)", what, last, context.Cause(ctx))
			if p != nil {
				err = fmt.Errorf("%w; its log ends with:\n%s", err, tail(p.LogFile()))
			}
			return err
		case <-tick.C:
		}
	}
}

// startReady starts a component on a free port of loopback and waits for it; when the port
// was taken in the meantime it tries again with another.
func (c *Cluster) startReady(ctx context.Context, build func(port int) (ProcessSpec, error)) (p *Process, err error) {
	err = retryPorts(func() error {
		port, err := FreePort()
		if err != nil {
			return err
		}
		spec, err := build(port)
		if err != nil {
			return err
		}
		spec.component = true
		p, err = c.StartProcess(ctx, spec)
		return err
	})
	return p, err
}

// retryPorts starts something again when a port was taken.
func retryPorts(start func() error) (err error) {
	for range portAttempts {
		if err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return err
}

// await waits until a process is ready. One whose port was taken is forgotten.
func (c *Cluster) await(ctx context.Context, p *Process) error {
	if p.spec.Ready == nil {
		return nil
	}
	if err := until(ctx, p.Name(), p, p.spec.Ready); err != nil {
		if errors.Is(err, errPortTaken) {
			c.forget(p)
		}
		return err
	}
	c.options.Log.Info("ready", "component", p.Name())
	return nil
}

// forget drops a process that has ended and is replaced by another.
func (c *Cluster) forget(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = slices.DeleteFunc(c.running, func(other *Process) bool { return other == p })
}

// Answers is a probe for a URL that answers 200.
func Answers(url string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := Get(ctx, url)
		return err
	}
}

// local uses no proxy and a new connection each time, and does not check certificates: it
// talks to this machine.
var local = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// Get returns what a program on this machine answers with 200.
func Get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := local.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", response.Status, body)
	}
	return body, err
}
