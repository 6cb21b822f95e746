package cardquota

import (
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
}

func newPace(interval time.Duration) *pace {
	return &pace{interval: interval, now: time.Now, last: map[string]time.Time{}}
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

// mark notes that a report was written.
func (p *pace) mark(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[name] = p.now()
}

// forget drops a CardQuota that is gone.
func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}
