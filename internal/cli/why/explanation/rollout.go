package explanation

import (
	"fmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// Rollout is a Deployment whose new pods wait while old ones run.
type Rollout struct {
	// OldPods are the pods of earlier revisions that have a node and use the same queue. CardPods of them
	// use cards on which the new pod may run, OldCards in all.
	OldPods, CardPods int
	OldCards          int64
	// MaxSurge and MaxUnavailable are those of its strategy, as numbers of pods. IsKnown reports whether
	// the Deployment could be read.
	MaxSurge, MaxUnavailable int
	IsKnown                  bool
}

// awaitsOldPods reports whether the rollout waits for what its own old pods use, and ends none of them
// first, as far as that is known: with a maxUnavailable above 0 it does end some.
func (in *Input) awaitsOldPods(reason v1alpha1.BlockedReason) bool {
	rollout := in.Rollout
	if rollout == nil || rollout.OldPods == 0 || (rollout.IsKnown && rollout.MaxUnavailable > 0) {
		return false
	}

	switch reason {
	case v1alpha1.BlockedQuotaExhausted, v1alpha1.BlockedAncestorQuotaExhausted:
		return rollout.OldCards > 0 && !in.exceedsWholeQuota()
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented:
		return rollout.OldCards > 0
	case v1alpha1.BlockedCPUQuotaExhausted, v1alpha1.BlockedMemoryQuotaExhausted:
		return true // every pod uses some of it
	}

	return false
}

// exceedsWholeQuota reports whether the quota would not be enough if all of it were free.
func (in *Input) exceedsWholeQuota() bool {
	requested, found := in.exhaustedAmounts()
	return found.isKnown && requested > found.largest
}

// adviseRollout says how a rollout goes on that waits for its own old pods: one of them has to end first. Where
// cards are lacking, it counts only the old pods that use such cards.
func (a adviser) adviseRollout(reason v1alpha1.BlockedReason) []string {
	if !a.awaitsOldPods(reason) {
		return nil
	}

	oldPods := conditions.CountThings(a.Rollout.OldPods, "pod")
	if isCardReason := limitedResources[reason] == ""; isCardReason {
		oldPods = fmt.Sprintf("%s with %d cards", conditions.CountThings(a.Rollout.CardPods, "pod"), a.Rollout.OldCards)
	}

	condition := "It ends no old pod before a new one runs"
	if !a.Rollout.IsKnown {
		condition = "If its maxUnavailable is 0, it ends no old pod before a new one runs"
	}

	return []string{fmt.Sprintf("Deployment %s has %s of its earlier revision. %s: let it end one first. kubectl -n %s patch deployment %s -p '%s'",
		a.Workload.Name, oldPods, condition, a.Workload.Namespace, a.Workload.Name, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)}
}
