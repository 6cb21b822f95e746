package controller

import (
	"strconv"
	"sync"
	"time"

	"cardquota.dev/operator/internal/build"
)

// maxCacheLag is how long CacheIsStale waits for a cache to catch up with a write. A version that stays
// older for longer is not stale: etcd was restored and counts from an earlier version.
var maxCacheLag = build.Wait(time.Minute)

// StaleRetry is how soon an object is looked at again whose last write the cache does not have, be it a status
// of this program or the write of another replica. Watches
// are late when the API server has no time, so this is not soon.
const StaleRetry = 250 * time.Millisecond

// RefusedRetry is how long a refused write waits for a retry when no watch reports that the reason is gone.
var RefusedRetry = build.Wait(30 * time.Second)

// LastWrites are the last writes of objects. Compared with them, a cache is up to date or late. The package
// resourceversion, which compares versions, is in apimachinery from 0.35 on.
type LastWrites struct {
	now func() time.Time

	mu     sync.Mutex
	writes map[string]lastWrite
}

// lastWrite is the time of the last write of an object, and the resource version that it made.
type lastWrite struct {
	at              time.Time
	resourceVersion string
}

// NewLastWrites returns LastWrites of no object.
func NewLastWrites() *LastWrites {
	return &LastWrites{now: time.Now, writes: map[string]lastWrite{}}
}

// RecordWrite records a write and the resource version that it made.
func (l *LastWrites) RecordWrite(name, resourceVersion string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[name] = lastWrite{l.now(), resourceVersion}
}

// CacheIsStale reports whether an object from the cache is older than its last write. It is outdated
// then: a state that changes and changes back would be written once and never corrected. It returns false
// maxCacheLag after the write.
func (l *LastWrites) CacheIsStale(name, resourceVersion string) bool {
	isOlder, isKnown, at := l.compareVersion(name, resourceVersion)
	return isKnown && isOlder && l.now().Sub(at) < maxCacheLag
}

// CacheHasWrite reports whether an object from the cache has its last write, false if no write is known.
// After a restore of etcd it stays false until the next write.
func (l *LastWrites) CacheHasWrite(name, resourceVersion string) bool {
	isOlder, isKnown, _ := l.compareVersion(name, resourceVersion)
	return isKnown && !isOlder
}

// compareVersion reports whether a version is older than that of the last write, and when that was. isKnown is false if
// one of the two versions is not known.
func (l *LastWrites) compareVersion(name, resourceVersion string) (isOlder, isKnown bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.writes[name]
	written, err := strconv.ParseUint(last.resourceVersion, 10, 64)
	if err != nil {
		return false, false, last.at
	}
	read, err := strconv.ParseUint(resourceVersion, 10, 64)
	return read < written, err == nil, last.at
}

// Forget drops what is known of an object.
func (l *LastWrites) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writes, name)
}
