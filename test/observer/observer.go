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

// Options are what an observer goes by. The zero value is what the project
// promises.
type Options struct {
	// QuotaWindow is how long before a placement a quota may have been in force
	// to count at most; default 10 s. Where sessions are counted, only what the
	// session that placed may have seen counts.
	QuotaWindow time.Duration
	// StatusWithin is how long a status may lag behind the last change of what
	// it should say; default 5 s.
	StatusWithin time.Duration
	// ReasonWithin is how long something may wait without saying why; default 10 s.
	ReasonWithin time.Duration
	// PlacedWithin is how long after a victim made room its reclaimer may wait to
	// be placed; default 20 s.
	PlacedWithin time.Duration
	// ReclaimFrom tells from which service types each type may reclaim; default:
	// inference from training.
	ReclaimFrom map[string][]string
	// OwnerKinds are the service types that kinds of owners stand for, as in the
	// plugin argument podOwnerReferenceToServiceType; default none.
	OwnerKinds map[string]string
	// SchedulerName is whose pods must say why they wait; default "volcano".
	SchedulerName string
	// Unmanaged is the plugin argument unmanagedQueues; default Enforce.
	Unmanaged string
	// Concerns tells whose affairs are judged, by kind/namespace/name; default:
	// everybody's. What others hold counts all the same. Tests that share a
	// cluster at the same time each look after their own.
	Concerns func(object string) bool
	// Sessions returns how many sessions the scheduler has closed. Without it
	// nothing is judged that needs to know: Progress, Truth and Capacity.
	Sessions func(context.Context) (SessionCount, error)
	// UnlimitedCPUMemory is the plugin argument cardUnlimitedCpuMemory.
	UnlimitedCPUMemory bool
	// Processes are followed from the start on.
	Processes []Followed
	// Interval is the time between two looks; default 1 s.
	Interval time.Duration
}

func (o *Options) applyDefaults() {
	defaultTo(&o.QuotaWindow, 10*time.Second)
	defaultTo(&o.StatusWithin, 5*time.Second)
	defaultTo(&o.ReasonWithin, 10*time.Second)
	defaultTo(&o.PlacedWithin, 20*time.Second)
	defaultTo(&o.Interval, time.Second)
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

// settleTimeout is how long Check waits for what is outstanding. What is late is reported long
// before; this is for a machine that has little time for the API server.
const settleTimeout = 3 * time.Minute

// lateChangeDelay is how long a look waits for the changes of objects that lists do
// not show because they are gone again (see stream.holds). A change that comes
// later still is reported where the order may have been judged wrongly.
const lateChangeDelay = 300 * time.Millisecond

// Observer checks the invariants of one cluster. Its methods may be called from
// several goroutines.
type Observer struct {
	client client.WithWatch
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

// Start begins to watch a cluster that serves Volcano's and the project's
// kinds. The config needs the right to read pods, namespaces, nodes, podgroups,
// queues, cardquotas and priorityclasses. It watches until ctx ends or Stop is called.
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
	o := &Observer{client: c, state: newClusterState(options)}
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

// Stop ends the watching. Violations stay readable.
func (o *Observer) Stop() {
	o.stop()
	o.ended.Wait()
}

// Follow has a process followed from now on: its log must show no panic and it
// must not end. Call the returned function before it is meant to end; the log
// is still read after that.
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

// Excuse stops judging an invariant until the returned function is called, for
// tests that stop the program that keeps it: without an operator nobody writes
// the status. Afterwards everything late has its whole time again.
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

// Violations returns what was found up to the last look. Settle first to know
// of everything that happened before the call.
func (o *Observer) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.state.violations)
}

// Check looks at everything that happened before the call and fails the test
// with every violation.
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

// Settle waits until everything that happened before the call was judged and
// nothing is outstanding: every status says what it should and everything that
// waits says why, or it is late and reported.
func (o *Observer) Settle(ctx context.Context) error {
	const often = 400 * time.Millisecond
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

// checkPeriodically looks from time to time, so that violations are found and memory is freed
// while a test runs.
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

// reportBlindness reports that not everything was seen.
func (o *Observer) reportBlindness(why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.addViolation(Sight, time.Now(), "observer", "%s", why)
}

// checkOnce takes all changes that were made before it was called, in their
// order, and judges what should have happened by now.
func (o *Observer) checkOnce(ctx context.Context) error {
	o.checking.Lock()
	defer o.checking.Unlock()
	now := time.Now()
	pictures := make([]listing, len(kinds))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, k := range kinds {
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

// advance waits until the streams hold the pictures and goes on to the oldest one.
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
				return fmt.Errorf("the watch of %s has not brought everything up to revision %d: %w", kinds[i].gvk.Kind, p.revision, ctx.Err())
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
