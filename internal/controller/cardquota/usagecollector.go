package cardquota

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
)

// allQueues is what the UsageCollector sends to reconcile all CardQuotas. It is no valid
// queue name.
const allQueues = "*"

// recountInterval is the time between two counts of an unchanged cluster: the time of the last count proves
// that the operator counts.
var recountInterval = build.Wait(time.Minute)

// countPeriods times the duration of a count is the shortest time from its beginning to the next one: at the scale at
// which a count takes long, counting takes half of a processor at most.
const countPeriods = 2

// InventorySource provides the cards of all nodes. Inventory returns false until all nodes
// were read.
type InventorySource interface {
	Inventory() (*card.Inventory, bool)
	Healthy() map[card.Name]card.Count
	Nodes() []card.NodeState
	OnChange(changed func())
	// PolicyInForce returns what is in force of the policy that was read. Both may be nil.
	PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
}

// UsageCollector counts the usage of every queue from scratch whenever a pod, PodGroup,
// node or quota changed, at most once per interval, and for at most half of the time. It requests a reconcile of
// CardQuotas whose numbers changed.
type UsageCollector struct {
	cache cache.Cache
	// interval is the shortest time between the beginnings of two counts.
	interval time.Duration
	// dirty has a token if something changed since the last count began.
	dirty chan struct{}
	// specChanges counts the changes of CardQuotas and of the policy.
	specChanges atomic.Uint64
	// wakeups sends names of queues, or allQueues. delays are those of the queues of which the last count changed
	// only the numbers of over-allocated cards.
	wakeups   chan event.TypedGenericEvent[wakeup]
	delays    map[string]time.Duration
	metrics   countMetrics
	inventory InventorySource
	// bypassesChanged signals that the result of Bypasses or PolicyForecast changed.
	bypassesChanged chan event.TypedGenericEvent[string]

	// The results of earlier counts that a count needs. Only the goroutine that counts reads and writes them.
	lastCharges map[types.UID]quota.Charge
	facts       queueusage.PodFacts
	provenance  enforcement.FirstProvenance
	models      cardinventory.ModelChanges
	nextEnd     time.Time // of a terminating pod, for which a count is due
	// totalsUpdatedAt is when totals last replaced older ones, totalsTimer requests the count that replaces them next.
	totalsUpdatedAt time.Time
	totalsTimer     *time.Timer

	// last is the last published count. Before the first one it is empty, with flat queues.
	last    atomic.Pointer[usageCount]
	onCount []func()
}

// newUsageCollector returns a UsageCollector that has counted nothing yet.
func newUsageCollector(c cache.Cache, interval time.Duration, cards InventorySource) *UsageCollector {
	u := &UsageCollector{
		provenance:      enforcement.FirstProvenance{},
		cache:           c,
		interval:        interval,
		inventory:       cards,
		dirty:           make(chan struct{}, 1),
		wakeups:         make(chan event.TypedGenericEvent[wakeup]),
		bypassesChanged: make(chan event.TypedGenericEvent[string], 1),
		metrics:         newCountMetrics(),
	}

	u.last.Store(&usageCount{tree: cardquota.Flat})
	return u
}

// QueueUsage returns the usage of a queue alone, and with the queues below it. It returns
// false before the first count.
func (u *UsageCollector) QueueUsage(name string) (own, subtree queueusage.Usage, counted bool) {
	last := u.last.Load()
	return last.queues[name], last.subtrees[name], last.queues != nil
}

// QueuesBelow returns a queue and, in a tree, those below it.
func (u *UsageCollector) QueuesBelow(name string) []string {
	return u.last.Load().tree.Queues().Below(name)
}

// Physical returns how many of each card all nodes offer.
func (u *UsageCollector) Physical() map[card.Name]card.Count {
	return u.last.Load().physical
}

// Unnamed returns the cards of nodes that no label names yet.
func (u *UsageCollector) Unnamed() []card.UnnamedCards {
	return u.last.Load().unnamed
}

// Bypasses returns the pods that use cards that our scheduler did not assign. It returns
// false before the first count.
func (u *UsageCollector) Bypasses() ([]enforcement.Bypass, bool) {
	last := u.last.Load()
	return last.bypasses, last.queues != nil
}

// bypassesByQueue returns Bypasses by queue.
func (u *UsageCollector) bypassesByQueue() (enforcement.BypassesByQueue, bool) {
	last := u.last.Load()
	return last.queueBypasses, last.queues != nil
}

// Forecast returns what Enforce would refuse in a queue with a CardQuota, nil for nothing. isKnown is false before the
// first count in mode Observe, and in mode Enforce.
func (u *UsageCollector) Forecast(queue string) (found *v1alpha1.CardQuotaForecast, isKnown bool) {
	last := u.last.Load()
	return last.forecast.Quotas[queue], last.observes
}

// PolicyForecast returns what no CardQuota decides about in mode Observe, nil for nothing. isKnown is as that of Forecast.
func (u *UsageCollector) PolicyForecast() (found *v1alpha1.PolicyForecast, isKnown bool) {
	last := u.last.Load()
	return last.forecast.Policy, last.observes
}

// Changed signals that the result of Bypasses or PolicyForecast changed.
func (u *UsageCollector) Changed() <-chan event.TypedGenericEvent[string] { return u.bypassesChanged }

// QuotaTotals returns what all CardQuotas grant and the healthy cards, nil before the first
// count. The numbers of an over-allocated card may be as old as totalsAge says.
func (u *UsageCollector) QuotaTotals() *cardquota.QuotaTotals {
	return u.last.Load().totals
}

// Start counts until the context ends. It counts the first change after a quiet time at
// once, and at least once per recountInterval.
func (u *UsageCollector) Start(ctx context.Context) error {
	stores, err := u.watchObjects(ctx)
	if err != nil {
		return err
	}

	// The first count then still knows which pods use cards that an earlier process counted under another
	// name.
	u.models.Restore(u.readAnomalies(ctx))
	u.markDirty()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.dirty:
		case <-time.After(recountInterval):
		}

		began := time.Now()
		changed := u.countUsage(stores)
		took := time.Since(began)
		u.metrics.duration.Observe(took.Seconds())
		u.notifyCounted()

		for _, name := range changed {
			select {
			case <-ctx.Done():
				return nil
			case u.wakeups <- event.TypedGenericEvent[wakeup]{Object: wakeup{name, u.delays[name]}}:
			}
		}

		// A count of a large cluster takes long, so the pause grows with it and leaves time for
		// reconciles.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(u.interval, countPeriods*took) - time.Since(began)):
		}
	}
}

// markDirty requests a count.
func (u *UsageCollector) markDirty() {
	select {
	case u.dirty <- struct{}{}:
	default: // a count is already due
	}
}

// markSpecsDirty marks a change of a CardQuota or of the policy.
func (u *UsageCollector) markSpecsDirty() {
	u.specChanges.Add(1)
	u.markDirty()
}

// wakeup is a queue whose CardQuotas are reconciled, no sooner than after a delay.
type wakeup struct {
	queue string
	after time.Duration
}

// objectStores are the stores of the caches: a count reads objects without copying them.
type objectStores struct{ pods, groups, queues, namespaces, quotas, policies toolscache.Store }

// watchObjects returns the stores of the caches, which it waits for. From then on it requests a count at every change
// that a count depends on. A change of CardQuotas or of the policy also makes the tree of the last count old.
func (u *UsageCollector) watchObjects(ctx context.Context) (objectStores, error) {
	var s objectStores

	specChanged := func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() }
	for _, w := range []struct {
		object client.Object
		store  *toolscache.Store
		// changed reports whether an update matters; nil is always.
		changed func(before, after client.Object) bool
	}{
		{&corev1.Pod{}, &s.pods, nil},
		{&v1beta1.PodGroup{}, &s.groups, nil},
		{&v1beta1.Queue{}, &s.queues, func(before, after client.Object) bool {
			const key = v1alpha1.AnnotationCardQuota
			return before.GetAnnotations()[key] != after.GetAnnotations()[key] || changedInTree(before, after)
		}},
		{&corev1.Namespace{}, &s.namespaces, func(before, after client.Object) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) }},
		{&v1alpha1.CardQuota{}, &s.quotas, specChanged},
		{&v1alpha1.ServiceTypePolicy{}, &s.policies, func(before, after client.Object) bool {
			return specChanged(before, after) || changesPolicyInForce(before, after)
		}},
	} {
		markChange := u.markDirty
		if w.store == &s.quotas || w.store == &s.policies {
			markChange = u.markSpecsDirty
		}

		store, err := u.watchKind(ctx, w.object, w.changed, markChange)
		if err != nil {
			return objectStores{}, err
		}
		*w.store = store
	}

	return s, nil
}

// watchKind waits for the cache of one kind of object and calls markChange on every change that matters. changed
// reports whether an update matters; nil is always.
func (u *UsageCollector) watchKind(ctx context.Context, object client.Object, changed func(before, after client.Object) bool, markChange func()) (toolscache.Store, error) {
	informer, err := u.cache.GetInformer(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}

	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("watch %T: informer %T has no store", object, informer)
	}

	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { markChange() },
		DeleteFunc: func(any) { markChange() },
		UpdateFunc: func(before, after any) {
			was, ok := before.(client.Object)
			is, isObject := after.(client.Object)
			if changed == nil || !ok || !isObject || changed(was, is) {
				markChange()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}

	// Wait for the handler: the informer can have all objects long before this handler has seen
	// them.
	if !toolscache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return nil, fmt.Errorf("watch %T: %w", object, context.Cause(ctx))
	}

	return shared.GetStore(), nil
}

// storedObjects returns the objects of a store, which has one kind. They are not copies.
func storedObjects[T any](store toolscache.Store) []*T {
	list := store.List()
	out := make([]*T, 0, len(list))
	for _, object := range list {
		if typed, ok := any(object).(*T); ok {
			out = append(out, typed)
		}
	}
	return out
}
