package cardquota

import (
	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/servicetype"
)

// CardsInUse returns the cards that queues use by the last count, with whose queues they are. It
// returns nil before the first count.
func (u *UsageCollector) CardsInUse() map[cardseconds.Series]card.Count {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.inUse
}

// cardsInUse returns the cards that queues use, with whose queues they are. types has all queues that
// exist: a pod may name any queue, and would add one to every bill.
func cardsInUse(queues map[string]cardquota.Usage, owners map[string]*v1alpha1.CardQuota, types map[string]string) map[cardseconds.Series]card.Count {
	inUse := map[cardseconds.Series]card.Count{}
	for queue, usage := range queues {
		serviceType, exists := types[queue]
		if !exists {
			continue
		}
		series := cardseconds.Series{Queue: queue, ServiceType: servicetype.DisplayName(serviceType)}
		if owner := owners[queue]; owner != nil {
			series.Tenant, series.Project = owner.Spec.Tenant, owner.Spec.Project
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
