package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"

	"cardquota.dev/operator/internal/configgate"
)

// leader is the work of the elected process: Volcano's scheduler and its heartbeat.
type leader struct {
	config *rest.Config
	opt    *options.ServerOption
	gate   *configgate.Gate
	others *foreign
	// heartbeats is the namespace of the heartbeat, identity who beats.
	heartbeats string
	identity   string
}

// farewell writes into the heartbeat that this process has stopped in order. It passes the
// fence by, which is shut by then.
func (l *leader) farewell(ctx context.Context) {
	leases, err := newHeartbeatClient(l.config, l.heartbeats)
	if err == nil {
		err = endHeartbeat(ctx, leases, l.identity)
	}
	if err != nil {
		klog.ErrorS(err, "the heartbeat does not say that this scheduler has stopped: it runs out by itself")
	}
}

// with is the work behind a fence. It schedules until its context ends, and
// returns earlier only with an error.
func (l *leader) with(fence *fence) func(context.Context) error {
	return func(term context.Context) error {
		// Since no other scheduler was there, it may have taken long to be elected.
		if err := l.others.absent(term); err != nil {
			return err
		}
		select {
		case <-term.Done():
			return nil
		default:
		}
		fenced := rest.CopyConfig(l.config)
		fenced.Wrap(fence.wrap)
		sched, err := scheduler.NewScheduler(fenced, l.opt)
		if err != nil {
			return fmt.Errorf("start the scheduler: %w", err)
		}
		if err := replaceEvictor(sched); err != nil {
			return err
		}
		problem := func() string { return configProblem(l.gate.Status()) }
		if err := startHeartbeat(term, fenced, l.heartbeats, l.identity, problem); err != nil {
			return err
		}
		sched.Run(term.Done())
		<-term.Done()
		return nil
	}
}
