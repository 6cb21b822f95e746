package cache

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestNotReadyUntilTheCacheHasSynced: after a start Volcano's cache may lack a node or a pod that the API server has.
// Quota decisions on such a view would be wrong, so there are none while something is missing, for at most
// cacheSyncTimeout. Once the cache was complete, an object that is missing later no longer stops the decisions.
func TestNotReadyUntilTheCacheHasSynced(t *testing.T) {
	start := time.Now()
	missing := ""
	isAwaitedAfter := func(sync *Sync, age time.Duration) bool {
		return sync.IsAwaited(func() string { return missing }, start.Add(age))
	}

	var incomplete Sync
	missing = "node a is not in the session"
	check.Equal(t, "awaited at the start", true, isAwaitedAfter(&incomplete, 0))
	check.Equal(t, "awaited just before the timeout", true, isAwaitedAfter(&incomplete, cacheSyncTimeout-time.Second))
	check.Equal(t, "awaited at the timeout", false, isAwaitedAfter(&incomplete, cacheSyncTimeout))

	var complete Sync
	missing = ""
	check.Equal(t, "awaited when nothing is missing", false, isAwaitedAfter(&complete, 0))
	missing = "pod ns/p is not in the session"
	check.Equal(t, "awaited for what is missing later", false, isAwaitedAfter(&complete, 0))
}
