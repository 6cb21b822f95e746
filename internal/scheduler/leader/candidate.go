// Package leader elects the replica of the scheduler that places pods, and proves that it does.
//
// Two schedulers must never place pods at the same time. So a [Candidate] takes the lease, which
// Volcano's own scheduler uses as well, only while no other scheduler runs. All writes of the leader
// pass a fence, which is open only while this process certainly has the lease. After each session the
// leader reports in the heartbeat, a second Lease, which configuration it enforces.
package leader

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
)

// Candidate is a process that may become the leader, once.
type Candidate struct {
	// Config reaches the API server, for all but the election.
	Config *rest.Config
	// Election says whether there is a lease, which one, and its times.
	Election componentbaseconfig.LeaderElectionConfiguration
	// Client and Recorder are those of the election.
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	// Identity is the holder of the lease and of the heartbeat while this process leads.
	Identity string
	// Others finds the schedulers that must not run beside this one.
	Others *OtherSchedulers
	// HeartbeatNamespace is the namespace of the heartbeat.
	HeartbeatNamespace string
	// ConfigProblem returns why the newest configuration is not in force, "" when it is.
	ConfigProblem func() string
	// Schedule places pods until its context ends; it returns earlier only with an error. All its
	// writes use the config. It passes the report of each closed session to observe, which never
	// blocks.
	Schedule func(ctx context.Context, config *rest.Config, observe func(capacitycard.SessionReport)) error
}

// Run is a candidate whenever no other scheduler runs, until this process has led or ctx ends. Another
// scheduler that appears ends the election: a process that has not led waits until it is gone. The
// leader stops, frees the lease and returns an error, because Volcano cannot be started twice. After
// an error the process must exit at once. If ctx ends, Run returns StopReason of it.
func (c *Candidate) Run(ctx context.Context) error {
	return runElections(ctx, c.Others, c.newElection)
}

// StopReason returns why ctx was cancelled, nil for an orderly stop, which gives no cause.
func StopReason(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// runElections is Run with another source of elections, for tests. newElection returns one that was not run yet.
func runElections(ctx context.Context, others *OtherSchedulers, newElection func() *election) error {
	for {
		if others.waitUntilNone(ctx) != nil { // ctx has ended
			return StopReason(ctx)
		}

		// The term ends when ctx does, or when another scheduler appears.
		term, end := context.WithCancelCause(ctx)
		go func() {
			if err := others.waitForAny(term); err != nil {
				end(err)
			}
		}()

		current := newElection()
		err := current.run(term)
		// cause is why the term ended, nil if it has not; end would give it another cause.
		cause := context.Cause(term)
		if ctx.Err() != nil {
			cause = StopReason(ctx)
		}
		end(nil)

		// A process that has not led takes part in another election, once the other scheduler is gone.
		if err != nil || cause == nil || current.hasLed || ctx.Err() != nil {
			return errors.Join(err, cause)
		}
		klog.InfoS("withdraws from the election", "reason", cause.Error())
	}
}

// newElection returns an election with a fence of its own: a closed fence never opens again.
func (c *Candidate) newElection() *election {
	fence := newFence()
	return &election{
		config:        c.Election,
		client:        c.Client,
		recorder:      c.Recorder,
		identity:      c.Identity,
		fence:         fence,
		lead:          c.leadBehind(fence),
		beforeRelease: c.writeFinalHeartbeat,
	}
}

// leadBehind returns the function that schedules behind a fence until its context ends. It
// returns earlier only with an error.
func (c *Candidate) leadBehind(fence *fence) func(context.Context) error {
	return func(term context.Context) error {
		// Another scheduler may have started while this process waited for the lease.
		// confirmNone does not report the end of the term.
		if err := c.Others.confirmNone(term); err != nil || term.Err() != nil {
			return err
		}

		// All writes of the scheduler and of its heartbeat pass the fence.
		fenced := rest.CopyConfig(c.Config)
		fenced.Wrap(fence.wrapTransport)
		leases, err := newHeartbeatClient(fenced, c.HeartbeatNamespace)
		if err != nil {
			return err
		}

		writer := newHeartbeatWriter(leases, c.HeartbeatNamespace, c.Identity, c.ConfigProblem)
		go writer.run(term)

		return c.Schedule(term, fenced, writer.observeSession)
	}
}

// writeFinalHeartbeat records in the heartbeat that this process has stopped. It bypasses the
// fence, which is closed by then.
func (c *Candidate) writeFinalHeartbeat(ctx context.Context) {
	leases, err := newHeartbeatClient(c.Config, c.HeartbeatNamespace)
	if err == nil {
		err = writeFinalHeartbeat(ctx, leases, c.Identity)
	}
	if err != nil {
		klog.ErrorS(err, "the heartbeat does not say that this scheduler has stopped: it runs out by itself")
	}
}
