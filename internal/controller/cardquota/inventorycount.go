package cardquota

import (
	"maps"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
)

// InventoryCount returns the last count, summed up by card, nil before the first count.
func (u *UsageCollector) InventoryCount() *cardinventory.Count {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.inventoryCount
}

// OnCount registers a function that is called after each count. It must be called before Start;
// the function must not block.
func (u *UsageCollector) OnCount(counted func()) { u.onCount = append(u.onCount, counted) }

func (u *UsageCollector) notifyCounted() {
	for _, counted := range u.onCount {
		counted()
	}
}

// queuesWithUnknownCards returns the queues of CardQuotas with a card that no node has, if the set
// of cards of the nodes changed. Condition CardsKnown suggests one of those.
func queuesWithUnknownCards(before, after map[card.Name]card.Count, sameUnnamed bool, quotas []*v1alpha1.CardQuota) []string {
	if sameUnnamed && maps.EqualFunc(before, after, func(card.Count, card.Count) bool { return true }) {
		return nil
	}
	var found []string
	for _, quota := range quotas {
		if len(cardquota.UnknownCards(quota, before)) > 0 || len(cardquota.UnknownCards(quota, after)) > 0 {
			found = append(found, quota.QueueName())
		}
	}
	return found
}
