package cardquota

import (
	"fmt"
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestInventorySatisfiedComparesGrantsWithHealthyCards: condition InventorySatisfied compares what all
// CardQuotas grant with the healthy cards. Here team has 8 H200 and b 5, and 13 or 10 are healthy. It is
// False with a warning event if the cards are too few, unless team has overAllocation: Allow. Ready stays
// True, because the quotas are enforced as written. CardQuota b is younger than team, and has overAllocation:
// Deny in each row. The rows say what team has.
func TestInventorySatisfiedComparesGrantsWithHealthyCards(t *testing.T) {
	quotas := []*v1alpha1.CardQuota{
		newTeamQuota(), // 8 NVIDIA-H200, and the 2 NVIDIA-H800 that are healthy in each row
		newQuotaOfH200("b", 5, 0, withDeny, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = "NVIDIA-H200" }),
	}
	const sum = "NVIDIA-H200: 13 granted, 10 healthy, 3 too many (8 here, 5 by b)"
	for t, tc := range check.Cases(t, map[string]struct {
		overAllocation v1alpha1.OverAllocation
		healthy        card.Count
		want           string
	}{
		"13 healthy, Warn": {
			overAllocation: v1alpha1.OverAllocationWarn,
			healthy:        13,
			want:           "True/InventorySatisfied: all CardQuotas together grant no more of these cards than healthy nodes have",
		},
		"13 healthy, Deny": {
			overAllocation: v1alpha1.OverAllocationDeny,
			healthy:        13,
			want:           "True/InventorySatisfied: all CardQuotas together grant no more of these cards than healthy nodes have",
		},
		"10 healthy, Warn": {
			overAllocation: v1alpha1.OverAllocationWarn,
			healthy:        10,
			want: "False/OverAllocated: " + sum + ": the quotas are enforced as written; lower some, add cards, or set " +
				"overAllocation to Allow",
		},
		"10 healthy, overAllocation is not set, which is Warn": {
			healthy: 10,
			want: "False/OverAllocated: " + sum + ": the quotas are enforced as written; lower some, add cards, or set " +
				"overAllocation to Allow",
		},
		"10 healthy, Allow": {
			overAllocation: v1alpha1.OverAllocationAllow,
			healthy:        10,
			want:           "True/OverAllocationAllowed: " + sum + ": overAllocation allows it",
		},
		"10 healthy, Deny": {
			overAllocation: v1alpha1.OverAllocationDeny,
			healthy:        10,
			want: "False/OverAllocated: " + sum + ": existing quotas stay, but overAllocation denies raising them; the " +
				"youngest CardQuota with overAllocation Deny is b (NVIDIA-H200)",
		},
	}) {
		input := newStatusInput(nil, nil)
		input.Quota.Spec.OverAllocation = tc.overAllocation
		input.Totals = Flat.QuotaTotals(quotas, nil, cards{"NVIDIA-H200": tc.healthy, "NVIDIA-H800": 2})
		status := NewStatus(input)
		check.Equal(t, "condition", tc.want, describeCondition(status, "InventorySatisfied"))

		check.Contains(t, "Ready", describeCondition(status, "Ready"), "True/Ready")

		var events []string
		for _, e := range Events(v1alpha1.CardQuotaStatus{}, status) {
			if e.Reason == v1alpha1.ReasonOverAllocated {
				events = append(events, e.Type+" "+e.Message)
			}
		}

		isFalse := strings.HasPrefix(tc.want, "False")
		check.Equal(t, "there is an event", isFalse, len(events) == 1)
		check.That(t, !isFalse || strings.HasPrefix(events[0], "Warning "+sum), "events %q", events)
	}
}

// describeCondition is a condition in one line.
func describeCondition(status v1alpha1.CardQuotaStatus, kind string) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// TestInventorySatisfiedNeedsACount: before the operator first counts all CardQuotas, the condition is missing. If an
// older CardQuota owns the queue, the condition of the younger one is Unknown.
func TestInventorySatisfiedNeedsACount(t *testing.T) {
	input := newStatusInput(nil, nil)
	check.Equal(t, "before the first count", "", describeCondition(NewStatus(input), "InventorySatisfied"))

	input.Sync = QueueConflictCondition("team", "older")
	input.Totals = Flat.QuotaTotals(nil, nil, nil)
	check.Equal(t, "an older CardQuota owns the queue",
		"Unknown/NotCounted: this CardQuota does not own its queue, so its usage is not counted",
		describeCondition(NewStatus(input), "InventorySatisfied"))
}

// TestALongListOfCardsLeavesTheAdvice: 64 cards with long names are over-allocated, because no node has any. They are
// more than fits into the message of a condition. It lists fewer of them, and still ends with what would help.
func TestALongListOfCardsLeavesTheAdvice(t *testing.T) {
	input := newStatusInput(nil, nil)
	input.Quota.Spec.Cards = nil
	for i := range 64 {
		name := fmt.Sprintf("MODEL-%d-%s", i, strings.Repeat("x", 40))
		input.Quota.Spec.Cards = append(input.Quota.Spec.Cards, v1alpha1.Card{Name: name, Quota: ptr(int64(1))})
	}
	input.Totals = Flat.QuotaTotals(nil, nil, nil)

	got := describeCondition(NewStatus(input), "InventorySatisfied")
	check.Contains(t, "condition", got, "MODEL-0-")
	check.That(t, len(got) <= 1100, "the condition has %d bytes", len(got)) // the message has at most 1024 of these
	check.That(t, strings.HasSuffix(got, "set overAllocation to Allow"), "the condition ends with %q", got[max(0, len(got)-60):])
}
