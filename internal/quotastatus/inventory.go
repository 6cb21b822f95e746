package quotastatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
)

// satisfied is condition InventorySatisfied. It is false while nothing was
// counted: then the condition stays as it was.
func satisfied(f Facts) (Sync, bool) {
	switch {
	case !f.Sync.owned():
		return Sync{metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "this CardQuota does not have its queue"}, true
	case f.Balance == nil:
		return Sync{}, false
	}
	excesses := f.Balance.OverAllocated(f.Quota)
	if len(excesses) == 0 {
		return Sync{metav1.ConditionTrue, v1alpha1.ReasonInventorySatisfied,
			"all CardQuotas together grant no more of these cards than healthy nodes have"}, true
	}
	sentence := func(end string) string {
		return clip.Text(Clauses(excesses), v1alpha1.MaxMessageLength-len(end)) + end
	}
	switch f.Quota.Spec.OverAllocation {
	case v1alpha1.OverAllocationAllow:
		return Sync{metav1.ConditionTrue, v1alpha1.ReasonOverAllocationAllowed, sentence(": overAllocation allows it")}, true
	case v1alpha1.OverAllocationDeny:
		return Sync{metav1.ConditionFalse, v1alpha1.ReasonOverAllocated,
			sentence(": what was granted stays granted, but overAllocation denies to raise it")}, true
	default:
		return Sync{metav1.ConditionFalse, v1alpha1.ReasonOverAllocated,
			sentence(": the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow")}, true
	}
}
