package controller

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestStatusThrottleAllowsOneWritePerInterval: the status of an object is written at most once in each interval of a
// second. Object b has an interval of its own. Delay begins an interval without a write. After Forget, an object of the
// same name does not wait.
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
// that then reads a lower version would compute a difference to an old status. An object that was never written is not
// stale, nor is one whose version is no number, such as "".
func TestACacheWithAnOlderVersionThanTheLastWriteIsStale(t *testing.T) {
	throttle := NewStatusThrottle(time.Second)
	throttle.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": true, "1000": false, "1001": false, "": false} {
		check.Equal(t, fmt.Sprintf("version %q is stale", version), want, throttle.CacheIsStale("a", version))
	}
	check.Equal(t, "an object that was never written is stale", false, throttle.CacheIsStale("b", "1"))
}

// TestACacheHasAWriteOnlyIfItsVersionProvesIt: the last write of object a made version 1000. An object from the
// cache has this write if its version is 1000 or later. A lower version never proves it, also not after twice
// maxCacheLag (a minute). CacheIsStale would trust the cache again by then. Here the operator reads the API
// server. It also does so while no write is known, and after Forget.
func TestACacheHasAWriteOnlyIfItsVersionProvesIt(t *testing.T) {
	writes := NewLastWrites()
	check.Equal(t, "before a write is known", false, writes.CacheHasWrite("a", "1000"))

	writes.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": false, "1000": true, "1001": true, "": false} {
		check.Equal(t, fmt.Sprintf("version %q has the write of version 1000", version), want, writes.CacheHasWrite("a", version))
	}

	writes.now = func() time.Time { return time.Now().Add(2 * maxCacheLag) }
	check.Equal(t, "version 999 has the write after 2 × maxCacheLag", false, writes.CacheHasWrite("a", "999"))
	writes.Forget("a")
	check.Equal(t, "version 1000 has the write after Forget", false, writes.CacheHasWrite("a", "1000"))
}

// TestARestoredEtcdDelaysNoStatus: the last write made version 1000. After a restore of etcd, resource versions
// begin again below it, here at 900. The cache counts as stale for at most maxCacheLag (a minute) after the
// write, since it cannot be later than that. The next write makes version 901, and from then on 900 is stale
// again.
func TestARestoredEtcdDelaysNoStatus(t *testing.T) {
	now := time.Unix(0, 0)
	throttle := NewStatusThrottle(time.Second)
	throttle.now = func() time.Time { return now }
	throttle.RecordWrite("a", "1000")

	now = now.Add(2 * time.Second)
	check.Equal(t, "version 900 is stale 2 seconds after the write", true, throttle.CacheIsStale("a", "900"))
	now = now.Add(maxCacheLag)
	throttle.Delay("a") // begins an interval, but is no write
	check.Equal(t, "version 900 is stale after more than maxCacheLag", false, throttle.CacheIsStale("a", "900"))

	throttle.RecordWrite("a", "901")
	check.Equal(t, "version 900 is stale after the next write", true, throttle.CacheIsStale("a", "900"))
}
