package cardquota

import (
	"strconv"
	"sync"
	"time"
)

// pace spreads reports: at most one per CardQuota and interval, however many
// pods change.
type pace struct {
	interval time.Duration
	now      func() time.Time

	mu   sync.Mutex
	last map[string]time.Time
	// written is the resource version of the CardQuota after its last report.
	written map[string]string
}

func newPace(interval time.Duration) *pace {
	return &pace{interval: interval, now: time.Now, last: map[string]time.Time{}, written: map[string]string{}}
}

// wait returns how long the CardQuota has to wait for its next report, 0 when
// it may be written now.
func (p *pace) wait(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[name]
	if !ok {
		return 0
	}
	return max(0, p.interval-p.now().Sub(last))
}

// mark notes that a report was written and which version it made.
func (p *pace) mark(name, resourceVersion string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[name] = p.now()
	p.written[name] = resourceVersion
}

// stale tells whether a CardQuota read from the cache is older than the last
// report. Its status is then not what is stored, and nothing may be concluded
// from its being right: a state that changes and changes back would be
// reported once and never corrected.
func (p *pace) stale(name, resourceVersion string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, err := strconv.ParseUint(p.written[name], 10, 64)
	if err != nil {
		return false
	}
	read, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && read < written
}

// forget drops a CardQuota that is gone.
func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
	delete(p.written, name)
}
