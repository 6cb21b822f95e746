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
	last := u.last.Load()
	return last.tree, last.specChanges == u.specChanges.Load()
}

// compareWithInventory compares what CardQuotas and other Queues grant with the healthy cards. It also sets the metric
// of the Queues that grant cards without a CardQuota.
func (u *UsageCollector) compareWithInventory(read *countedObjects) *cardquota.QuotaTotals {
	unowned := cardquota.UnownedQuotas(read.cardQuotas, read.tree.GrantingQueues(read.queues))
	u.metrics.setUnowned(unowned)
	return read.tree.QuotaTotals(read.cardQuotas, unowned, u.inventory.Healthy())
}

// changedSubtrees returns the queues whose numbers in the tree, or whose subtrees' usage, differ between two counts,
// none while queues are flat.
func changedSubtrees(last, count *usageCount) []string {
	if count.tree.IsFlat() && last.tree.IsFlat() { // a subtree is the queue alone
		return nil
	}
	return append(changedKeys(last.subtrees, count.subtrees, queueusage.Usage.Equal), count.tree.ChangedQueues(last.tree)...)
}

// changedInTree reports whether two versions of a Queue that is or was below another one differ in what counts in a
// tree. A Queue counts there also if no CardQuota owns it.
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

// changesPolicyInForce reports whether a ServiceTypePolicy took effect between two versions, or changed between flat
// queues and a tree. Its status says both, so its generation may be the same.
func changesPolicyInForce(before, after client.Object) bool {
	was, ok := before.(*v1alpha1.ServiceTypePolicy)
	is, isPolicy := after.(*v1alpha1.ServiceTypePolicy)
	if !ok || !isPolicy {
		return false
	}
	takesEffect := policy.HasTakenEffect(was) != policy.HasTakenEffect(is)
	return takesEffect || policy.IsTree(was) != policy.IsTree(is) || !policy.SameMode(was, is)
}

// localQueues returns the queues that tenants see as LocalCardQuotas in their namespaces, and those below them.
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
