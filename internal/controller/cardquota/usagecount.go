package cardquota

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
)

// totalsRefreshInterval bounds the age of the numbers of an over-allocated card in
// conditions whose status stays. A change of one quota or node changes the numbers of all
// CardQuotas of that card, and their status writes must not delay the Queues. With more CardQuotas
// than are written at totalsRefreshRate in that time the numbers are older, and the writes are
// spread over it: an API server that gets all of them at once would answer nothing else in time.
var totalsRefreshInterval = build.Wait(10 * time.Second)

// totalsRefreshRate is how many statuses in a second such numbers may cost. An API server on a small machine
// takes 20 ms of a processor for each.
const totalsRefreshRate = 20

// usageCount is the result of one count. It does not change once the UsageCollector has published it.
type usageCount struct {
	// queues is what each queue uses alone, nil before the first count. subtrees is what it uses with the queues
	// below it.
	queues, subtrees map[string]queueusage.Usage
	tree             *cardquota.Tree
	// specChanges is that of the UsageCollector when the tree was made.
	specChanges uint64
	// physical is how many of each card all nodes offer, unnamed the cards that no label names yet.
	physical map[card.Name]card.Count
	unnamed  []card.UnnamedCards
	// totals is nil before the first count. It may be that of an earlier count, see postponeTotals.
	totals        *cardquota.QuotaTotals
	bypasses      []enforcement.Bypass
	queueBypasses enforcement.BypassesByQueue
	// bypassesChanged reports whether bypasses differ from the count before, or this is the first count.
	bypassesChanged bool
	inventory       *cardinventory.Count // nil before the first count
	// observes reports whether the count made a forecast, as in mode Observe.
	observes      bool
	forecast      forecast.Forecast
	inUse         map[cardseconds.Series]card.Count
	listPodUsages func() []cardseconds.PodUsage // nil before the first count
	zone          *time.Location                // of days in bills, nil for UTC
}

// countedObjects are the objects that a count reads, and what follows from CardQuotas, Queues and the policy alone.
type countedObjects struct {
	specChanges uint64
	inForce     *v1alpha1.ServiceTypePolicy
	schedulers  []string
	pods        []*corev1.Pod
	groups      []*v1beta1.PodGroup
	queues      []*v1beta1.Queue
	namespaces  []*corev1.Namespace
	cardQuotas  []*v1alpha1.CardQuota
	tree        *cardquota.Tree
	// By queue: the CardQuota that owns it, its quota in force, and its service type.
	owners       map[string]*v1alpha1.CardQuota
	quotas       map[string]card.Quota
	serviceTypes map[string]string
}

// countUsage counts once, publishes the result, and returns the queues whose CardQuotas are to be reconciled. After
// the first count, and the first one in another mode, that is allQueues. It counts nothing before all nodes were read.
func (u *UsageCollector) countUsage(stores objectStores) []string {
	inventory, known := u.inventory.Inventory()
	if !known {
		return nil
	}

	read := u.readObjects(stores)
	now := time.Now()
	last := u.last.Load()
	count := u.countObjects(read, inventory, last, now)
	wakeups := []string{allQueues}
	if last.queues != nil && last.observes == count.observes {
		wakeups, u.delays = u.changedQueues(read, last, count, now)
	}

	u.publish(count)
	u.recountAtNextEnd(now) // of a terminating pod, which no event reports
	return wakeups
}

// readObjects reads the objects of a count from the caches, without copying them.
func (u *UsageCollector) readObjects(stores objectStores) *countedObjects {
	// Read before the objects: a change in between then makes the tree look old, and never new.
	specChanges := u.specChanges.Load()
	inForce := u.policyInForce(stores.policies)
	cardQuotas := storedObjects[v1alpha1.CardQuota](stores.quotas)
	queues := storedObjects[v1beta1.Queue](stores.queues)
	owners := cardquota.OwnersByQueue(cardQuotas)
	tree := cardquota.TreeInForce(inForce, cardQuotas, queues)

	return &countedObjects{
		specChanges: specChanges, inForce: inForce, schedulers: ourSchedulers(inForce),
		pods: storedObjects[corev1.Pod](stores.pods), groups: storedObjects[v1beta1.PodGroup](stores.groups), queues: queues,
		namespaces: storedObjects[corev1.Namespace](stores.namespaces), cardQuotas: cardQuotas, tree: tree,
		owners: owners, quotas: quotasByQueue(tree, owners), serviceTypes: cardquota.ServiceTypesByQueue(owners, queues),
	}
}

// countObjects counts what the objects use, and sets the metrics of counting. last is the count before this
// one. The UsageCollector keeps charges and facts of pods from count to count; this replaces them.
func (u *UsageCollector) countObjects(read *countedObjects, inventory *card.Inventory, last *usageCount, now time.Time) *usageCount {
	var queues map[string]queueusage.Usage
	allowsNamespace := namespaceCheck(read.owners, read.namespaces)
	namespaces := observedNamespaces(read)
	queues, u.lastCharges = queueusage.CountWithCharges(queueusage.Input{
		Pods:             read.pods,
		PodGroups:        read.groups,
		Inventory:        inventory,
		Nodes:            u.inventory.Nodes(),
		Quotas:           read.quotas,
		LastCharges:      u.lastCharges,
		Facts:            &u.facts,
		Schedulers:       read.schedulers,
		AllowsNamespace:  allowsNamespace,
		QueueOfNamespace: queueOfNamespace(namespaces),
		ServiceTypes:     read.serviceTypes,
		LocalQueues:      localQueues(read.owners, read.tree),
		Tree:             read.tree.Queues(),
		Now:              now,
	})

	u.metrics.observeBindings(u.facts.NewBindings(read.schedulers), read.serviceTypes)
	u.metrics.setLastCount(now)

	// Card-seconds are billed by what each pod uses, which the count above has left in the facts of pods.
	payers := bills{read.owners, read.serviceTypes}
	billed := u.facts.BilledPods()
	count := &usageCount{
		queues: queues, subtrees: queueusage.Sum(queues, read.tree.Queues(), read.tree.HasViews), tree: read.tree, specChanges: read.specChanges,
		physical: inventory.Physical(), unnamed: inventory.UnnamedCards(), totals: u.compareWithInventory(read),
		queueBypasses: last.queueBypasses, zone: zoneInForce(read.inForce, last.zone),
		inUse: payers.cardsInUse(billed), listPodUsages: func() []cardseconds.PodUsage { return payers.listPodUsages(billed) },
	}

	if len(read.schedulers) > 0 { // without a policy, our schedulers are unknown
		count.bypasses = enforcement.FindBypasses(read.pods, u.lastCharges, inventory, read.schedulers, u.provenance)
	}

	if namespaces != nil {
		input := u.forecastInput(read, inventory, namespaces, allowsNamespace)
		input.Bypasses = count.bypasses
		count.observes = true
		count.forecast = forecast.New(input)
	}
	u.metrics.setPolicyForecast(count.forecast.Policy)

	// Unchanged bypasses keep the groups of the last count. Its queues are nil if this is the first count.
	count.bypassesChanged = last.queues == nil || !sameBypasses(last.bypasses, count.bypasses)
	if count.bypassesChanged {
		count.queueBypasses = enforcement.GroupByQueue(count.bypasses)
	}

	count.inventory = cardinventory.NewCount(cardinventory.CountInput{
		Pods: read.pods, Charges: u.lastCharges, Usage: queues, Owners: read.owners, ServiceTypes: read.serviceTypes, Quotas: read.quotas,
		Queues: read.queues, Tree: read.tree, Totals: count.totals, Changed: u.models.Update(read.pods, u.lastCharges, inventory),
		QueueOfNamespace: queueOfNamespace(namespaces),
	})
	return count
}

// changedQueues returns, sorted, the queues whose status may differ between the last count and this one, and
// the delays after which some of them are reconciled. Where new totals must wait, it puts those of the last
// count into this one.
func (u *UsageCollector) changedQueues(read *countedObjects, last, count *usageCount, now time.Time) (changed []string, delays map[string]time.Duration) {
	// moved are the queues with other numbers of over-allocated cards, turned reports that a card has become
	// over-allocated or is no longer. Without postponing, one flapping node would rewrite every status each
	// second.
	moved, turned := count.totals.ChangedQueues(last.totals)
	if u.postponeTotals(moved, turned, now) {
		moved = nil
		count.totals = last.totals
	}

	// A status shows the usage of its queue and of the queues below, which of its cards nodes have, and
	// bypasses. For a card that no node has it suggests others, or cards that no label names yet.
	sameUnnamed := slices.EqualFunc(last.unnamed, count.unnamed, card.UnnamedCards.Equal)
	changed = slices.Concat(changedKeys(last.queues, count.queues, queueusage.Usage.Equal), changedSubtrees(last, count),
		queuesWithCards(changedKeys(last.physical, count.physical, bothOrNone), count.queues, read.quotas),
		queuesWithUnknownCards(last.physical, count.physical, sameUnnamed, read.cardQuotas))
	changed = append(changed, changedKeys(last.forecast.Quotas, count.forecast.Quotas, sameForecast)...)
	if count.bypassesChanged {
		changed = append(changed, changedKeys(last.queueBypasses, count.queueBypasses, sameBypasses)...)
	}

	// Queues with nothing but other numbers wait, so that their status writes do not flood the API server. A
	// card that became over-allocated, or is no longer, shows at once.
	if !turned {
		delays = spreadOver(moved, changed)
	}

	changed = append(changed, moved...)
	slices.Sort(changed)
	return slices.Compact(changed), delays
}

// publish makes a count the one that all methods for other goroutines answer by. It signals changed bypasses, and a changed
// forecast of the policy.
func (u *UsageCollector) publish(count *usageCount) {
	last := u.last.Load()
	forecastChanged := last.observes != count.observes || !equality.Semantic.DeepEqual(last.forecast.Policy, count.forecast.Policy)
	u.last.Store(count)
	if count.bypassesChanged || forecastChanged {
		select {
		case u.bypassesChanged <- event.TypedGenericEvent[string]{}:
		default: // the receiver has not read the last signal yet
		}
	}
}

// quotasByQueue returns the quota of each queue that a CardQuota owns.
func quotasByQueue(tree *cardquota.Tree, owners map[string]*v1alpha1.CardQuota) map[string]card.Quota {
	quotas := make(map[string]card.Quota, len(owners))
	for queue, owner := range owners {
		quotas[queue] = tree.QuotaFor(owner)
	}
	return quotas
}

// postponeTotals reports whether the numbers of over-allocated cards stay as they are for now: a node that flaps would
// otherwise rewrite the status of every tenant with the card each second. If so, it schedules a count for when they may
// change; if not, their age begins again. moved are the queues whose numbers differ, turned reports that a card has
// become over-allocated or is no longer.
func (u *UsageCollector) postponeTotals(moved []string, turned bool, now time.Time) bool {
	if len(moved) == 0 { // no condition changes
		return false
	}

	// A card that becomes over-allocated, or stops being so, shows at once.
	wait := totalsAge(len(moved)) - now.Sub(u.totalsUpdatedAt)
	if wait <= 0 || turned {
		u.totalsUpdatedAt = now
		return false
	}

	u.recountForTotals(wait)
	return true
}

// recountForTotals requests a count for when the totals that postponeTotals held back may be shown. The timer of a
// later call replaces that of an earlier one: one count shows all of them.
func (u *UsageCollector) recountForTotals(wait time.Duration) {
	if u.totalsTimer != nil {
		u.totalsTimer.Stop()
	}
	u.totalsTimer = time.AfterFunc(wait, u.markDirty)
}

// spreadOver returns delays for queues, so that no more than totalsRefreshRate of them are reconciled in a second.
// Urgent queues have other changes to show, so they get no delay.
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

// totalsAge returns how old the numbers of over-allocated cards may become, if the conditions of so many queues have
// them: the time that writing all of these takes at totalsRefreshRate, and totalsRefreshInterval at least.
func totalsAge(queues int) time.Duration {
	return max(totalsRefreshInterval, time.Duration(queues)*time.Second/totalsRefreshRate)
}

// changedKeys returns, sorted, the keys that only one map has or that have different values.
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

// queuesWithCards returns the queues with a quota whose status shows one of the cards: it is granted, used or
// requested.
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

// observedNamespaces returns for which queue pods count that name none. It is nil in mode Enforce, in which such pods count
// for no queue.
func observedNamespaces(read *countedObjects) *forecast.Namespaces {
	if policy.Mode(read.inForce) != v1alpha1.ModeObserve {
		return nil
	}
	return forecast.NewNamespaces(read.owners, read.tree.Queues(), read.namespaces)
}

// queueOfNamespace returns the function by which a count asks for the queue of a namespace, nil without namespaces.
func queueOfNamespace(namespaces *forecast.Namespaces) func(string) string {
	if namespaces == nil {
		return nil
	}
	return namespaces.QueueFor
}

// forecastInput returns what the forecast of a count is made from. The count has left the charges of all pods.
func (u *UsageCollector) forecastInput(read *countedObjects, inventory *card.Inventory, namespaces *forecast.Namespaces, allowsNamespace func(queue, namespace string) bool) *forecast.Input {
	tree := read.tree.Queues()
	if tree.IsFlat() {
		tree = tree.WithFlat(cardquota.FlatLimits(read.owners))
	}

	return &forecast.Input{
		Pods: read.pods, PodGroups: read.groups, Charges: u.lastCharges, Facts: &u.facts, Inventory: inventory, Healthy: u.inventory.Healthy(), Nodes: u.inventory.Nodes(), Owners: read.owners, Tree: tree,
		UnmanagedQueues: policy.UnmanagedQueues(read.inForce),
		Namespaces:      namespaces, AllowsNamespace: allowsNamespace, Schedulers: read.schedulers,
		TypeFor: policy.ServiceTypes(read.inForce), Matrix: policy.ReclaimMatrix(read.inForce), IgnoresComputeOfCardPods: policy.IgnoresComputeOfCardPods(read.inForce),
	}
}

// sameForecast reports whether two forecasts say the same.
func sameForecast(a, b *v1alpha1.CardQuotaForecast) bool { return equality.Semantic.DeepEqual(a, b) }
