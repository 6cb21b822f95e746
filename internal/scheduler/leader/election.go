package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

var (
	errLeaseLost     = errors.New("the lease is lost")
	errWriteInFlight = errors.New("a write to the API server did not end: the lease is left to run out")
)

// election decides when this process schedules and when it stops.
type election struct {
	config componentbaseconfig.LeaderElectionConfiguration
	client kubernetes.Interface
	// recorder records the election's events.
	recorder record.EventRecorder
	// identity is the holder of the lease while this process leads.
	identity string
	fence    *fence
	// lead schedules until its context ends; it returns earlier only with an error.
	lead func(context.Context) error
	// beforeRelease is called after the scheduler's last write, while this process still has
	// the lease and has no successor. nil does nothing.
	beforeRelease func(context.Context)
	// hasLed reports, once run has returned, whether this process has led.
	hasLed bool
}

// run waits until this process is elected, leads, and stops when ctx ends. Then no write of the scheduler is
// in flight, none will start, and the lease is free. Any other end is an error. Then the process must exit at
// once: its scheduler may still run, and only the fence refuses its writes.
func (e *election) run(ctx context.Context) error {
	if !e.config.LeaderElect {
		return e.leadWithoutLease(ctx)
	}

	// The election outlives ctx: it renews the lease until the last write has ended.
	term, endTerm := context.WithCancel(context.WithoutCancel(ctx))
	defer endTerm()

	lock, err := e.newLock(endTerm)
	if err != nil {
		return err
	}

	failed := make(chan error, 1) // the error of lead
	over := make(chan struct{})   // closed when the election has ended

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: e.config.LeaseDuration.Duration,
		RenewDeadline: e.config.RenewDeadline.Duration,
		RetryPeriod:   e.config.RetryPeriod.Duration,
		Name:          e.config.ResourceName,
		// ReleaseOnCancel would also release a lease whose renewal failed, while the
		// scheduler still writes. fencedLock.releaseLease waits for that.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				if err := e.lead(term); err != nil {
					failed <- err
				}
			},
			OnStoppedLeading: func() { close(over) },
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	go elector.Run(term)

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	case <-over:
		return errLeaseLost
	}

	isQuiet := e.fence.closeAndWait(e.writeTimeout()) // whether no write of this process is in flight any more
	// Until here one may have been, so the lease was renewed.
	endTerm()
	<-over
	e.hasLed = lock.isLeader
	if !isQuiet {
		return errors.Join(cause, errWriteInFlight)
	}

	releasing, done := context.WithTimeout(context.WithoutCancel(ctx), e.writeTimeout())
	defer done()

	if lock.isLeader {
		// The other half of the time is for the release of the lease.
		e.callBeforeRelease(releasing, e.writeTimeout()/2)
	}

	return errors.Join(cause, lock.releaseLease(releasing))
}

// writeTimeout is how long a write in flight may take after the fence is closed. Within it the
// lease is still ours, even if its last renewal is as old as allowed.
func (e *election) writeTimeout() time.Duration {
	return e.config.LeaseDuration.Duration - e.config.RenewDeadline.Duration
}

// leadWithoutLease leads without a lease (--leader-elect=false): the administrator makes sure
// that there is only one scheduler.
func (e *election) leadWithoutLease(ctx context.Context) error {
	e.hasLed = true
	klog.InfoS("leader election is off: never run a second scheduler beside this one")
	const never = 100 * 365 * 24 * time.Hour // the fence stays open until it is closed
	e.fence.extend(time.Now().Add(never))

	failed := make(chan error, 1)
	go func() {
		if err := e.lead(ctx); err != nil {
			failed <- err
		}
	}()

	var cause error
	select {
	case <-ctx.Done():
	case cause = <-failed:
	}

	const writeTimeout = 5 * time.Second // no lease bounds how long a write may take
	if !e.fence.closeAndWait(writeTimeout) {
		return errors.Join(cause, errWriteInFlight)
	}

	e.callBeforeRelease(context.WithoutCancel(ctx), writeTimeout)
	return cause
}

// callBeforeRelease calls beforeRelease with a timeout.
func (e *election) callBeforeRelease(ctx context.Context, timeout time.Duration) {
	if e.beforeRelease == nil {
		return
	}
	ctx, done := context.WithTimeout(ctx, timeout)
	defer done()
	e.beforeRelease(ctx)
}

// newLock returns the lease, which the stock scheduler uses as well.
func (e *election) newLock(lost func()) (*fencedLock, error) {
	lease, err := resourcelock.New(resourcelock.LeasesResourceLock, e.config.ResourceNamespace, e.config.ResourceName,
		e.client.CoreV1(), e.client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: e.identity, EventRecorder: e.recorder})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &fencedLock{Interface: lease, fence: e.fence, writeWindow: e.config.RenewDeadline.Duration, onLost: lost}, nil
}
