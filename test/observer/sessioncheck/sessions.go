package sessioncheck

import (
	"slices"
	"time"
)

// Reading is one reading of the number of closed sessions.
type Reading struct {
	// Asked and Answered are when the request was sent and the answer arrived.
	Asked, Answered time.Time
	// Process identifies the scheduler; a new one starts at 0.
	Process int
	// Closed is how many sessions have closed.
	Closed int
	// Decides reports whether the last session made decisions.
	Decides bool
}

// historyPeriod is how long readings and states are kept.
const historyPeriod = 10 * time.Minute

// bindTimeout is how long the bindings of a session may take after it closed.
const bindTimeout = 2 * time.Second

// sessionReadings are the readings of one process that makes decisions, oldest first.
type sessionReadings struct{ readings []Reading }

func (s *sessionReadings) addReading(r Reading) {
	if n := len(s.readings); n > 0 {
		last := s.readings[n-1]
		if last.Process != r.Process || r.Closed < last.Closed {
			s.readings = nil
		} else if n > 1 && last.Closed == r.Closed && s.readings[n-2].Closed == r.Closed {
			s.readings[n-1] = r // the first and the last of one number say it all
			return
		}
	}

	if !r.Decides {
		s.readings = nil
		return
	}
	s.readings = append(s.readings, r)
	if s.readings[0].Answered.Before(r.Answered.Add(-historyPeriod)) {
		s.readings = s.readings[1:]
	}
}

// havePassed reports whether n sessions opened after a moment and closed, and their bindings
// had time. waiting reports whether more sessions can be expected.
func (s *sessionReadings) havePassed(after time.Time, n int, now time.Time) (passed, waiting bool) {
	first := -1
	for _, r := range s.readings {
		if first < 0 && !r.Asked.Before(after) {
			first = r.Closed
		}
		// The next session to close may have been open at the first reading.
		if first >= 0 && r.Closed > first+n && !r.Answered.Add(bindTimeout).After(now) {
			return true, false
		}
	}
	return false, s.areClosing(now)
}

// areClosing reports whether a session closed recently.
func (s *sessionReadings) areClosing(now time.Time) bool {
	const lately = 5 * time.Second
	n := len(s.readings)
	if n == 0 {
		return false
	}

	last := s.readings[n-1]
	return slices.ContainsFunc(s.readings, func(r Reading) bool { return r.Closed < last.Closed && r.Answered.After(now.Add(-lately)) })
}

// snapshotBefore returns a moment before the snapshot of any session that may have placed a pod
// at the given moment: two sessions may close between the snapshot and the binding. It is false
// when too few sessions are known.
func (s *sessionReadings) snapshotBefore(at time.Time) (time.Time, bool) {
	closed := -1
	for i := len(s.readings) - 1; i >= 0; i-- {
		r := s.readings[i]
		switch {
		case r.Asked.After(at):
		case closed < 0:
			closed = r.Closed
		case r.Closed <= closed-3:
			return r.Asked, true
		}
	}

	return time.Time{}, false
}
