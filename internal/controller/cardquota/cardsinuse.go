package cardquota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
)

// CardsInUse returns the cards that queues use by the last count, with whose queues they are. It
// returns nil before the first count.
func (u *UsageCollector) CardsInUse() map[cardseconds.Series]card.Count {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.inUse
}

// Holdings returns what each pod holds by the last count, and since when: its binding, or its start if the
// API server does not date the binding. Pods without either are left out. It returns nil before the first
// count.
func (u *UsageCollector) Holdings() []cardseconds.Holding {
	u.mu.RLock()
	list := u.listHoldings
	u.mu.RUnlock()
	if list == nil {
		return nil
	}
	return list()
}

func listHoldings(pods []*corev1.Pod, charges map[types.UID]quota.Charge, owners map[string]*v1alpha1.CardQuota, queueTypes map[string]string) []cardseconds.Holding {
	var holdings []cardseconds.Holding
	for _, pod := range pods {
		charge := charges[pod.UID]
		since := cardquota.HeldSince(pod)
		series, exists := newSeries(charge.Queue, owners, queueTypes)
		if !exists || since.IsZero() {
			continue
		}
		for _, held := range charge.HeldCards() {
			series.Card = string(held.Name)
			holdings = append(holdings, cardseconds.Holding{Series: series, Count: held.Count, Since: since})
		}
	}
	return holdings
}

// newSeries returns the series of a queue without a card, false for a queue that does not exist.
func newSeries(queue string, owners map[string]*v1alpha1.CardQuota, queueTypes map[string]string) (series cardseconds.Series, exists bool) {
	serviceType, exists := queueTypes[queue]
	series = cardseconds.Series{Queue: queue, ServiceType: servicetype.DisplayName(serviceType)}
	if owner := owners[queue]; owner != nil {
		series.Tenant, series.Project = owner.Spec.Tenant, owner.Spec.Project
	}
	return series, exists
}

// cardsInUse returns the cards that queues use, with whose queues they are. queueTypes has all queues that
// exist: a pod may name any queue, and would add one to every bill.
func cardsInUse(queues map[string]cardquota.Usage, owners map[string]*v1alpha1.CardQuota, queueTypes map[string]string) map[cardseconds.Series]card.Count {
	inUse := map[cardseconds.Series]card.Count{}
	for queue, usage := range queues {
		series, exists := newSeries(queue, owners, queueTypes)
		if !exists {
			continue
		}
		for name, count := range usage.Used {
			if count = count.Sub(usage.Repeated[name]); count > 0 {
				series.Card = string(name)
				inUse[series] = count
			}
		}
	}
	return inUse
}
