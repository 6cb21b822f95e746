package cardquota

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// changedInTree returns the queues whose numbers in the tree, or whose subtrees' usage, differ
// from the last count. It costs nothing while queues are flat.
func (u *UsageCollector) changedInTree(tree *cardquota.Tree, subtrees map[string]cardquota.Usage) []string {
	if tree == nil && u.tree == nil {
		return nil
	}
	return append(changedKeys(u.subtrees, subtrees, cardquota.Usage.Equal), tree.ChangedQueues(u.tree)...)
}

// isTree reports whether an object is a ServiceTypePolicy with a tree of queues in force.
func isTree(object client.Object) bool {
	p, ok := object.(*v1alpha1.ServiceTypePolicy)
	return ok && policy.IsTree(p)
}
