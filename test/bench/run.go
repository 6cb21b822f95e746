package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

const (
	// runTimeout bounds a run.
	runTimeout = 15 * time.Minute
	// settleTime is how long after the last binding the cost is measured: status writes and
	// events follow the bindings.
	settleTime = 5 * time.Second
)

// measurement is the result of one run.
type measurement struct {
	// load is the load average over one minute at the start of the scheduler.
	load string
	// first, half and all are when so many pods were bound.
	first, half, all time.Duration
	// nodes is the number of nodes with pods; nodesPerGang is the average number of nodes of a
	// gang.
	nodes        int
	nodesPerGang float64
	// cpuSeconds are the CPU seconds of every program, otherCPUSeconds those of programs
	// outside of the benchmark, and apiWrites the write requests, from the start until
	// settleTime.
	cpuSeconds      map[string]float64
	otherCPUSeconds float64
	apiWrites       map[string]int
}

// measureRun starts a cluster, fills it with waiting gangs, and lets a scheduler place them.
func measureRun(ctx context.Context, s size, name string) (d measurement, err error) {
	w, err := harness.Start(ctx, nodeProfiles(s.nodes)...)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, fmt.Errorf("not done after %s", runTimeout))
	defer cancel()

	start, err := installScheduler(ctx, name, w.Cluster, s, w.MetricsAddress)
	if err != nil {
		return d, err
	}
	if err := createWorkload(ctx, w, s.gangs); err != nil {
		return d, err
	}
	if err := harness.WaitUntilIdle(ctx, w.Cluster.Client(), 2*time.Second, nil); err != nil {
		return d, err
	}

	want := s.gangs * harness.GangSize
	seen := w.Pods.CountPods(harness.Trainer)
	bound := w.Pods.Usage().Cards
	if seen != want || bound > 0 {
		return d, fmt.Errorf("%d pods wait and %d are bound before the start, expected %d and 0", seen-bound, bound, want)
	}

	return startAndMeasure(ctx, w, s, name, start, want)
}

// startAndMeasure starts the scheduler and measures time and cost.
func startAndMeasure(ctx context.Context, w *harness.Env, s size, name string, start startFunc, want int) (d measurement, err error) {
	d.load = harness.LoadAverage()
	written, err := harness.CountAPIWrites(ctx, w.Cluster.Client())
	if err != nil {
		return d, err
	}

	used, err := processorTime()
	if err != nil {
		return d, err
	}

	began := time.Now()
	process, err := start(ctx)
	if err != nil {
		return d, err
	}

	profiled := make(chan error, 1)
	go func() { profiled <- w.WriteCPUProfile(ctx, s.profiles, name) }()
	var times []time.Time // of the bindings, in their order
	err = w.WaitUntil(ctx, "all pods to be bound", func(context.Context) (bool, error) {
		times, _ = w.Pods.PodTimes()
		if len(times) < want && !process.Running() {
			return false, errors.New("the scheduler ended by itself")
		}
		return len(times) == want, nil
	})
	if err != nil {
		return d, fmt.Errorf("%d of %d pods are bound: %w; its log: %s", len(times), want, err, keepLog(process))
	}

	since := func(n int) time.Duration { return times[n-1].Sub(began) }
	d.first = since(1)
	d.half = since(want / 2)
	d.all = since(want)
	d.nodes, d.nodesPerGang = w.Pods.NodeSpread()

	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}

	usedLater, err := processorTime()
	if err != nil {
		return d, err
	}

	writtenLater, err := harness.CountAPIWrites(ctx, w.Cluster.Client())
	if err != nil {
		return d, err
	}

	d.cpuSeconds = harness.Difference(usedLater, used)
	d.apiWrites = harness.Difference(writtenLater, written)
	d.otherCPUSeconds = otherCPUSeconds(d.cpuSeconds)
	return d, <-profiled
}

// keepLog copies a log out of the cluster's folder, which is removed with the cluster.
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

// Names of the contenders in the report.
const (
	stockName = "stock Volcano"
	ourName   = "Cardquota"
)

// startFunc starts a scheduler. The scheduler may place pods before startFunc returns.
type startFunc func(ctx context.Context) (*cluster.Process, error)

// installScheduler installs what a contender needs before the measurement. The scheduler will
// serve metrics and profiles at the address metrics.
func installScheduler(ctx context.Context, name string, c *cluster.Cluster, s size, metrics string) (startFunc, error) {
	flags := []string{
		"--listen-address=" + metrics, "--enable-metrics=true", "--enable-pprof=true",
		"--schedule-period=" + s.period.String(), "--kube-api-qps=2000", "--kube-api-burst=2000", "--leader-elect=false", "-v=2",
	}

	if name == stockName {
		// The configuration of Volcano's installer, with capacity in place of overcommit and
		// proportion.
		configuration := strings.NewReplacer("  - name: overcommit\n", "", "proportion", "capacity").Replace(cluster.StockConfiguration)
		return func(ctx context.Context) (*cluster.Process, error) {
			return c.StartStockScheduler(ctx, configuration, flags...)
		}, nil
	}

	d, err := deployment.Install(ctx, c, deployment.Options{SchedulePeriod: s.period, SchedulerArgs: flags})
	return func(ctx context.Context) (*cluster.Process, error) {
		err := d.StartScheduler(ctx)
		return d.Scheduler, err
	}, err
}
