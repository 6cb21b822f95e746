package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cardquota.dev/operator/test/cluster"
)

const (
	// drainLimit ends a drain that hangs.
	drainLimit = 15 * time.Minute
	// aftermath is how long after the last binding the cost is taken: status
	// writes and events follow the bindings.
	aftermath = 5 * time.Second
)

// drain is what one run measured.
type drain struct {
	// load is the load average over one minute when the scheduler started.
	load string
	// first, half and all are when so many pods were bound.
	first, half, all time.Duration
	// nodes have pods; perGang is on how many nodes a gang is on average.
	nodes   int
	perGang float64
	// processors are the CPU seconds of every program, elsewhere those of
	// programs that do not belong here, and writes the changing requests, from
	// the start until the aftermath.
	processors map[string]float64
	elsewhere  float64
	writes     map[string]int
}

// measure starts a cluster, fills it with waiting gangs, and lets the contender
// place them.
func measure(ctx context.Context, s size, contender contender) (d drain, err error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: fleet(s.nodes)})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, fmt.Errorf("not done after %s", drainLimit))
	defer cancel()
	port, err := cluster.FreePort()
	if err != nil {
		return d, err
	}
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	if err := contender.prepare(ctx, c, s, metrics); err != nil {
		return d, err
	}
	if err := fill(ctx, c.Config(), s.gangs); err != nil {
		return d, err
	}
	if err := quiet(ctx, c.Client()); err != nil {
		return d, err
	}
	pods, err := watch(ctx, c.Config(), s.gangs*gangSize)
	if err != nil {
		return d, err
	}
	return run(ctx, c, s, contender, pods, metrics)
}

// run starts the scheduler and takes time and cost.
func run(ctx context.Context, c *cluster.Cluster, s size, contender contender, pods *placements, metrics string) (d drain, err error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d, err
	}
	d.load, _, _ = strings.Cut(string(load), " ")
	written, err := writes(ctx, c.Client())
	if err != nil {
		return d, err
	}
	used, err := processorTime()
	if err != nil {
		return d, err
	}

	began := time.Now()
	process, err := contender.start(ctx)
	if err != nil {
		return d, err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- s.profile(ctx, metrics, contender.name()) }()
	if err := pods.wait(ctx, process.Done()); err != nil {
		return d, fmt.Errorf("%w; its log: %s", err, keepLog(process))
	}
	d.first, d.half, d.all = pods.since(began, 1), pods.since(began, pods.want/2), pods.since(began, pods.want)
	d.nodes, d.perGang = pods.spread()

	select {
	case <-time.After(aftermath):
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}
	usedLater, err := processorTime()
	if err != nil {
		return d, err
	}
	writtenLater, err := writes(ctx, c.Client())
	if err != nil {
		return d, err
	}
	d.processors, d.writes = less(usedLater, used), less(writtenLater, written)
	d.elsewhere = elsewhere(d.processors)
	return d, <-profiled
}

// keepLog copies a log out of the cluster's folder, which goes with the cluster.
func keepLog(p *cluster.Process) string {
	kept := filepath.Join(os.TempDir(), "bench-"+filepath.Base(p.LogFile()))
	text, err := os.ReadFile(p.LogFile())
	if err == nil {
		err = os.WriteFile(kept, text, 0o600)
	}
	if err != nil {
		return err.Error()
	}
	return kept
}

// profile writes a CPU profile of the scheduler's first ten seconds, if asked.
func (s size) profile(ctx context.Context, metrics, name string) error {
	if s.profiles == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/debug/pprof/profile?seconds=10", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	for err != nil && ctx.Err() == nil { // it does not listen yet
		time.Sleep(20 * time.Millisecond)
		response, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	profile, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(filepath.Join(s.profiles, strings.ReplaceAll(name, " ", "-")+".pprof"), profile, 0o600)
}
