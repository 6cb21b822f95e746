package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

var (
	errLeaseLost  = errors.New("the lease is lost")
	errNotDrained = errors.New("a write to the API server did not end: the lease is left to run out")
)

// election decides when this process schedules and when it stops.
type election struct {
	config componentbaseconfig.LeaderElectionConfiguration
	client kubernetes.Interface
	// identity is who holds the lease while this process leads.
	identity string
	// component is the source of the election's events.
	component string
	fence     *fence
	// lead schedules until its context ends; it returns earlier only with an error.
	lead func(context.Context) error
	// farewell says that the scheduler has ended in order. It is called after its last write,
	// while the lease is still held, so that it is never said over a successor; nil says nothing.
	farewell func(context.Context)
	// led tells, once run has returned, whether this process has led.
	led bool
}

// run waits for its turn, leads, and stops when ctx ends; then no write of the scheduler is
// under way or will begin, and the lease is free. Any other end is an error, and the process
// must exit at once: what this process still does is refused by the fence alone.
func (e *election) run(ctx context.Context) error {
	if !e.config.LeaderElect {
		return e.leadAlone(ctx)
	}
	// The election does not end with ctx: the lease is renewed until the writes have ended.
	term, endTerm := context.WithCancel(context.WithoutCancel(ctx))
	defer endTerm()
	lock, endEvents, err := e.lock(endTerm)
	if err != nil {
		return err
	}
	defer endEvents()
	failed, over := make(chan error, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: e.config.LeaseDuration.Duration,
		RenewDeadline: e.config.RenewDeadline.Duration,
		RetryPeriod:   e.config.RetryPeriod.Duration,
		Name:          e.config.ResourceName,
		// ReleaseOnCancel would also release a lease whose renewal failed, while the
		// scheduler still works. fencedLock.release does it at the right moment.
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
	drained := e.fence.drain(e.patience())
	endTerm()
	<-over
	e.led = lock.held
	if !drained {
		return errors.Join(cause, errNotDrained)
	}
	releasing, done := context.WithTimeout(context.WithoutCancel(ctx), e.patience())
	defer done()
	if lock.held {
		e.leave(releasing, e.patience()/2)
	}
	return errors.Join(cause, lock.release(releasing))
}

// patience is how long a write that is under way may take after the fence is closed: if it
// ends within, the lease is still ours even if its last renewal is as old as allowed.
func (e *election) patience() time.Duration {
	return e.config.LeaseDuration.Duration - e.config.RenewDeadline.Duration
}

// leadAlone leads without a lease (--leader-elect=false): somebody else makes sure that
// there is one scheduler only.
func (e *election) leadAlone(ctx context.Context) error {
	e.led = true
	klog.InfoS("leader election is off: never run a second scheduler beside this one")
	const never = 100 * 365 * 24 * time.Hour
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
	const patience = 5 * time.Second
	if !e.fence.drain(patience) {
		return errors.Join(cause, errNotDrained)
	}
	e.leave(context.WithoutCancel(ctx), patience)
	return cause
}

// leave says farewell, within a time.
func (e *election) leave(ctx context.Context, within time.Duration) {
	if e.farewell == nil {
		return
	}
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	e.farewell(ctx)
}

// lock is the lease that the stock scheduler uses as well, and a function that ends the
// recording of its events.
func (e *election) lock(lost func()) (*fencedLock, func(), error) {
	recorder, endEvents := newRecorder(e.client, e.config.ResourceNamespace, e.component)
	lease, err := resourcelock.New(resourcelock.LeasesResourceLock, e.config.ResourceNamespace, e.config.ResourceName,
		e.client.CoreV1(), e.client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: e.identity, EventRecorder: recorder})
	if err != nil {
		endEvents()
		return nil, nil, fmt.Errorf("leader election: %w", err)
	}
	return &fencedLock{Interface: lease, fence: e.fence, term: e.config.RenewDeadline.Duration, lost: lost}, endEvents, nil
}
