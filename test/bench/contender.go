package main

import (
	"context"
	"os"
	"path/filepath"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// The names of the contenders in the report.
const (
	stockName = "stock Volcano"
	ourName   = "Cardquota"
)

// contender is a scheduler that is measured.
type contender interface {
	name() string
	// prepare installs what the scheduler needs, before the time is taken; it
	// will serve metrics and profiles at the address metrics.
	prepare(ctx context.Context, c *cluster.Cluster, s size, metrics string) error
	// start starts it. It may be at work before start returns.
	start(ctx context.Context) (*cluster.Process, error)
}

// flags are what both schedulers are started with.
func flags(s size, metrics string) []string {
	return []string{
		"--listen-address=" + metrics, "--enable-metrics=true", "--enable-pprof=true",
		"--schedule-period=" + s.period.String(), "--kube-api-qps=2000", "--kube-api-burst=2000", "--leader-elect=false", "-v=2",
	}
}

// stockConfiguration is the one of Volcano's installer, with capacity in the
// place of overcommit and proportion.
const stockConfiguration = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: capacity
  - name: nodeorder
  - name: binpack
`

// stock is Volcano's own scheduler, which counts every GPU alike.
type stock struct {
	cluster *cluster.Cluster
	spec    cluster.ProcessSpec
}

func (*stock) name() string { return stockName }

func (k *stock) prepare(ctx context.Context, c *cluster.Cluster, s size, metrics string) error {
	kubeconfig, err := c.KubeconfigFor(ctx, cluster.VolcanoNamespace, "volcano-scheduler")
	if err != nil {
		return err
	}
	configuration := filepath.Join(c.Dir(), "stock.conf")
	k.cluster, k.spec = c, cluster.ProcessSpec{
		Name: "scheduler", Path: filepath.Join(c.BinDir(), "scheduler"),
		Args: append([]string{"--kubeconfig=" + kubeconfig, "--scheduler-conf=" + configuration}, flags(s, metrics)...),
		Env:  []string{"DEBUG_SOCKET_DIR=" + filepath.Join(c.Dir(), "sockets")},
	}
	return os.WriteFile(configuration, []byte(stockConfiguration), 0o600)
}

func (k *stock) start(ctx context.Context) (*cluster.Process, error) {
	return k.cluster.StartProcess(ctx, k.spec)
}

// ours is this repository's scheduler with the configuration that is shipped.
type ours struct{ deployment *deployment.Deployment }

func (*ours) name() string { return ourName }

func (o *ours) prepare(ctx context.Context, c *cluster.Cluster, s size, metrics string) (err error) {
	o.deployment, err = deployment.Install(ctx, c, deployment.Options{SchedulePeriod: s.period, SchedulerArgs: flags(s, metrics)})
	return err
}

func (o *ours) start(ctx context.Context) (*cluster.Process, error) {
	if err := o.deployment.StartScheduler(ctx); err != nil {
		return nil, err
	}
	return o.deployment.Scheduler, nil
}
