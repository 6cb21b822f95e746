package cardquota

import (
	"context"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
)

// InventoryCount returns the last count, summed up by card, nil before the first count.
func (u *UsageCollector) InventoryCount() *cardinventory.Count {
	return u.last.Load().inventory
}

// maxAnomaliesWait bounds how long the first count waits for the CardInventory.
const maxAnomaliesWait = 10 * time.Second

// readAnomalies returns the anomalies that an earlier process wrote, from which the first count knows which cards have
// another name than when their pods started. Without a CardInventory, or its CRD, there are none.
func (u *UsageCollector) readAnomalies(ctx context.Context) []v1alpha1.InventoryAnomaly {
	ctx, cancel := context.WithTimeout(ctx, maxAnomaliesWait)
	defer cancel()
	inventory := &v1alpha1.CardInventory{}
	if err := u.cache.Get(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory); err != nil {
		return nil
	}
	return inventory.Status.Anomalies
}

// OnCount registers a function that is called after each count. It must be called before Start;
// the function must not block.
func (u *UsageCollector) OnCount(counted func()) { u.onCount = append(u.onCount, counted) }

// notifyCounted calls the functions that OnCount registered.
func (u *UsageCollector) notifyCounted() {
	for _, counted := range u.onCount {
		counted()
	}
}

// queuesWithUnknownCards returns the queues of CardQuotas with a card that no node has, before or after. Their
// condition CardsKnown suggests a card that nodes have, and names cards that no label names yet. So it returns none if
// nodes have the same cards, in any number, and sameUnnamed reports that the unnamed ones are unchanged.
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
