package cardquota

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
)

// allQueues is what the UsageCollector sends to reconcile all CardQuotas. It is no valid
// queue name.
const allQueues = "*"

// totalsRefreshInterval bounds the age of the numbers of an over-allocated card in
// conditions whose status stays. A change of one quota or node changes the numbers of all
// CardQuotas of that card, and their status writes must not delay the Queues. With more CardQuotas
// than are written at totalsRefreshRate in that time the numbers are older, and the writes are
// spread over it: an API server that gets all of them at once would answer nothing else in time.
var totalsRefreshInterval = build.Wait(10 * time.Second)

// totalsRefreshRate is how many statuses in a second such numbers may cost. An API server on a small machine
// takes 20 ms of a processor for each.
const totalsRefreshRate = 20

// recountInterval is the time between two counts of an unchanged cluster: the time of the last count proves
// that the operator counts.
var recountInterval = build.Wait(time.Minute)

// countPeriods is how many times as long as a count takes the next one begins later: at the scale at
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
// node or quota changed, at most once per interval, and for at most half of the time. It requests a reconcile of CardQuotas
// whose numbers changed.
type UsageCollector struct {
	cache    cache.Cache
	interval time.Duration
	// dirty has a token if something changed since the last count began.
	dirty chan struct{}
	// specChanges counts the changes of CardQuotas and of the policy.
	specChanges atomic.Uint64
	// wakeups sends names of queues, or allQueues. delays are those of the queues that the last count wakes only
	// for the numbers of over-allocated cards.
	wakeups   chan event.TypedGenericEvent[wakeup]
	delays    map[string]time.Duration
	metrics   countMetrics
	inventory InventorySource
	// passed signals that the result of Bypasses changed.
	bypassesChanged chan event.TypedGenericEvent[string]

	// The results of earlier counts that a count needs.
	lastCharges map[types.UID]quota.Charge
	facts       queueusage.PodFacts
	provenance  enforcement.FirstProvenance
	models      cardinventory.ModelChanges
	nextEnd     time.Time // of a terminating pod, for which a count is due

	mu              sync.RWMutex
	queues          map[string]queueusage.Usage // nil before the first count
	subtrees        map[string]queueusage.Usage // queues with the queues below them
	tree            *cardquota.Tree
	treeChanges     uint64 // specChanges when tree was made
	physical        map[card.Name]card.Count
	unnamed         []card.UnnamedCards
	totals          *cardquota.QuotaTotals // nil before the first count
	totalsTimer     *time.Timer            // ends when totals are to be replaced
	totalsUpdatedAt time.Time              // when totals last replaced older ones
	bypasses        []enforcement.Bypass
	queueBypasses   enforcement.BypassesByQueue // bypasses by queue
	inventoryCount  *cardinventory.Count        // nil before the first count
	inUse           map[cardseconds.Series]card.Count
	listPodUsages   func() []cardseconds.PodUsage // nil before the first count
	zone            *time.Location                // of days in bills, nil for UTC
	onCount         []func()
}

func newUsageCollector(c cache.Cache, interval time.Duration, cards InventorySource) *UsageCollector {
	return &UsageCollector{
		provenance:      enforcement.FirstProvenance{},
		cache:           c,
		interval:        interval,
		inventory:       cards,
		dirty:           make(chan struct{}, 1),
		wakeups:         make(chan event.TypedGenericEvent[wakeup]),
		bypassesChanged: make(chan event.TypedGenericEvent[string], 1),
		metrics:         newCountMetrics(),
		tree:            cardquota.Flat,
	}
}

// QueueUsage returns the usage of a queue alone, and with the queues below it. It returns
// false before the first count.
func (u *UsageCollector) QueueUsage(name string) (own, subtree queueusage.Usage, counted bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.queues[name], u.subtrees[name], u.queues != nil
}

// QueuesBelow returns a queue and, in a tree, those below it.
func (u *UsageCollector) QueuesBelow(name string) []string {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.tree.Queues().Below(name)
}

// Physical returns how many of each card all nodes offer.
func (u *UsageCollector) Physical() map[card.Name]card.Count {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.physical
}

// Unnamed returns the cards of nodes that no label names yet.
func (u *UsageCollector) Unnamed() []card.UnnamedCards {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.unnamed
}

// Bypasses returns the pods that use cards that our scheduler did not assign. It returns
// false before the first count.
func (u *UsageCollector) Bypasses() ([]enforcement.Bypass, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.bypasses, u.queues != nil
}

// bypassesByQueue returns Bypasses by queue.
func (u *UsageCollector) bypassesByQueue() (enforcement.BypassesByQueue, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.queueBypasses, u.queues != nil
}

// Changed signals that the result of Bypasses changed.
func (u *UsageCollector) Changed() <-chan event.TypedGenericEvent[string] { return u.bypassesChanged }

// QuotaTotals returns what all CardQuotas grant and the healthy cards, nil before the first
// count. The numbers of an over-allocated card may be as old as totalsAge says.
func (u *UsageCollector) QuotaTotals() *cardquota.QuotaTotals {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.totals
}

// Start counts until the context ends. It counts the first change after a quiet time at
// once, and at least once per recountInterval.
func (u *UsageCollector) Start(ctx context.Context) error {
	stores, err := u.watchObjects(ctx)
	if err != nil {
		return err
	}

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

// objectStores are the stores of the caches: a count reads objects without copying them.
type objectStores struct{ pods, groups, queues, namespaces, quotas, policies toolscache.Store }

// watchObjects waits for the caches and calls markDirty on every change.
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
			return specChanged(before, after) || changesForce(before, after)
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

// countUsage counts once and returns the queues to reconcile. It counts nothing before all
// nodes were read.
func (u *UsageCollector) countUsage(s objectStores) []string {
	inventory, known := u.inventory.Inventory()
	if !known {
		return nil
	}

	// Read before the objects: a change in between then makes the tree look old, and never new.
	specChanges := u.specChanges.Load()
	inForce := u.policyInForce(s.policies)
	pods := storedObjects[corev1.Pod](s.pods)
	granted := storedObjects[v1alpha1.CardQuota](s.quotas)
	owners := cardquota.OwnersByQueue(granted)
	schedulers := ourSchedulers(inForce)

	queueObjects := storedObjects[v1beta1.Queue](s.queues)
	tree := cardquota.TreeInForce(inForce, granted, queueObjects)
	quotas := quotasByQueue(tree, owners)
	types := cardquota.ServiceTypesByQueue(owners, queueObjects)
	now := time.Now()
	var queues map[string]queueusage.Usage
	queues, u.lastCharges = queueusage.CountWithCharges(queueusage.Input{
		Pods:            pods,
		PodGroups:       storedObjects[v1beta1.PodGroup](s.groups),
		Inventory:       inventory,
		Nodes:           u.inventory.Nodes(),
		Quotas:          quotas,
		LastCharges:     u.lastCharges,
		Facts:           &u.facts,
		Schedulers:      schedulers,
		AllowsNamespace: namespaceCheck(owners, storedObjects[corev1.Namespace](s.namespaces)),
		ServiceTypes:    types,
		LocalQueues:     localQueues(owners, tree),
		Tree:            tree.Queues(),
		Now:             now,
	})

	u.metrics.observeBindings(u.facts.NewBindings(schedulers), types)
	u.metrics.setLastCount(now)

	var bypasses []enforcement.Bypass
	if len(schedulers) > 0 { // without a policy, our schedulers are unknown
		bypasses = enforcement.FindBypasses(pods, u.lastCharges, inventory, schedulers, u.provenance)
	}

	totals := u.compareWithInventory(tree, granted, queueObjects)
	physical := inventory.Physical()
	unnamed := inventory.UnnamedCards()
	sameUnnamed := slices.EqualFunc(u.unnamed, unnamed, card.UnnamedCards.Equal)
	subtrees := queueusage.Sum(queues, tree.Queues(), tree.HasViews)

	inventoryCount := cardinventory.NewCount(cardinventory.CountInput{
		Pods: pods, Charges: u.lastCharges, Usage: queues, Owners: owners, ServiceTypes: types, Quotas: quotas, Queues: queueObjects, Tree: tree, Totals: totals,
		Changed: u.models.Update(pods, u.lastCharges, inventory),
	})

	payers := bills{owners, types}
	billed := u.facts.BilledPods()
	inUse := payers.cardsInUse(billed)
	u.recountAtNextEnd(now)

	// Only this function changes the results of the last count, so it compares with them before it takes the
	// lock. Every reconcile reads them.
	bypassesChanged := u.queues == nil || !sameBypasses(u.bypasses, bypasses)
	queueBypasses := u.queueBypasses
	if bypassesChanged {
		queueBypasses = enforcement.GroupByQueue(bypasses)
	}

	wakeups := []string{allQueues}
	u.delays = nil
	if u.queues != nil {
		moved, turned := totals.ChangedQueues(u.totals)
		if u.postponeTotals(moved, turned, now) {
			moved = nil
			totals = u.totals
		}

		wakeups = slices.Concat(changedKeys(u.queues, queues, queueusage.Usage.Equal), u.changedSubtrees(tree, subtrees),
			queuesWithCards(changedKeys(u.physical, physical, bothOrNone), queues, quotas), queuesWithUnknownCards(u.physical, physical, sameUnnamed, granted))
		if bypassesChanged {
			wakeups = append(wakeups, changedKeys(u.queueBypasses, queueBypasses, sameBypasses)...)
		}

		if !turned {
			u.delays = spreadOver(moved, wakeups)
		}

		wakeups = append(wakeups, moved...)
		slices.Sort(wakeups)
		wakeups = slices.Compact(wakeups)
	}

	u.mu.Lock()
	defer u.mu.Unlock()

	u.unnamed = unnamed
	u.queues = queues
	u.physical = physical
	u.totals = totals
	u.bypasses = bypasses
	u.queueBypasses = queueBypasses
	u.tree = tree
	u.treeChanges = specChanges
	u.subtrees = subtrees
	u.inventoryCount = inventoryCount
	u.zone = zoneInForce(inForce, u.zone)
	u.inUse = inUse
	u.listPodUsages = func() []cardseconds.PodUsage { return payers.listPodUsages(billed) }

	if bypassesChanged {
		select {
		case u.bypassesChanged <- event.TypedGenericEvent[string]{}:
		default: // the receiver has not read the last signal yet
		}
	}

	return wakeups
}

// quotasByQueue returns the quota of each queue that a CardQuota owns.
func quotasByQueue(tree *cardquota.Tree, owners map[string]*v1alpha1.CardQuota) map[string]card.Quota {
	quotas := make(map[string]card.Quota, len(owners))
	for queue, owner := range owners {
		quotas[queue] = tree.QuotaFor(owner)
	}
	return quotas
}

// postponeTotals reports whether the numbers of over-allocated cards stay as they are for now. It then counts
// again when they may change. moved and turned are what QuotaTotals.ChangedQueues returns.
func (u *UsageCollector) postponeTotals(moved []string, turned bool, now time.Time) bool {
	if len(moved) == 0 { // no condition changes
		return false
	}

	// A node that flaps would otherwise rewrite the status of every tenant with the card each
	// second.
	wait := totalsAge(len(moved)) - now.Sub(u.totalsUpdatedAt)
	if wait <= 0 || turned {
		u.totalsUpdatedAt = now
		return false
	}

	u.recountForTotals(wait)
	return true
}

// recountForTotals counts again once the numbers of over-allocated cards are old. One timer is enough for all
// counts that put them off.
func (u *UsageCollector) recountForTotals(wait time.Duration) {
	if u.totalsTimer != nil {
		u.totalsTimer.Stop()
	}
	u.totalsTimer = time.AfterFunc(wait, u.markDirty)
}

// wakeup is a queue whose CardQuotas are reconciled, no sooner than after a delay.
type wakeup struct {
	queue string
	after time.Duration
}

// spreadOver returns delays for queues, so that no more than totalsRefreshRate begin in a second. It has none
// for those that are urgent.
func spreadOver(queues, urgent []string) map[string]time.Duration {
	delays := make(map[string]time.Duration, len(queues))
	for i, name := range queues {
		delays[name] = time.Duration(i) * time.Second / totalsRefreshRate
	}
	for _, name := range urgent {
		delete(delays, name)
	}
	return delays
}

// totalsAge returns how old the numbers of over-allocated cards may be in the conditions of a number of
// queues.
func totalsAge(queues int) time.Duration {
	return max(totalsRefreshInterval, time.Duration(queues)*time.Second/totalsRefreshRate)
}

// changedKeys returns, sorted, the keys that only one map has or that have different
// values.
func changedKeys[K cmp.Ordered, V any](before, after map[K]V, equal func(V, V) bool) []K {
	changed := map[K]bool{}
	for _, side := range []map[K]V{before, after} {
		for key := range side {
			had, was := before[key]
			has, is := after[key]
			if was != is || !equal(had, has) {
				changed[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

func sameBypasses(before, after []enforcement.Bypass) bool {
	return slices.EqualFunc(before, after, enforcement.Bypass.Equal)
}

// bothOrNone reports whether nodes have a card in both counts or in none: a status does not follow other
// changes of their number, because one node would rewrite the statuses of all tenants.
func bothOrNone(before, after card.Count) bool { return (before > 0) == (after > 0) }

// queuesWithCards returns the queues whose status shows one of the cards.
func queuesWithCards(cards []card.Name, queues map[string]queueusage.Usage, quotas map[string]card.Quota) []string {
	if len(cards) == 0 {
		return nil
	}

	found := make([]string, 0, len(quotas))
	for queue, quota := range quotas {
		used := queues[queue]
		if slices.ContainsFunc(cards, func(name card.Name) bool {
			_, granted := quota[name]
			return granted || used.Used[name] > 0 || used.Pending[name] > 0
		}) {
			found = append(found, queue)
		}
	}

	return found
}

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
