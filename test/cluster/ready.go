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
	readyTimeout = 90 * time.Second
	portAttempts = 4
)

// errPortTaken ends an attempt to start a component whose port somebody else took first.
var errPortTaken = errors.New("port taken by somebody else")

// probe tells whether something is ready; an error says why not yet.
type probe func(ctx context.Context) error

// until polls the probe until it succeeds, the process ends or time is up.
func until(ctx context.Context, what string, p *Process, ready probe) error {
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
			return p.crashed()
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w (%w)", what, last, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// builder makes a component's process for the given free ports, and says how to see that
// it is ready.
type builder func(ports []int) (ProcessSpec, probe, error)

// startReady starts a component on free ports and waits for it; when a port was taken in
// the meantime it tries again with others.
func (c *Cluster) startReady(ctx context.Context, ports int, build builder) (*Process, error) {
	for attempt := 1; ; attempt++ {
		p, err := c.tryStart(ctx, ports, build)
		if err == nil || !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return p, err
		}
	}
}

// tryStart is one attempt of startReady; the error may be errPortTaken.
func (c *Cluster) tryStart(ctx context.Context, count int, build builder) (*Process, error) {
	ports := make([]int, count)
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	spec, ready, err := build(ports)
	if err != nil {
		return nil, err
	}
	p, err := c.launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p, c.await(ctx, p, ready)
}

// launch starts a part of the cluster and does not wait for it.
func (c *Cluster) launch(ctx context.Context, spec ProcessSpec) (*Process, error) {
	spec.component = true
	return c.StartProcess(ctx, spec)
}

// await waits until a component is ready. One whose port was taken is forgotten.
func (c *Cluster) await(ctx context.Context, p *Process, ready probe) error {
	if err := until(ctx, p.Name(), p, ready); err != nil {
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

// answers is a probe for an HTTP endpoint that answers 200. Certificates are not checked:
// only readiness is asked for, on loopback.
func answers(url string) probe {
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
			return fmt.Errorf("%s: %s", response.Status, text)
		}
		return nil
	}
}
