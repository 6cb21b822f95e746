package observer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/observer/rule"
)

// Options configure an observer. The zero value checks what the project promises.
type Options struct {
	// QuotaWindow is how long before a placement a quota may have been in force to count;
	// default 10 s. Where sessions are counted, only quotas that the placing session may have
	// seen count.
	QuotaWindow time.Duration
	// StatusWithin is how long a status may lag behind the last change of its numbers; default
	// 5 s.
	StatusWithin time.Duration
	// ReasonWithin is how long a workload may wait without a stated reason; default 10 s.
	ReasonWithin time.Duration
	// InventoryWithin is how long the CardInventory may lag behind the last change of its numbers;
	// default an Interval more than StatusWithin, because a check finds what is wrong.
	InventoryWithin time.Duration
	// ViewWithin is how long a LocalCardQuota may lag behind the last change of its numbers; default
	// 15 s more than StatusWithin.
	ViewWithin time.Duration
	// PlacedWithin is how long a reclaimer may wait to be placed after its victim is gone;
	// default 20 s.
	PlacedWithin time.Duration
	// ReclaimFrom maps each service type to those from which it may reclaim; default: inference
	// from training.
	ReclaimFrom map[string][]string
	// OwnerKinds maps kinds of owners to service types, as the plugin argument
	// podOwnerReferenceToServiceType does; default none.
	OwnerKinds map[string]string
	// SchedulerName selects the pods that must state why they wait; default "volcano".
	SchedulerName string
	// Unmanaged is the plugin argument unmanagedQueues; default Enforce.
	Unmanaged string
	// Concerns reports whether an object, kind/namespace/name, is checked; default: all are.
	// What other objects use counts all the same. It keeps tests apart that share a cluster.
	Concerns func(object string) bool
	// Sessions returns how many sessions the scheduler has closed. Without it, Progress, Truth
	// and Capacity are not checked.
	Sessions func(context.Context) (SessionCount, error)
	// Tree reports whether the plugin argument queueHierarchy is Tree; see Observer.SetTree.
	Tree bool
	// ReclaimsAll reports whether the plugin argument reclaimResources is All; see Observer.SetReclaimsAll.
	ReclaimsAll bool
	// Mappings are the entries of spec.cards of the ServiceTypePolicy.
	Mappings []rule.Mapping
	// UnlimitedCPUMemory is the plugin argument cardUnlimitedCpuMemory.
	UnlimitedCPUMemory bool
	// Metrics returns the metrics that both programs serve. Without it, they are not checked.
	Metrics func(context.Context) (Pages, error)
	// StoredWithin is how long a sum of card-seconds may lag behind; default a minute.
	StoredWithin time.Duration
	// Processes are followed from the start.
	Processes []Followed
	// Interval is the time between two checks; default 1 s.
	Interval time.Duration
}

func (o *Options) applyDefaults() {
	defaultTo(&o.QuotaWindow, 10*time.Second)
	defaultTo(&o.Interval, time.Second)
	defaultTo(&o.StatusWithin, 5*time.Second)
	defaultTo(&o.InventoryWithin, o.StatusWithin+o.Interval)
	defaultTo(&o.ReasonWithin, 10*time.Second)
	defaultTo(&o.ViewWithin, o.StatusWithin+15*time.Second)
	defaultTo(&o.PlacedWithin, 20*time.Second)
	defaultTo(&o.StoredWithin, time.Minute)
	defaultTo(&o.SchedulerName, "volcano")
	defaultTo(&o.Unmanaged, rule.UnmanagedEnforce)

	if o.ReclaimFrom == nil {
		o.ReclaimFrom = rule.DefaultReclaimFrom()
	}
	if o.Concerns == nil {
		o.Concerns = func(string) bool { return true }
	}
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxWatchLag is how long the watches may lag behind lists.
const maxWatchLag = 30 * time.Second

// settleTimeout is how long Check waits for outstanding changes. It is long because the API
// server may be slow on a busy machine.
const settleTimeout = 3 * time.Minute

// lateChangeDelay is how long a check waits for changes of objects that are already gone from
// the lists (see stream.hasReached). A later change is reported where the order may matter.
const lateChangeDelay = 300 * time.Millisecond

// Observer checks the invariants of one cluster. Its methods may be called from
// several goroutines.
type Observer struct {
	client client.WithWatch
	kinds  []kind
	stop   context.CancelFunc
	ended  sync.WaitGroup

	checking sync.Mutex // one look at a time

	mu        sync.Mutex
	arrived   *sync.Cond // a change was added to a stream
	streams   []*stream
	state     *clusterState
	followers []*follower
	open      []string
}

// Start begins to watch a cluster that serves Volcano's and the project's kinds. The config
// needs the right to read pods, namespaces, nodes, podgroups, queues, cardquotas,
// localcardquotas, cardinventories and priorityclasses. The observer watches until ctx ends or Stop is called.
func Start(ctx context.Context, config *rest.Config, options Options) (*Observer, error) {
	options.applyDefaults()
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}

	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("observer: %w", err)
	}

	served, err := servedKinds(c.RESTMapper())
	if err != nil {
		return nil, err
	}

	o := &Observer{client: c, kinds: served, state: newClusterState(options)}
	o.state.ignoresViews = !isServed(served, viewKind)
	o.state.ignoresInventory = !isServed(served, inventoryKind)
	o.arrived = sync.NewCond(&o.mu)
	for _, process := range options.Processes {
		if _, err := o.Follow(process); err != nil {
			return nil, err
		}
	}

	objects, pictures, err := o.listAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("observer: %w", err)
	}

	now := time.Now()
	for _, object := range objects {
		object.SetManagedFields(nil)
		o.state.loadObject(object, now)
	}

	o.scrape(ctx)
	ctx, o.stop = context.WithCancel(ctx)
	for _, p := range pictures {
		o.streams = append(o.streams, newStream(p))
	}

	for i := range o.streams {
		o.ended.Go(func() { o.watchKind(ctx, i) })
	}

	o.ended.Go(func() { o.checkPeriodically(ctx, options.Interval) })
	if options.Sessions != nil {
		o.ended.Go(func() { o.countSessions(ctx, options.Sessions) })
	}

	return o, nil
}

// Stop stops watching. Violations stay readable.
func (o *Observer) Stop() {
	o.stop()
	o.ended.Wait()
}

// Follow checks a process from now on: its log must show no panic, and it must not end. Call
// the returned function before the process may end. Its log is still checked after that.
func (o *Observer) Follow(process Followed) (letEnd func(), err error) {
	f, err := newFollower(process)
	if err != nil {
		return nil, fmt.Errorf("observer: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers = append(o.followers, f)
	return f.allowEnd, nil
}

// Excuse stops checking invariants until the returned function is called. It is for tests that
// stop the program that maintains them, such as the operator for the status. Afterwards every
// deadline starts again.
func (o *Observer) Excuse(invariants ...Invariant) (resume func()) {
	set := func(excused bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, i := range invariants {
			o.state.setExcused(i, excused, time.Now())
		}
	}
	set(true)
	return sync.OnceFunc(func() { set(false) })
}

// Violations returns what the last check found. Call Settle first to include everything that
// happened before the call.
func (o *Observer) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.state.violations)
}

// Check checks everything that happened before the call and fails the test with every
// violation.
func (o *Observer) Check(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), settleTimeout)
	defer cancel()
	if err := o.Settle(ctx); err != nil {
		t.Errorf("observer: %v", err)
	}
	for _, v := range o.Violations() {
		t.Errorf("observer: %s", v)
	}
}

// Settle waits until everything that happened before the call is checked and nothing is
// outstanding: each status and each reason is right, or reported as late.
func (o *Observer) Settle(ctx context.Context) error {
	const often = 400 * time.Millisecond
	o.mu.Lock()
	o.state.settling = time.Now()
	o.mu.Unlock()
	for {
		err := o.checkOnce(ctx)
		o.mu.Lock()
		open := o.open
		o.mu.Unlock()
		if err == nil && len(open) == 0 {
			return nil
		}

		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not settled: %w; open: %s", ctx.Err(), strings.Join(open, "; ")), err)
		case <-time.After(often):
		}
	}
}

// checkPeriodically checks at an interval, so that violations are found and memory is freed
// during a test.
func (o *Observer) checkPeriodically(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()

	lastGood := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		switch err := o.checkOnce(ctx); {
		case err == nil:
			lastGood = time.Now()
		case ctx.Err() == nil && time.Since(lastGood) > maxWatchLag:
			lastGood = time.Now()
			o.reportBlindness(fmt.Sprintf("for %s: %v", maxWatchLag, err))
		}
	}
}

// reportBlindness reports that the observer missed changes.
func (o *Observer) reportBlindness(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.addViolation(Sight, time.Now(), "observer", "%s", why)
}

// checkOnce applies all changes that were made before the call in their order, and checks what
// should have happened by now.
func (o *Observer) checkOnce(ctx context.Context) error {
	o.checking.Lock()
	defer o.checking.Unlock()

	o.scrape(ctx) // first, so that the lists are newer
	now := time.Now()
	pictures := make([]listing, len(o.kinds))

	group, groupCtx := errgroup.WithContext(ctx)
	for i, k := range o.kinds {
		group.Go(func() (err error) {
			pictures[i], err = o.listMetadata(groupCtx, k)
			return err
		})
	}

	if err := group.Wait(); err != nil {
		return err
	}

	return o.advance(ctx, pictures, now)
}

// advance waits until the streams have reached the lists, and applies the changes up to the
// oldest list.
func (o *Observer) advance(ctx context.Context, pictures []listing, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, maxWatchLag)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.arrived.Broadcast()
	})()

	o.mu.Lock()
	defer o.mu.Unlock()

	until := pictures[0].revision
	for i, p := range pictures {
		until = min(until, p.revision)
		for !o.streams[i].hasReached(p) {
			if ctx.Err() != nil {
				return fmt.Errorf("the watch of %s has not brought everything up to revision %d: %w", o.kinds[i].gvk.Kind, p.revision, ctx.Err())
			}
			o.arrived.Wait()
		}
	}
	o.mu.Unlock()

	select {
	case <-ctx.Done():
	case <-time.After(lateChangeDelay):
	}

	o.mu.Lock()
	for _, c := range takeInOrder(o.streams, until) {
		o.state.applyChange(c)
	}

	o.open = o.state.checkAll(now)
	for _, f := range o.followers {
		o.state.violations = append(o.state.violations, f.newViolations(now)...)
	}

	return nil
}
