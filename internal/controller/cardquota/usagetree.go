package cardquota

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/workload"
)

// FreshTree returns the tree of all CardQuotas by the last count, and whether no CardQuota and no policy changed
// since.
func (u *UsageCollector) FreshTree() (tree *cardquota.Tree, isFresh bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.tree, u.treeChanges == u.specChanges.Load()
}

// compareWithInventory compares what CardQuotas and other Queues grant with the healthy cards.
func (u *UsageCollector) compareWithInventory(tree *cardquota.Tree, granted []*v1alpha1.CardQuota, queues []*v1beta1.Queue) *cardquota.QuotaTotals {
	unowned := cardquota.UnownedQuotas(granted, tree.GrantingQueues(queues))
	u.metrics.setUnowned(unowned)
	return tree.QuotaTotals(granted, unowned, u.inventory.Healthy())
}

// changedSubtrees returns the queues whose numbers in the tree, or whose subtrees' usage, differ
// from the last count. It costs nothing while queues are flat.
func (u *UsageCollector) changedSubtrees(tree *cardquota.Tree, subtrees map[string]queueusage.Usage) []string {
	if tree.IsFlat() && u.tree.IsFlat() {
		return nil
	}
	return append(changedKeys(u.subtrees, subtrees, queueusage.Usage.Equal), tree.ChangedQueues(u.tree)...)
}

// changedInTree reports whether a Queue changed that is below another one. Its numbers count
// there also if no CardQuota owns it.
func changedInTree(before, after client.Object) bool {
	was, ok := before.(*v1beta1.Queue)
	is, isQueue := after.(*v1beta1.Queue)
	if !ok || !isQueue {
		return false
	}
	return (isBelowRoot(was) || isBelowRoot(is)) &&
		treeQueueChanged.Update(event.TypedUpdateEvent[*v1beta1.Queue]{ObjectOld: was, ObjectNew: is})
}

// policyInForce returns what is in force of the stored policy, nil if no policy has taken effect.
func (u *UsageCollector) policyInForce(policies toolscache.Store) *v1alpha1.ServiceTypePolicy {
	var stored *v1alpha1.ServiceTypePolicy
	for _, p := range storedObjects[v1alpha1.ServiceTypePolicy](policies) {
		if p.Name == v1alpha1.PolicyName {
			stored = p
		}
	}
	return u.inventory.PolicyInForce(stored)
}

// changesForce reports whether a ServiceTypePolicy took effect between two versions, or the hierarchy in
// force changed.
func changesForce(before, after client.Object) bool {
	was, ok := before.(*v1alpha1.ServiceTypePolicy)
	is, isPolicy := after.(*v1alpha1.ServiceTypePolicy)
	return ok && isPolicy && (policy.IsTree(was) != policy.IsTree(is) || policy.HasTakenEffect(was) != policy.HasTakenEffect(is))
}

// localQueues returns the queues that tenants see in their namespaces, and those below them.
func localQueues(owners map[string]*v1alpha1.CardQuota, tree *cardquota.Tree) map[string]bool {
	queues := map[string]bool{}
	for queue, owner := range owners {
		// A queue that is there already was added with all queues below it.
		if !queues[queue] && workload.ExplicitSelector(owner.Spec.NamespaceSelector) != nil {
			for _, below := range tree.Queues().Below(queue) {
				queues[below] = true
			}
		}
	}
	return queues
}
