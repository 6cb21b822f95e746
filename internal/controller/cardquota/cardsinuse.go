package cardquota

import (
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/servicetype"
)

// CardsInUse returns the cards that pods use by the last count, with whose queues they are. It
// returns nil before the first count.
func (u *UsageCollector) CardsInUse() map[cardseconds.Series]card.Count {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.inUse
}

// PodUsages returns what each pod uses by the last count, and since when: its binding, or its start if the
// API server does not date the binding. Pods without either are left out. It returns nil before the first
// count.
func (u *UsageCollector) PodUsages() []cardseconds.PodUsage {
	u.mu.RLock()
	list := u.listPodUsages
	u.mu.RUnlock()
	if list == nil {
		return nil
	}
	return list()
}

// TimeZone returns where days of bills are cut by the policy of the last count. nil is UTC.
func (u *UsageCollector) TimeZone() *time.Location {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.zone
}

// zoneInForce returns the time zone of the policy in force. Without a policy, and for a zone that does not
// exist, the last one stays.
func zoneInForce(inForce *v1alpha1.ServiceTypePolicy, last *time.Location) *time.Location {
	if inForce == nil {
		return last
	}
	zone, err := policy.BillingTimeZone(inForce.Spec)
	if err != nil {
		return last
	}
	return zone
}

// bills says whose the cards of a pod are.
type bills struct {
	owners map[string]*v1alpha1.CardQuota
	// queueTypes has all queues that exist: a pod may name any queue, and would add one to every bill.
	queueTypes map[string]string
}

// payer is a queue, or the namespace of a pod without one.
type payer struct{ queue, namespace string }

// payerOf returns who pays for a pod.
func (b *bills) payerOf(pod queueusage.BilledPod) payer {
	if _, exists := b.queueTypes[pod.Charge.Queue]; exists {
		return payer{queue: pod.Charge.Queue}
	}
	return payer{namespace: pod.Pod.Namespace}
}

// seriesOf returns the series of who pays, for a card.
func (b *bills) seriesOf(p payer, name card.Name) cardseconds.Series {
	series := cardseconds.Series{Queue: p.queue, Namespace: p.namespace, Card: string(name), ServiceType: servicetype.DisplayName(b.queueTypes[p.queue])}
	if owner := b.owners[p.queue]; owner != nil {
		series.Tenant = owner.Spec.Tenant
		series.Project = owner.Spec.Project
	}
	return series
}

// cardsInUse returns the cards that pods use.
func (b *bills) cardsInUse(pods []queueusage.BilledPod) map[cardseconds.Series]card.Count {
	type payerCard struct {
		payer
		card card.Name
	}

	counts := map[payerCard]card.Count{}
	for _, pod := range pods {
		who := b.payerOf(pod)
		for _, amount := range pod.Charge.DistinctCards() {
			key := payerCard{who, amount.Name}
			counts[key] = counts[key].Add(amount.Count)
		}
	}

	inUse := make(map[cardseconds.Series]card.Count, len(counts))
	for key, count := range counts {
		inUse[b.seriesOf(key.payer, key.card)] = count
	}

	return inUse
}

// listPodUsages returns what each pod uses, and since when.
func (b *bills) listPodUsages(pods []queueusage.BilledPod) []cardseconds.PodUsage {
	var usages []cardseconds.PodUsage
	for _, pod := range pods {
		since := queueusage.PlacedSince(pod.Pod)
		// Without a start nothing bounds the credit, so such a pod gets none.
		if since.IsZero() {
			continue
		}

		who := b.payerOf(pod)
		for _, amount := range pod.Charge.DistinctCards() {
			usages = append(usages, cardseconds.PodUsage{Series: b.seriesOf(who, amount.Name), Count: amount.Count, Since: since})
		}
	}

	return usages
}

// recountAtNextEnd counts again when the first terminating pod of a node that is not ready ends to count.
func (u *UsageCollector) recountAtNextEnd(now time.Time) {
	next := u.facts.NextEnd(now)
	if next.IsZero() || next.Equal(u.nextEnd) {
		return
	}
	u.nextEnd = next
	time.AfterFunc(next.Sub(now), u.markDirty)
}
