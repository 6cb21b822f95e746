package leader

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
)

// heartbeatInterval is the shortest time between two equal heartbeats, and before a retry.
var heartbeatInterval = build.Wait(2 * time.Second)

// heartbeatTimeout is how long one heartbeat may take to write.
const heartbeatTimeout = 3 * time.Second

// heartbeatWriter writes the heartbeat. A session hands over its report and continues; the
// writer always writes the newest one. It writes only after a session closes, so a scheduler
// that hangs has no heartbeat.
type heartbeatWriter struct {
	leases    typedcoordinationv1.LeaseInterface
	namespace string
	identity  string
	// configProblem says why the newest configuration is not in force, "" when it is.
	configProblem func() string

	newestSession atomic.Pointer[capacitycard.SessionReport]
	wake          chan struct{}

	// lastReport is the last report, nil before the first; lastFailed reports whether its write
	// failed.
	lastReport *enforcement.Report
	lastFailed bool
	// lease is the last object from the API server, nil when it must be read.
	lease *coordinationv1.Lease
}

// newHeartbeatClient returns a client of its own: the scheduler's thousands of bindings would
// delay heartbeats. With the fenced config only the leader writes.
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

// observeSession takes the report of a closed session. It never blocks.
func (h *heartbeatWriter) observeSession(report capacitycard.SessionReport) {
	h.newestSession.Store(&report)
	select {
	case h.wake <- struct{}{}:
	default: // run reads the newest report after the current write
	}
}

// run writes reports until ctx ends.
func (h *heartbeatWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
			h.reportSession(ctx, h.newestSession.Load())
		}
	}
}

// reportSession writes the report of a session, if that is due.
func (h *heartbeatWriter) reportSession(ctx context.Context, session *capacitycard.SessionReport) {
	report := enforcement.Report{
		Identity: h.identity, Version: build.Version, ConfigHash: session.ConfigHash,
		ConfigProblem: h.configProblem(), SecondScheduler: session.BoundByOthers, At: session.At,
	}
	if report.ConfigProblem == "" {
		report.ConfigProblem = session.Problem
	}

	if !isDue(report, h.lastReport, h.lastFailed) {
		return
	}

	// A fenced write is no error: this process leads no more.
	err := h.writeReport(ctx, report)
	if err != nil && !errors.Is(err, errFenced) && ctx.Err() == nil {
		klog.ErrorS(err, "the heartbeat is not written", "lease", h.namespace+"/"+enforcement.LeaseName)
	}

	h.lastReport = &report
	h.lastFailed = err != nil
}

// isDue reports whether a report must be written after the last one (nil before the first), whose write may have
// failed.
func isDue(report enforcement.Report, last *enforcement.Report, failed bool) bool {
	// A change is reported at once. While writes fail, an API server in trouble gets one in each
	// interval.
	return last == nil || report.At.Sub(last.At) >= heartbeatInterval || (!failed && !report.SameContent(*last))
}

// writeReport writes a report, and once more if the Lease was not as expected.
func (h *heartbeatWriter) writeReport(ctx context.Context, report enforcement.Report) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	err := h.tryWrite(ctx, report)
	// Another program has created, changed or deleted the Lease since it was read.
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		err = h.tryWrite(ctx, report)
	}
	return err
}

// tryWrite writes a report once. After an error the next call reads the Lease again.
func (h *heartbeatWriter) tryWrite(ctx context.Context, report enforcement.Report) (err error) {
	lease := h.lease.DeepCopy()
	h.lease = nil
	if lease == nil {
		lease, err = h.leases.Get(ctx, enforcement.LeaseName, metav1.GetOptions{})
	}

	switch {
	case apierrors.IsNotFound(err):
		lease, err = h.leases.Create(ctx, report.Lease(h.namespace), metav1.CreateOptions{})
	case err == nil:
		report.WriteTo(lease)
		lease, err = h.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}

	if err == nil {
		h.lease = lease
	}

	return err
}

// writeFinalHeartbeat records that the scheduler with this identity has stopped. It leaves a
// Lease of another scheduler alone.
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
		if err != nil || last.Identity != identity { // a successor's
			return err
		}

		last.Ended = true
		last.WriteTo(lease)

		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}
