package main

import (
	"context"
	"strings"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// The names of the contenders in the report.
const (
	stockName = "stock Volcano"
	ourName   = "Cardquota"
)

// startFunc starts a scheduler. It may be at work before starter returns.
type startFunc func(ctx context.Context) (*cluster.Process, error)

// installScheduler installs what a contender needs, before the time is taken. It will serve metrics
// and profiles at the address metrics.
func installScheduler(ctx context.Context, name string, c *cluster.Cluster, s size, metrics string) (startFunc, error) {
	flags := []string{
		"--listen-address=" + metrics, "--enable-metrics=true", "--enable-pprof=true",
		"--schedule-period=" + s.period.String(), "--kube-api-qps=2000", "--kube-api-burst=2000", "--leader-elect=false", "-v=2",
	}
	if name == stockName {
		// That of Volcano's installer, with capacity in the place of overcommit and proportion.
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
