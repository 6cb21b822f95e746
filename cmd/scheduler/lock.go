package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fencedLock is a lease whose renewals keep the fence open.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
	// term is how long writes are allowed after a renewal. It is the renew deadline, shorter
	// than the lease, so that a write sent in the last moment ends before a successor starts.
	term time.Duration
	// lost is called when another holder is found although this process leads.
	lost func()
	held bool
}

// Get also looks for a usurper. client-go would go on trying to renew until its deadline
// while two schedulers work.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.held && record.HolderIdentity != l.Identity() {
		l.fence.close()
		l.lost()
	}
	return record, raw, err
}

// Create takes a lease that does not exist yet.
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes, renews or releases the lease.
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(record, func() error { return l.Interface.Update(ctx, record) })
}

// take extends the fence from before the request was sent: others count from when they see it.
func (l *fencedLock) take(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := time.Now()
	if err := write(); err != nil {
		return err
	}
	if record.HolderIdentity == l.Identity() {
		l.held = true
		l.fence.extend(sent.Add(l.term))
	}
	return nil
}

// release gives the lease up so that a successor need not wait for its end. The fence must be
// drained, and the election over: release writes without regard to it.
func (l *fencedLock) release(ctx context.Context) error {
	if !l.held {
		return nil
	}
	l.held = false
	record, _, err := l.Interface.Get(ctx)
	if err != nil {
		return fmt.Errorf("read the lease %s: %w", l.Describe(), err)
	}
	if record.HolderIdentity != l.Identity() {
		return nil
	}
	record.HolderIdentity = ""
	record.LeaseDurationSeconds = 1
	if err := l.Interface.Update(ctx, *record); err != nil {
		return fmt.Errorf("release the lease %s: %w", l.Describe(), err)
	}
	return nil
}
