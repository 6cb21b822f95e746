package controller

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestStatusThrottleAllowsOneWritePerInterval: the status of an object is written at most once in each interval of a second.
// Another object has an interval of its own, and so has one that was deleted and created again.
func TestStatusThrottleAllowsOneWritePerInterval(t *testing.T) {
	now := time.Unix(0, 0)
	throttle := NewStatusThrottle(time.Second)
	throttle.now = func() time.Time { return now }
	check.Equal(t, "wait before the first write", 0, throttle.Wait("a"))

	throttle.RecordWrite("a", "1000")
	check.Equal(t, "wait right after a write", time.Second, throttle.Wait("a"))
	check.Equal(t, "wait of another object", 0, throttle.Wait("b"))
	now = now.Add(400 * time.Millisecond)
	check.Equal(t, "wait 400 ms after a write", 600*time.Millisecond, throttle.Wait("a"))
	now = now.Add(time.Minute)
	check.Equal(t, "wait a minute after a write", 0, throttle.Wait("a"))

	throttle.Delay("a")
	check.Equal(t, "wait after a delay, which begins an interval without a write", time.Second, throttle.Wait("a"))

	throttle.RecordWrite("a", "1000")
	throttle.Forget("a")
	check.Equal(t, "wait of an object that was deleted", 0, throttle.Wait("a"))
}

// TestACacheWithAnOlderVersionThanTheLastWriteIsStale: the status of object a was written as version 1000. A controller
// that then reads a lower version would compute a difference to an old status. Versions of other objects, and a text
// that is no version, say nothing.
func TestACacheWithAnOlderVersionThanTheLastWriteIsStale(t *testing.T) {
	throttle := NewStatusThrottle(time.Second)
	throttle.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": true, "1000": false, "1001": false, "": false} {
		check.Equal(t, fmt.Sprintf("version %q is stale", version), want, throttle.CacheIsStale("a", version))
	}
	check.Equal(t, "an object that was never written is stale", false, throttle.CacheIsStale("b", "1"))
}

// TestACacheHasAWriteOnlyIfItsVersionProvesIt: version 1000 of object a or a later one has its last write. Unlike a stale
// cache, one without proof is not trusted after a minute either: the operator reads the API server.
func TestACacheHasAWriteOnlyIfItsVersionProvesIt(t *testing.T) {
	writes := NewLastWrites()
	check.Equal(t, "before a write is known", false, writes.CacheHasWrite("a", "1000"))

	writes.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": false, "1000": true, "1001": true, "": false} {
		check.Equal(t, fmt.Sprintf("version %q has the write of version 1000", version), want, writes.CacheHasWrite("a", version))
	}

	writes.now = func() time.Time { return time.Now().Add(2 * maxCacheLag) }
	check.Equal(t, "version 999 after a minute", false, writes.CacheHasWrite("a", "999"))
	writes.Forget("a")
	check.Equal(t, "version 1000 of a write that is forgotten", false, writes.CacheHasWrite("a", "1000"))
}

// TestARestoredEtcdDelaysNoStatus: after a restore of etcd, resource versions begin again below 1000, that of the last write. So
// a version that is lower is stale only for as long as a cache may be late. The next write, version 901, counts again.
func TestARestoredEtcdDelaysNoStatus(t *testing.T) {
	now := time.Unix(0, 0)
	throttle := NewStatusThrottle(time.Second)
	throttle.now = func() time.Time { return now }
	throttle.RecordWrite("a", "1000")

	now = now.Add(2 * time.Second)
	check.Equal(t, "version 900 is stale 2 seconds after the write", true, throttle.CacheIsStale("a", "900"))
	now = now.Add(maxCacheLag)
	throttle.Delay("a") // is no write
	check.Equal(t, "version 900 is stale later than a cache may be", false, throttle.CacheIsStale("a", "900"))

	throttle.RecordWrite("a", "901")
	check.Equal(t, "version 900 is stale after the next write", true, throttle.CacheIsStale("a", "900"))
}
