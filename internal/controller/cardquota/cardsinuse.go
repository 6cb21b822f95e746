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

// CardsInUse returns how many cards pods use by the last count, by who pays for them and by card. It
// returns nil before the first count.
func (u *UsageCollector) CardsInUse() map[cardseconds.Series]card.Count {
	return u.last.Load().inUse
}

// PodUsages returns what each pod uses by the last count, and since when: its binding, or its start if the
// API server does not date the binding. Pods without either are left out. It returns nil before the first
// count.
func (u *UsageCollector) PodUsages() []cardseconds.PodUsage {
	list := u.last.Load().listPodUsages
	if list == nil {
		return nil
	}
	return list()
}

// TimeZone returns the time zone in which days of bills begin, by the policy of the last count. nil is UTC.
func (u *UsageCollector) TimeZone() *time.Location {
	return u.last.Load().zone
}

// zoneInForce returns the time zone of the policy in force, nil for UTC. Without a policy, and for a zone that does not
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

// bills says who pays for the cards of a pod.
type bills struct {
	// owners are the CardQuotas by queue.
	owners map[string]*v1alpha1.CardQuota
	// queueTypes are the service types of all queues that exist. A pod may name any other queue, and would add it to
	// every bill.
	queueTypes map[string]string
}

// payer is a queue, or the namespace of a pod whose queue does not exist. The other one is "".
type payer struct{ queue, namespace string }

// payerOf returns who pays for a pod.
func (b *bills) payerOf(pod queueusage.BilledPod) payer {
	if _, exists := b.queueTypes[pod.Charge.Queue]; exists {
		return payer{queue: pod.Charge.Queue}
	}
	return payer{namespace: pod.Pod.Namespace}
}

// seriesOf returns what a bill says of a payer and a card. The tenant and the project are those of the CardQuota that
// owns the queue, "" without one.
func (b *bills) seriesOf(p payer, name card.Name) cardseconds.Series {
	series := cardseconds.Series{Queue: p.queue, Namespace: p.namespace, Card: string(name), ServiceType: servicetype.DisplayName(b.queueTypes[p.queue])}
	if owner := b.owners[p.queue]; owner != nil {
		series.Tenant = owner.Spec.Tenant
		series.Project = owner.Spec.Project
	}
	return series
}

// cardsInUse returns how many cards the pods use. It makes a series once for each payer and card, not for each pod.
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

// listPodUsages returns for each pod and card who pays, how many cards it uses, and since when.
func (b *bills) listPodUsages(pods []queueusage.BilledPod) []cardseconds.PodUsage {
	var usages []cardseconds.PodUsage
	for _, pod := range pods {
		since := queueusage.PlacedSince(pod.Pod)
		// Without a start, the time for which the pod used its cards has no bound, so it is billed for none of it.
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

// recountAtNextEnd requests a count for when the first terminating pod of a node that is not Ready no longer counts:
// its grace period ends then, and no event says so. If that time is the same as at the last count, the timer runs
// already.
func (u *UsageCollector) recountAtNextEnd(now time.Time) {
	next := u.facts.NextEnd(now)
	if next.IsZero() || next.Equal(u.nextEnd) {
		return
	}
	u.nextEnd = next
	time.AfterFunc(next.Sub(now), u.markDirty)
}
