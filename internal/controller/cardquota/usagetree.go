package cardquota

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/policy"
)

// FreshTree returns the tree of all CardQuotas, nil if a CardQuota or the policy changed since
// the last count, or while queues are flat.
func (u *UsageCollector) FreshTree() *cardquota.Tree {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.treeChanges != u.specChanges.Load() {
		return nil
	}
	return u.tree
}

// compareWithInventory compares what CardQuotas and other Queues grant with the healthy cards.
func (u *UsageCollector) compareWithInventory(tree *cardquota.Tree, granted []*v1alpha1.CardQuota, queues []*v1beta1.Queue) *cardquota.QuotaTotals {
	compare := cardquota.NewQuotaTotals
	if tree != nil {
		compare, queues = cardquota.NewTreeTotals, cardquota.TopLevelQueues(queues)
	}
	unowned := cardquota.UnownedQuotas(granted, queues)
	u.updateUnownedMetric(unowned)
	return compare(granted, unowned, u.inventory.Healthy())
}

// changedSubtrees returns the queues whose numbers in the tree, or whose subtrees' usage, differ
// from the last count. It costs nothing while queues are flat.
func (u *UsageCollector) changedSubtrees(tree *cardquota.Tree, subtrees map[string]cardquota.Usage) []string {
	if tree == nil && u.tree == nil {
		return nil
	}
	return append(changedKeys(u.subtrees, subtrees, cardquota.Usage.Equal), tree.ChangedQueues(u.tree)...)
}

// treeOfAll returns the tree of all CardQuotas, nil while queues are flat.
func treeOfAll(policies []*v1alpha1.ServiceTypePolicy, quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue) *cardquota.Tree {
	for _, p := range policies {
		if policy.IsTree(p) {
			return cardquota.NewTree(quotas, queues, unmanagedQueues(p))
		}
	}
	return nil
}

// unmanagedQueues returns what Queues without card.quota may use.
func unmanagedQueues(p *v1alpha1.ServiceTypePolicy) v1alpha1.UnmanagedQueues {
	if p == nil {
		return v1alpha1.UnmanagedEnforce
	}
	return cmp.Or(p.Spec.UnmanagedQueues, v1alpha1.UnmanagedEnforce)
}

// changedInTree reports whether a Queue changed that is below another one. Its numbers count
// there also if no CardQuota owns it.
func changedInTree(before, after client.Object) bool {
	was, ok := before.(*v1beta1.Queue)
	is, isQueue := after.(*v1beta1.Queue)
	return ok && isQueue && (isBelowRoot(was) || isBelowRoot(is)) &&
		treeQueueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: was, ObjectNew: is})
}

// isTree reports whether an object is a ServiceTypePolicy with a tree of queues in force.
func isTree(object client.Object) bool {
	p, ok := object.(*v1alpha1.ServiceTypePolicy)
	return ok && policy.IsTree(p)
}
