package observer

import "cardquota.dev/operator/api/v1alpha1"

// blockedReasons are all reasons of status.blocked. TestBlockedReasonsAreThoseOfTheAPI compares them.
var blockedReasons = []v1alpha1.BlockedReason{
	v1alpha1.BlockedQuotaExhausted, v1alpha1.BlockedNoQuota, v1alpha1.BlockedAncestorQuotaExhausted, v1alpha1.BlockedGuaranteedToOthers,
	v1alpha1.BlockedNotReclaimable, v1alpha1.BlockedRecentlyReclaimed, v1alpha1.BlockedCPUQuotaExhausted, v1alpha1.BlockedMemoryQuotaExhausted,
	v1alpha1.BlockedCardsTerminating, v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable,
	v1alpha1.BlockedUnknownCard, v1alpha1.BlockedWrongCombination, v1alpha1.BlockedInvalidRequest, v1alpha1.BlockedUnmanagedClaim,
	v1alpha1.BlockedQueueStopped, v1alpha1.BlockedQueueNotFound, v1alpha1.BlockedNamespaceNotAllowed, v1alpha1.BlockedPodGroupNotFound,
	v1alpha1.BlockedGangIncomplete, v1alpha1.BlockedSchedulerNotReady, v1alpha1.BlockedOther,
}
