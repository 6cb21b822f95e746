package observer

import (
	"context"
	"time"

	"cardquota.dev/operator/test/observer/judge"
)

// SessionCount is how many sessions a scheduler has closed.
type SessionCount struct {
	// Process tells schedulers apart: each counts from 0.
	Process int
	Closed  int
	// Decides reports whether the last session decided anything.
	Decides bool
}

// countEvery is the time between two looks at the number of closed sessions.
const countEvery = 100 * time.Millisecond

// sessionLag is how long a scheduler on a busy machine may learn of a change after
// the observer did.
const sessionLag = time.Second

// newJudge returns the judge of sessions, nil where sessions are not counted.
func newJudge(options Options) *judge.Judge {
	if options.Sessions == nil {
		return nil
	}
	return judge.New(judge.Options{
		SchedulerName: options.SchedulerName, Unmanaged: string(options.Unmanaged), UnlimitedCPUMemory: options.UnlimitedCPUMemory,
		Lag: sessionLag, Window: options.QuotaWindow, Concerns: options.Concerns,
	})
}

// count follows the number of closed sessions. While the scheduler does not
// answer, nothing is known.
func (o *Observer) count(ctx context.Context, sessions func(context.Context) (SessionCount, error)) {
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
		o.machine.judge.Hear(judge.Reading{Asked: asked, Answered: time.Now(), Process: count.Process, Closed: count.Closed, Decides: count.Decides})
		o.mu.Unlock()
	}
}

// tellJudge hands a change to the judge of sessions.
func (m *machine) tellJudge(c change, happened bool) {
	switch {
	case m.judge == nil:
	case happened:
		m.judge.Take(c.object, c.deleted, c.seen)
		m.takeVerdicts()
	default:
		m.judge.Load(c.object, c.seen)
	}
}

// judgeSessions judges what closed sessions should have done by now.
func (m *machine) judgeSessions(now time.Time) []string {
	if m.judge == nil || m.excused[Progress] > 0 {
		return nil
	}
	open := m.judge.Judge(now)
	m.takeVerdicts()
	return open
}

func (m *machine) takeVerdicts() {
	for _, v := range m.judge.Found() {
		m.report(Invariant(v.Invariant), v.Time, v.Object, "%s", v.Message)
	}
}

// since is from when on a limit may have been in force to count for a placement.
func (m *machine) since(at time.Time) time.Time {
	if m.judge == nil {
		return at.Add(-m.options.QuotaWindow)
	}
	return m.judge.Since(at)
}
