package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	pollInterval = 50 * time.Millisecond
	readyTimeout = 3 * time.Minute // also beside a build of everything
)

// waitUntilReady polls the probe until it succeeds, the process ends or time is up.
func waitUntilReady(ctx context.Context, what string, p *Process, ready func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		last = ready(ctx)
		if last != nil && p != nil && !p.Running() {
			return false, cmp.Or(p.crashError(), errors.New("it was stopped"))
		}
		return last == nil, nil
	})
	if err != nil && p != nil && p.Running() {
		err = fmt.Errorf("%w; its log ends with:\n%s", err, lastLines(p.LogFile()))
	}
	if err != nil {
		return fmt.Errorf("%s: not ready: %w (%w)", what, last, err)
	}
	return nil
}

// awaitReady waits until a process is ready.
func (c *Cluster) awaitReady(ctx context.Context, p *Process) error {
	if p.spec.Ready == nil {
		return nil
	}
	if err := waitUntilReady(ctx, p.Name(), p, p.spec.Ready); err != nil {
		return err
	}
	c.options.Log.Info("ready", "component", p.Name())
	return nil
}

// HTTPProbe is a probe for a URL that answers 200.
func HTTPProbe(url string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := HTTPGet(ctx, url)
		return err
	}
}

// localClient uses no proxy and a new connection each time, and does not check certificates: it
// talks to this machine.
var localClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// HTTPGet returns what a program on this machine answers with 200.
func HTTPGet(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := localClient.Do(request)
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
