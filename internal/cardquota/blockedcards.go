package cardquota

import (
	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// cardsByReason returns how many cards wait for each reason, nil for none. It counts all entries, also
// those for which a status has no room.
func (s blockedSet) cardsByReason() map[v1alpha1.BlockedReason]card.Count {
	var cards map[v1alpha1.BlockedReason]card.Count
	for _, entry := range s {
		if entry.Count <= 0 {
			continue
		}
		if cards == nil {
			cards = map[v1alpha1.BlockedReason]card.Count{}
		}
		cards[entry.Reason] = cards[entry.Reason].Add(card.Count(entry.Count))
	}
	return cards
}
