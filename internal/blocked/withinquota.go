package blocked

import "cardquota.dev/operator/api/v1alpha1"

// IsWithinQuota reports whether a reason is that of a workload for which its queue, and those above
// it, have quota: too few free cards, other pods of its gang or its turn keep it waiting. A card that
// no node has may be one whose nodes are gone: hasQuota is whether the queue has quota for it. Nodes that
// refuse the pod do not count: a tenant could raise the alert by a node selector that no node has.
func IsWithinQuota(reason v1alpha1.BlockedReason, hasQuota bool) bool {
	switch reason {
	case v1alpha1.BlockedUnknownCard:
		return hasQuota
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented,
		v1alpha1.BlockedCardsTerminating, v1alpha1.BlockedGangIncomplete, v1alpha1.BlockedOther:
		return true
	}
	return false
}
