package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/cardreclaim/action"
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
	// cache is that of the plugin, evictor what takes the place of Volcano's.
	cache   *capacitycard.Cache
	evictor *action.Evictor
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
		if term.Err() != nil {
			return nil
		}
		fenced := rest.CopyConfig(l.config)
		fenced.Wrap(fence.wrap)
		sched, err := scheduler.NewScheduler(fenced, l.opt)
		if err != nil {
			return fmt.Errorf("start the scheduler: %w", err)
		}
		if err := replaceEvictor(sched, l.evictor); err != nil {
			return err
		}
		problem := func() string { return configProblem(l.gate.Status()) }
		leases, err := newHeartbeatClient(fenced, l.heartbeats)
		if err != nil {
			return err
		}
		beater := newBeater(leases, l.heartbeats, l.identity, problem)
		l.cache.SetHeartbeat(beater.beat)
		go beater.run(term)
		sched.Run(term.Done())
		<-term.Done()
		return nil
	}
}

// takeTurns stands for election whenever no other scheduler runs, until this
// process has led or ctx ends. Another scheduler that appears ends the election:
// a process that has not led yet waits until it is gone, one that leads stops,
// frees the lease and ends with an error, because Volcano cannot be started a
// second time. newTurn makes an election that was not run yet.
func takeTurns(asked, ctx context.Context, others *foreign, newTurn func() *election) error {
	for {
		if others.gone(ctx) != nil {
			return stopReason(asked, ctx)
		}
		term, end := context.WithCancelCause(ctx)
		go func() {
			if err := others.arrival(term); err != nil {
				end(err)
			}
		}()
		turn := newTurn()
		err := turn.run(term)
		cause := stopReason(asked, term)
		end(nil)
		if err != nil || cause == nil || turn.led || ctx.Err() != nil {
			return errors.Join(err, cause)
		}
		klog.InfoS("stands back from the election", "reason", cause.Error())
	}
}

// ownPod is the name of the pod that this process runs in.
func ownPod() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // without a name no pod is the own one
	return name
}

// registerPlugins adds what Volcano does not bring itself. It returns Volcano's action preempt
// with the rules of card quota.
func registerPlugins(cache *capacitycard.Cache) *action.Preempt {
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.Builder(cache))
	reclaim := action.New(cache, nil)
	preempt := action.NewPreempt(reclaim)
	framework.RegisterAction(reclaim)
	framework.RegisterAction(preempt) // in the place of Volcano's
	prometheus.MustRegister(append(reclaim.Metrics(), cache.Metrics())...)
	return preempt
}

// errNoCache says that Volcano's scheduler is not built as that of v1.14.1 is.
var errNoCache = errors.New("the cache of Volcano's scheduler was not found, so its evictions would leave gangs in part")

// replaceEvictor has the cache of a scheduler evict as Preempt does. Volcano lets
// everybody choose the evictor of a cache, and keeps the cache of a scheduler to itself.
func replaceEvictor(sched *scheduler.Scheduler, evictor *action.Evictor) error {
	found, err := cacheOf(sched)
	if err != nil {
		return err
	}
	found.Evictor = evictor.Use(found.Client(), found.Recorder)
	return nil
}

func cacheOf(sched *scheduler.Scheduler) (*cache.SchedulerCache, error) {
	field := reflect.ValueOf(sched).Elem().FieldByName("cache")
	if !field.IsValid() || field.Kind() != reflect.Interface || field.IsNil() || field.Elem().Type() != reflect.TypeFor[*cache.SchedulerCache]() {
		return nil, errNoCache
	}
	return (*cache.SchedulerCache)(field.Elem().UnsafePointer()), nil
}
