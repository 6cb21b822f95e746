package deployment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/cluster"
)

// SessionStats is what the scheduler says of its scheduling sessions.
type SessionStats struct {
	// Process is the scheduler that counts: a new one begins at 0.
	PID int
	// Closed is how many sessions have closed. PodGroups are written before a
	// session counts as closed; bindings and events may still be on their way.
	Closed int
	// Took is how long all closed sessions took together.
	TotalDuration time.Duration
	// Decides reports whether the session that opened last decided anything: after
	// a start the scheduler holds back until it has seen every node and pod.
	Deciding bool
}

// metricsEndpoint is where a scheduler serves its metrics in the clear.
type metricsEndpoint struct {
	process int
	url     string
}

// Sessions asks the scheduler that was started last for its sessions. It needs the
// address of the metrics that StartScheduler gives, none of Options.SchedulerArgs.
func (d *Deployment) Sessions(ctx context.Context) (SessionStats, error) {
	at := d.metricsSource.Load()
	if at == nil {
		return SessionStats{}, errors.New("no scheduler was started")
	}
	page, err := cluster.HTTPGet(ctx, at.url)
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

// AwaitSessions waits until n sessions that decide have opened and closed since
// the call. A scheduler that is replaced meanwhile begins again.
func (d *Deployment) AwaitSessions(ctx context.Context, n int) error {
	var first, last SessionStats
	var failed error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last, failed = d.Sessions(ctx)
		decides := failed == nil && last.Deciding // else the scheduler is away, or holds back
		if decides && (first.PID != last.PID || last.Closed < first.Closed) {
			first = last
		}
		// One session may have been open when the counting began.
		return decides && last.Closed > first.Closed+n, nil
	})
	if err != nil {
		return fmt.Errorf("await %d scheduling sessions: from %+v to %+v: %w", n, first, last, errors.Join(err, failed))
	}
	return nil
}
