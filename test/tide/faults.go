package tide

import (
	"fmt"
	"time"
)

// What must hold of a tide.
const (
	// FloodLimit is how long it may take until 400 pods are bound.
	FloodLimit = 30 * time.Second
	// GangLimit is how long it may take until a gang of 512 pods runs.
	GangLimit = 60 * time.Second
	// gangsFactor is how many gangs may be broken, of the least possible.
	gangsFactor = 1.1
)

// Faults lists what does not hold of a tide that takes whole gangs.
func (s *Scene) Faults() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Done < s.Pods {
		fault("%d of %d pods served", s.Done, s.Pods)
	}
	if limit := gangsFactor * float64(s.Loss.Least); float64(s.Loss.Gangs) > limit {
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

// Late tells what of a limit was not kept, "" when it was.
func Late(what string, after, limit time.Duration) string {
	if after <= limit {
		return ""
	}
	return fmt.Sprintf("%s after %.1f s, limit %.0f s", what, after.Seconds(), limit.Seconds())
}

// BoundAfter is when the last pod of a tide was bound; what was not served in
// time counts as long as it was waited for.
func (s *Scene) BoundAfter() time.Duration { return s.unlessLate(s.Bound) }

// RunningAfter is when the last pod of a tide ran.
func (s *Scene) RunningAfter() time.Duration { return s.unlessLate(s.Running) }

func (s *Scene) unlessLate(after time.Duration) time.Duration {
	if s.Done < s.Pods {
		return TooLate
	}
	return after
}
