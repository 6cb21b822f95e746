package cardquota

import (
	"sync"

	"cardquota.dev/operator/internal/queue"
)

// disputes holds the dispute over the Queue of every CardQuota. The disputes
// themselves need no lock: one CardQuota is worked on by one pass at a time.
type disputes struct {
	mu sync.Mutex
	by map[string]*queue.Dispute
}

func newDisputes() *disputes { return &disputes{by: map[string]*queue.Dispute{}} }

// of returns the dispute of a CardQuota.
func (d *disputes) of(name string) *queue.Dispute {
	d.mu.Lock()
	defer d.mu.Unlock()
	dispute, ok := d.by[name]
	if !ok {
		dispute = &queue.Dispute{}
		d.by[name] = dispute
	}
	return dispute
}

// forget drops a CardQuota that is gone.
func (d *disputes) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, name)
}
