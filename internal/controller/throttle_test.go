package controller

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestStatusThrottle(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewStatusThrottle(time.Second)
	p.now = func() time.Time { return now }
	expect := func(when, name string, want time.Duration) {
		check.Equal(t, fmt.Sprintf("%s: %s waits", when, name), want, p.Wait(name))
	}

	expect("before the first report", "a", 0)
	p.RecordWrite("a", "1000")
	expect("right after a report", "a", time.Second)
	expect("for another CardQuota", "b", 0)
	now = now.Add(400 * time.Millisecond)

	expect("a while later", "a", 600*time.Millisecond)
	now = now.Add(time.Minute)
	expect("long after", "a", 0)
	p.Delay("a")
	expect("after a delay", "a", time.Second)

	p.RecordWrite("a", "1000")
	p.Forget("a")
	expect("after it was deleted and made again", "a", 0)
}

func TestACardQuotaOlderThanItsLastReportIsStale(t *testing.T) {
	p := NewStatusThrottle(time.Second)
	p.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": true, "1000": false, "1001": false, "": false} {
		check.Equal(t, fmt.Sprintf("version %q read after version 1000 was written: stale", version), want, p.CacheIsStale("a", version))
	}
	check.That(t, !p.CacheIsStale("b", "1"), "a CardQuota that was never reported is stale")
}

func TestCacheHasWrite(t *testing.T) {
	p := NewLastWrites()
	check.That(t, !p.CacheHasWrite("a", "1000"), "a cache has a write that is not known")
	p.RecordWrite("a", "1000")
	for version, want := range map[string]bool{"999": false, "1000": true, "1001": true, "": false} {
		check.Equal(t, fmt.Sprintf("version %q has the write of version 1000", version), want, p.CacheHasWrite("a", version))
	}
	p.now = func() time.Time { return time.Now().Add(2 * maxCacheLag) }
	check.That(t, !p.CacheHasWrite("a", "999"), "an older version has the write after a minute")
	p.Forget("a")
	check.That(t, !p.CacheHasWrite("a", "1000"), "a forgotten write is known")
}

// TestARestoredEtcdDelaysNoStatus: after a restore of etcd resource versions begin
// again below those that were written before.
func TestARestoredEtcdDelaysNoStatus(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewStatusThrottle(time.Second)
	p.now = func() time.Time { return now }
	p.RecordWrite("a", "1000")
	now = now.Add(2 * time.Second)
	check.That(t, p.CacheIsStale("a", "900"), "a cache that is two seconds behind is not waited for")
	now = now.Add(maxCacheLag)
	p.Delay("a") // is no write
	check.That(t, !p.CacheIsStale("a", "900"), "a version that is still older than the report of a minute ago is waited for")
	p.RecordWrite("a", "901")
	check.That(t, p.CacheIsStale("a", "900"), "the next report is not waited for")
}
