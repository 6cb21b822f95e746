package doctor

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestDoctorCountsTheInventoryAsTheOperatorDoes: a user may lack the right to read the CardInventory, and then doctor
// counts it. There are 8 H200, parent above with a quota of 8, and its child team with a quota of 8. In a tree the quota
// of above contains that of team. While queues are flat, both grant cards, 8 too many.
func TestDoctorCountsTheInventoryAsTheOperatorDoes(t *testing.T) {
	tracker := &card.Tracker{}
	tracker.Update(builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj())

	for t, tc := range check.Cases(t, map[string]struct {
		hierarchy                      v1alpha1.QueueHierarchy
		wantQuota, wantOverAllocatedBy int64
	}{
		"a tree":      {v1alpha1.QueueHierarchyTree, 8, 0},
		"flat queues": {v1alpha1.QueueHierarchyFlat, 16, 8},
	}) {
		c := &Cluster{
			Policy: builder.ServiceTypePolicy().Hierarchy(tc.hierarchy).Obj(),
			Quotas: []*v1alpha1.CardQuota{inTree("above", "", "training"), inTree("team", "above", "training")},
			Cards:  tracker.Inventory(),
		}

		got := newInventoryStatus(c, tracker, nil).Cards[0]
		check.Equal(t, "quota", tc.wantQuota, got.Quota)
		check.Equal(t, "over-allocated by", tc.wantOverAllocatedBy, got.OverAllocatedBy)
	}
}
