package top

import (
	"math"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// SetAvailable sets how many more cards pods of each CardQuota can get now. quotas are all CardQuotas that
// the user may read, also those that the list leaves out, because they limit those below them. idle are the
// cards that no pod uses on nodes that take pods, by name, nil if they are not known.
func (l *List) SetAvailable(quotas []*v1alpha1.CardQuota, idle map[string]int64) {
	tree := treeOf(quotas)
	for i := range l.Items {
		usage := &l.Items[i]
		isLeaf := tree.Quota(usage.Name) != nil && len(tree.Children(usage.Name)) == 0
		isClosed := usage.isClosed || (isLeaf && usage.ServiceType == "") // without a type no job starts in it, and nothing is below it

		for n := range usage.Cards {
			card := &usage.Cards[n]
			card.Available = card.Free
			if isClosed {
				card.Available = 0
			}

			for _, above := range tree.Ancestors(usage.Name) {
				card.Available = min(card.Available, freeIn(above, card.Name))
			}

			if idle != nil {
				card.Available = min(card.Available, idle[card.Name])
			}
		}
	}
}

// freeIn returns how many cards of a name a CardQuota has free for new pods.
func freeIn(quota *v1alpha1.CardQuota, name string) int64 {
	switch {
	case takesNoPods(quota):
		return 0
	case quota.Status.Summary == "": // not counted yet, so what it has free is unknown and limits nothing
		return math.MaxInt64
	}

	for _, card := range quota.Status.Cards {
		if card.Name == name {
			return card.Free
		}
	}
	return 0 // it has no quota of the card
}

// takesNoPods reports whether the queue of a CardQuota is held, drained or not open, or its path does not lead
// to the top level of the tree, so that nothing new starts in it.
func takesNoPods(quota *v1alpha1.CardQuota) bool {
	ready := conditions.Get(quota.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Reason == v1alpha1.ReasonHeld || ready.Reason == v1alpha1.ReasonQueueNotOpen {
		return true
	}

	// Volcano keeps such a queue Open, so its state alone does not say it.
	placed := conditions.Get(quota.Status.Conditions, v1alpha1.ConditionHierarchyValid)
	switch placed.Reason {
	case v1alpha1.ReasonParentNotFound, v1alpha1.ReasonParentCycle, v1alpha1.ReasonTooDeep:
		return true
	}

	queue := quota.Status.Queue
	return queue != nil && queue.State != "" && queue.State != string(v1beta1.QueueStateOpen)
}
