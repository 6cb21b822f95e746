package observer

import (
	"context"
	"time"

	"cardquota.dev/operator/test/observer/sessioncheck"
)

// SessionCount is how many sessions a scheduler has closed.
type SessionCount struct {
	// Process identifies the scheduler: each counts from 0.
	Process int
	Closed  int
	// Decides reports whether the last session made decisions.
	Decides bool
}

// countEvery is the time between two readings of the number of closed sessions.
const countEvery = 100 * time.Millisecond

// sessionLag is how much later than the observer a scheduler on a busy machine may see a
// change.
const sessionLag = time.Second

// newSessionChecker returns the checker of sessions, nil where sessions are not counted.
func newSessionChecker(options Options) *sessioncheck.Checker {
	if options.Sessions == nil {
		return nil
	}
	return sessioncheck.New(sessioncheck.Options{
		SchedulerName: options.SchedulerName, Unmanaged: options.Unmanaged, Tree: options.Tree, UnlimitedCPUMemory: options.UnlimitedCPUMemory, Mappings: options.Mappings,
		Lag: sessionLag, Window: options.QuotaWindow, Concerns: options.Concerns,
	})
}

// countSessions reads the number of closed sessions. It skips readings while the scheduler does
// not answer.
func (o *Observer) countSessions(ctx context.Context, sessions func(context.Context) (SessionCount, error)) {
	ticker := time.NewTicker(countEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		asked := time.Now()
		count, err := sessions(ctx)
		if err != nil {
			continue
		}

		o.mu.Lock()
		o.state.sessionChecker.AddReading(sessioncheck.Reading{Asked: asked, Answered: time.Now(), Process: count.Process, Closed: count.Closed, Decides: count.Decides})
		o.mu.Unlock()
	}
}

// forwardToSessionChecker passes a change to the checker of sessions.
func (m *clusterState) forwardToSessionChecker(c change, happened bool) {
	switch {
	case m.sessionChecker == nil:
	case happened:
		m.sessionChecker.Apply(c.object, c.deleted, c.seen)
		m.collectSessionViolations()
	default:
		m.sessionChecker.Load(c.object, c.seen)
	}
}

// checkSessions checks what closed sessions should have done by now.
func (m *clusterState) checkSessions(now time.Time) []string {
	if m.sessionChecker == nil || m.excused[Progress] > 0 {
		return nil
	}
	open := m.sessionChecker.Check(now)
	m.collectSessionViolations()
	return open
}

func (m *clusterState) collectSessionViolations() {
	for _, v := range m.sessionChecker.TakeViolations() {
		m.addViolation(Invariant(v.Invariant), v.Time, v.Object, "%s", v.Message)
	}
}

// windowStart returns since when a limit may have been in force to count for a placement.
func (m *clusterState) windowStart(at time.Time) time.Time {
	if m.sessionChecker == nil {
		return at.Add(-m.options.QuotaWindow)
	}
	return m.sessionChecker.WindowStart(at)
}
