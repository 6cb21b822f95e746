package cache

import (
	"time"

	"k8s.io/klog/v2"
)

// cacheSyncTimeout is how long an incomplete cache delays decisions after a start. Then the
// plugin charges missing pods from the lister and logs what is missing.
const cacheSyncTimeout = 60 * time.Second

// Sync delays decisions after a start. Volcano opens its first session before its cache
// has all nodes and pods, and a decision could give cards away twice.
type Sync struct {
	Synced       bool
	waitingSince time.Time
}

// IsAwaited reports whether nothing may be decided yet, because no session so far had every object, and logs
// what is missing. It is false for ever once a session had all, or after cacheSyncTimeout. missing names an
// object that the session lacks, "" for none.
func (s *Sync) IsAwaited(missing func() string, now time.Time) bool {
	if s.Synced {
		return false
	}

	if s.waitingSince.IsZero() {
		s.waitingSince = now
	}

	absent := missing()
	waited := now.Sub(s.waitingSince)
	switch {
	case absent == "":
		s.Synced = true
		klog.InfoS("Volcano's cache has synced, scheduling starts", "after", waited.String())
		return false
	case waited >= cacheSyncTimeout:
		s.Synced = true
		klog.ErrorS(nil, "Scheduling starts although Volcano's cache has not synced; missing pods are charged from the lister", "missing", absent)
		return false
	}

	klog.InfoS("Scheduling waits until Volcano's cache has synced", "missing", absent)

	return true
}
