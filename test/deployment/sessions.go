package deployment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/util/wait"
)

// SessionStats are the scheduler's statistics of its sessions.
type SessionStats struct {
	// PID identifies the scheduler: a new one starts at 0.
	PID int
	// Closed is the number of closed sessions. PodGroups are written before a session counts as
	// closed; bindings and events may be later.
	Closed int
	// TotalDuration is the duration of all closed sessions together.
	TotalDuration time.Duration
	// Deciding reports whether the last session made decisions: after its start the scheduler
	// waits until it has seen every node and pod.
	Deciding bool
}

// Sessions returns the session statistics of the scheduler that was started last. It needs the
// metrics address that StartScheduler sets, without another one in Options.SchedulerArgs.
func (d *Deployment) Sessions(ctx context.Context) (SessionStats, error) {
	at := d.metricsSource.Load()
	if at == nil {
		return SessionStats{}, errors.New("no scheduler was started")
	}

	page, err := at.read(ctx)
	if err != nil {
		return SessionStats{}, fmt.Errorf("the scheduler's metrics: %w", err)
	}

	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return SessionStats{}, fmt.Errorf("the scheduler's metrics: %w", err)
	}

	s := SessionStats{PID: at.process}
	for _, m := range families["volcano_e2e_scheduling_latency_milliseconds"].GetMetric() {
		s.Closed = int(m.GetHistogram().GetSampleCount())
		s.TotalDuration = time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Millisecond))
	}

	for _, m := range families["cardquota_ready"].GetMetric() {
		s.Deciding = m.GetGauge().GetValue() == 1
	}

	return s, nil
}

// AwaitSessions waits until n sessions that make decisions have opened and closed since the
// call. It starts again when the scheduler is replaced.
func (d *Deployment) AwaitSessions(ctx context.Context, n int) error {
	var first, last SessionStats
	var failed error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last, failed = d.Sessions(ctx)
		decides := failed == nil && last.Deciding // else the scheduler is away, or keeps back
		if decides && (first.PID != last.PID || last.Closed < first.Closed) {
			first = last
		}
		// One session may have been open when counting started.
		return decides && last.Closed > first.Closed+n, nil
	})
	if err != nil {
		return fmt.Errorf("await %d scheduling sessions: from %+v to %+v: %w", n, first, last, errors.Join(err, failed))
	}

	return nil
}
