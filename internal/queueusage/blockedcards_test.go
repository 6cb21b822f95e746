package queueusage

import (
	"fmt"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// TestBlockedCardsCountAllEntries: a metric counts blocked cards by reason. It includes pods beyond the ten
// (MaxBlocked) that a status lists. 13 pods wait for 2 cards each because the quota of q is used. One pod waits for
// 5 of a card that no node has. A pod without cards, and one that the scheduler has not tried, count for nothing.
func TestBlockedCardsCountAllEntries(t *testing.T) {
	var waits pods
	for i := range waiting.MaxBlocked + 3 {
		waits = append(waits, pod(fmt.Sprint("full-", i)).Queue("q").Card("NVIDIA-H200").GPUs(2).Unschedulable(exhausted("q", 8)))
	}

	waits = append(waits,
		pod("far").Queue("q").Card("NVIDIA-H2000").GPUs(5).
			Unschedulable("0/4 nodes are unavailable: 4 node(s) have another card than <NVIDIA-H2000>."),
		pod("cpu").Queue("q").Unschedulable("0/4 nodes are unavailable: 4 Insufficient cpu."),
		pod("untried").Queue("q").Card("NVIDIA-H200").GPUs(1),
	)

	got := Count(Input{Pods: waits.objects(), Inventory: newInventory(), Nodes: newNodes()})["q"]
	check.That(t, got.BlockedTotal > len(got.Blocked), "%d entries, and all are listed", got.BlockedTotal)
	check.Equal(t, "blocked cards", map[v1alpha1.BlockedReason]card.Count{
		v1alpha1.BlockedQuotaExhausted: 2 * (waiting.MaxBlocked + 3),
		v1alpha1.BlockedUnknownCard:    5,
	}, got.BlockedCards)
	check.That(t, Count(Input{
		Pods:      pods{pod("cpu").Queue("q").Unschedulable("no")}.objects(),
		Inventory: newInventory(),
	})["q"].BlockedCards == nil, "a queue whose only pod requests no cards has blocked cards")
}
