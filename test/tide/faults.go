package tide

import (
	"fmt"
	"time"
)

// What must hold of a tide.
const (
	// MaxBoundAfter is how long it may take until 400 pods are bound.
	MaxBoundAfter = 30 * time.Second
	// MaxGangRunningAfter is how long it may take until a gang of 512 pods runs.
	MaxGangRunningAfter = 60 * time.Second
	// maxBrokenGangsFactor is how many gangs may be broken, of the least possible.
	maxBrokenGangsFactor = 1.1
)

// Violations lists what does not hold of a tide that takes whole gangs.
func (s *Result) Violations() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Done < s.Pods {
		fault("%d of %d pods served", s.Done, s.Pods)
	}
	if limit := maxBrokenGangsFactor * float64(s.Loss.Least); float64(s.Loss.Gangs) > limit {
		fault("%d gangs broken, at most %.1f may be", s.Loss.Gangs, limit)
	}
	if s.Loss.Partial > 0 {
		fault("%d gangs left running in part", s.Loss.Partial)
	}
	if s.Loss.Retries > 0 {
		fault("%d retries counted against jobs", s.Loss.Retries)
	}
	return faults
}

// LateMessage tells what of a limit was not kept, "" when it was.
func LateMessage(what string, after, limit time.Duration) string {
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s after %.1f s, limit %.0f s", what, after.Seconds(), limit.Seconds())
}

// BoundAfter is when the last pod of a tide was bound; what was not served in
// time counts as long as it was waited for.
func (s *Result) BoundAfter() time.Duration { return s.orTimeout(s.Bound) }

// RunningAfter is when the last pod of a tide ran.
func (s *Result) RunningAfter() time.Duration { return s.orTimeout(s.Running) }

func (s *Result) orTimeout(after time.Duration) time.Duration {
	if s.Done < s.Pods {
		return ServeTimeout
	}
	return after
}
