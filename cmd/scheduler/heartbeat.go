package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/configloader"
)

// heartbeatInterval is the shortest time between two heartbeats that say the same,
// and between two trials when one failed.
var heartbeatInterval = build.Wait(2 * time.Second)

// heartbeatTimeout is how long one heartbeat may take to write.
const heartbeatTimeout = 3 * time.Second

// heartbeatWriter writes the heartbeat. Sessions hand it their reports and go on; it
// writes one at a time, always the newest, and only when a session has closed:
// a scheduler that hangs stops beating.
type heartbeatWriter struct {
	leases    typedcoordinationv1.LeaseInterface
	namespace string
	identity  string
	// problem says why the newest configuration is not in force, "" when it is.
	configProblem func() string

	newestSession atomic.Pointer[capacitycard.SessionReport]
	wake          chan struct{}

	// last is what was tried last, nil before; failed tells that it was not written.
	lastReport *enforcement.Report
	lastFailed bool
	// lease is the object as the API server returned it last, nil when it must be read.
	lease *coordinationv1.Lease
}

// newHeartbeatClient makes a client of its own: behind the scheduler's thousands
// of bindings a heartbeat would come too late. Only with the fenced config does nobody but the
// leader write.
func newHeartbeatClient(config *rest.Config, namespace string) (typedcoordinationv1.LeaseInterface, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "heartbeat"))
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return client.CoordinationV1().Leases(namespace), nil
}

func newHeartbeatWriter(leases typedcoordinationv1.LeaseInterface, namespace, identity string, configProblem func() string) *heartbeatWriter {
	return &heartbeatWriter{leases: leases, namespace: namespace, identity: identity, configProblem: configProblem, wake: make(chan struct{}, 1)}
}

// observeSession takes the report of a closed session. It never waits.
func (b *heartbeatWriter) observeSession(report capacitycard.SessionReport) {
	b.newestSession.Store(&report)
	select {
	case b.wake <- struct{}{}:
	default: // the newest is read when the write under way has ended
	}
}

// run writes reports until ctx ends.
func (b *heartbeatWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			b.reportSession(ctx, b.newestSession.Load())
		}
	}
}

// reportSession writes what a session said, if that is due.
func (b *heartbeatWriter) reportSession(ctx context.Context, session *capacitycard.SessionReport) {
	report := enforcement.Report{
		Identity: b.identity, Version: build.Version, ConfigHash: session.ConfigHash,
		ConfigProblem: b.configProblem(), SecondScheduler: session.BoundByOthers, At: session.At,
	}
	if report.ConfigProblem == "" {
		report.ConfigProblem = session.Problem
	}
	if !isDue(report, b.lastReport, b.lastFailed) {
		return
	}
	err := b.writeReport(ctx, report)
	if err != nil && !errors.Is(err, errFenced) && ctx.Err() == nil {
		klog.ErrorS(err, "the heartbeat is not written", "lease", b.namespace+"/"+enforcement.LeaseName)
	}
	b.lastReport, b.lastFailed = &report, err != nil
}

// isDue tells whether a report is to be written, after the last trial.
func isDue(report enforcement.Report, last *enforcement.Report, failed bool) bool {
	return last == nil || report.At.Sub(last.At) >= heartbeatInterval || !failed && !report.SameContent(*last)
}

// writeReport writes a report, a second time if somebody else changed the Lease.
func (b *heartbeatWriter) writeReport(ctx context.Context, report enforcement.Report) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	err := b.tryWrite(ctx, report)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		err = b.tryWrite(ctx, report)
	}
	return err
}

// tryWrite writes a report once. After an error the Lease is read again.
func (b *heartbeatWriter) tryWrite(ctx context.Context, report enforcement.Report) (err error) {
	lease := b.lease.DeepCopy()
	b.lease = nil
	if lease == nil {
		lease, err = b.leases.Get(ctx, enforcement.LeaseName, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		lease, err = b.leases.Create(ctx, report.Lease(b.namespace), metav1.CreateOptions{})
	case err == nil:
		report.WriteTo(lease)
		lease, err = b.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		b.lease = lease
	}
	return err
}

// writeFinalHeartbeat writes that the scheduler of this identity has stopped in order. A Lease that
// it has not written, or nobody, is left alone.
func writeFinalHeartbeat(ctx context.Context, leases typedcoordinationv1.LeaseInterface, identity string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, enforcement.LeaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		last, err := enforcement.ReadReport(lease)
		if err != nil || last.Identity != identity {
			return err
		}
		last.Ended = true
		last.WriteTo(lease)
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// configProblemOf is why the newest text of a gate is not in force, "" when it is.
func configProblemOf(status configloader.Status) string {
	if status.Reason == configloader.ReasonLoaded {
		return ""
	}
	return status.Message
}
