package enforced

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/timing"
)

// patience is how long Leases are waited for before they are said to be
// unreadable. Permissions of a new namespace may come a moment later.
var patience = timing.Wait(10 * time.Second)

// leaseWatch follows the two Leases in the scheduler's namespace.
type leaseWatch struct {
	watch   *Watch
	running sync.WaitGroup
}

// start watches the Leases until the context ends.
func (l *leaseWatch) start(ctx context.Context, namespace string) {
	l.running.Go(func() { l.run(ctx, namespace) })
}

// run watches each Lease by its name, which is all that the shipped Role
// permits, and says when both were read, or why not.
func (l *leaseWatch) run(ctx context.Context, namespace string) {
	var synced []toolscache.InformerSynced
	var failures failures
	for _, name := range []string{heartbeat.LeaseName, leaderLease} {
		informer := coordinationinformers.NewFilteredLeaseInformer(l.watch.leases, namespace, 0, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		})
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
			failures.note(name, err)
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		}); err != nil {
			failures.note(name, err)
		}
		handle, err := informer.AddEventHandler(handlers(func(lease *coordinationv1.Lease, gone, initial bool) {
			l.watch.hear(func(h *heard) { h.setLease(lease, gone, initial, time.Now()) })
		}))
		if err != nil {
			failures.note(name, err)
			continue
		}
		synced = append(synced, handle.HasSynced)
		l.running.Go(func() { informer.RunWithContext(ctx) })
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !toolscache.WaitForCacheSync(waiting.Done(), synced...) && ctx.Err() == nil {
		l.watch.hear(func(h *heard) { h.leasesRead, h.unread = true, failures.of(heartbeat.LeaseName) })
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		l.watch.hear(func(h *heard) { h.leasesRead, h.unread = true, "" })
	}
}

// failures remember the last error of each Lease.
type failures struct {
	mu   sync.Mutex
	last map[string]error
}

func (f *failures) note(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]error{}
	}
	f.last[name] = err
}

// of says why a Lease was not read.
func (f *failures) of(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.last[name]; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("no answer within %s", patience)
}
