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
	reasonAfter := func(sync *Sync, age time.Duration) string {
		return sync.NotReadyReason(func() string { return missing }, start.Add(age))
	}

	var incomplete Sync
	missing = "node a is not in the session"
	const reason = "has not seen every node and pod yet"
	check.Contains(t, "reason at the start", reasonAfter(&incomplete, 0), reason)
	check.Contains(t, "reason just before the timeout", reasonAfter(&incomplete, cacheSyncTimeout-time.Second), reason)
	check.Equal(t, "reason at the timeout", "", reasonAfter(&incomplete, cacheSyncTimeout))

	var complete Sync
	missing = ""
	check.Equal(t, "reason when nothing is missing", "", reasonAfter(&complete, 0))
	missing = "pod ns/p is not in the session"
	check.Equal(t, "reason for what is missing later", "", reasonAfter(&complete, 0))
}
