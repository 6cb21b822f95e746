package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// ValidateCardQuota validates a CardQuota. before is nil for a new one. It does not
// validate unchanged fields again, nor a CardQuota that is being deleted.
func ValidateCardQuota(quota, before *v1alpha1.CardQuota, input CardQuotaInput) Result {
	var result Result
	if quota.DeletionTimestamp != nil || (before != nil && equality.Semantic.DeepEqual(quota.Spec, before.Spec)) {
		return result
	}

	// What was accepted once stays accepted. Otherwise an old object could not be changed in
	// other fields.
	if before == nil {
		checkQueueOwner(&result, quota, input.othersThan(quota.Name))
	}
	if before == nil || before.Spec.ServiceType != quota.Spec.ServiceType {
		checkServiceTypeDefined(&result, quota, input.Policy)
	}

	tree := newWrittenTree(quota, quota, input) // with the CardQuota as it is to be
	checkHierarchy(&result, quota, before, tree)
	checkSelector(&result, quota, before, tree)
	if !changesGrants(quota, before) {
		return result
	}

	warnUnknownCards(&result, quota, input.Inventory)
	if quota.Spec.OverAllocation != v1alpha1.OverAllocationAllow { // the totals of all CardQuotas cost most
		checkOverAllocation(&result, quota, before, totalsBeside(quota, tree), input.Inventory)
	}

	return result
}

// warnUnknownCards warns of cards that no node offers now: they may be misspelt, or not named yet.
func warnUnknownCards(result *Result, quota *v1alpha1.CardQuota, inv *card.Inventory) {
	unknown := 0
	for i, entry := range quota.Spec.Cards {
		name := card.Name(entry.Name)
		if !isUnknownCard(name, inv) || (entry.Quota != nil && *entry.Quota == 0) { // 0 cards of any name are none
			continue
		}

		// The API server cuts long lists of warnings, so only the first are named.
		unknown++
		if unknown <= cardquota.MaxUnknownCards {
			result.warn(specPath.Child("cards").Index(i).Child("name"), "no node offers card %s now: %s", name, describeOffer(name, "", inv))
		}
	}

	if more := unknown - cardquota.MaxUnknownCards; more > 0 {
		result.warn(specPath.Child("cards"), "no node offers %d more of these cards now", more)
	}
}

// isUnknownCard reports whether no node offers a card. It is false without an inventory, before the nodes were read.
func isUnknownCard(name card.Name, inv *card.Inventory) bool {
	return inv != nil && len(inv.ResourcesFor(name)) == 0
}

// changesGrants reports whether a CardQuota may grant other cards than before, or has another overAllocation. A new
// parent counts too: in a tree only CardQuotas without one grant cards of the inventory.
func changesGrants(quota, before *v1alpha1.CardQuota) bool {
	return before == nil || before.Spec.OverAllocation != quota.Spec.OverAllocation || before.Spec.Parent != quota.Spec.Parent ||
		!equality.Semantic.DeepEqual(quota.Spec.Cards, before.Spec.Cards)
}

// NeedsAllGrants reports whether a CardQuota is admitted only if what all CardQuotas grant allows it:
// it has overAllocation Deny and grants other cards than before. A cache may lack the latest grants.
func NeedsAllGrants(quota, before *v1alpha1.CardQuota) bool {
	return quota.DeletionTimestamp == nil && quota.Spec.OverAllocation == v1alpha1.OverAllocationDeny && changesGrants(quota, before)
}

// totalsBeside returns what all other CardQuotas grant, and the Queues that no CardQuota owns. In a tree only the top
// level counts, because its quotas contain those below.
func totalsBeside(quota *v1alpha1.CardQuota, tree writtenTree) *cardquota.QuotaTotals {
	queues := tree.GrantingQueues(tree.input.Queues)
	return tree.QuotaTotals(tree.input.othersThan(quota.Name), cardquota.UnownedQuotas(tree.input.All, queues), tree.input.Healthy)
}

// checkSelector refuses a bad namespace selector, and warns of a missing one.
func checkSelector(result *Result, quota, before *v1alpha1.CardQuota, tree writtenTree) {
	at := specPath.Child("namespaceSelector")

	selector := quota.Spec.NamespaceSelector
	switch {
	case selector == nil:
		// In a tree only leaves, which have a service type, have pods. The selectors of their ancestors count for them
		// too.
		if tree.IsFlat() || (quota.Spec.ServiceType != "" && !tree.hasSelectorAbove(quota)) {
			result.warn(at, "is not set: pods of every namespace may use queue %s and its quota; select the namespaces of tenant %s, or write {} if you mean every namespace",
				quota.QueueName(), quota.Spec.Tenant)
		}
	case before == nil || !equality.Semantic.DeepEqual(selector, before.Spec.NamespaceSelector):
		if _, err := workload.NewNamespaceSelector(selector); err != nil {
			result.refuse(at, "%v", err)
		}
	}
}

// WarnCardQuotaDeletion warns of running and pending pods in the queue of a CardQuota that
// is about to be deleted, and of its children. It refuses nothing, so that a directory of
// CardQuotas can be deleted in any order. all are all CardQuotas. In mode Observe a deletion stops nothing.
func WarnCardQuotaDeletion(quota *v1alpha1.CardQuota, all []*v1alpha1.CardQuota, inForce *v1alpha1.ServiceTypePolicy) Result {
	var result Result
	if policy.Mode(inForce) == v1alpha1.ModeObserve {
		return result
	}

	if quota.DeletionTimestamp == nil && IsTree(inForce) {
		warnParentDeletion(&result, quota, all)
	}

	// A second deletion changes nothing, and with Retain the queue keeps its quota.
	if quota.DeletionTimestamp != nil || quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return result
	}

	var used []string
	for _, c := range quota.Status.Cards {
		if c.Used > 0 {
			used = append(used, fmt.Sprintf("%d %s", c.Used, c.Name))
		}
	}

	if len(used) > 0 {
		result.warn(specPath.Child("cards"), "pods in queue %s hold %s and continue to run, but no new pod starts: to keep the queue and its quota, set spec.deletionPolicy to Retain before deleting",
			quota.QueueName(), conditions.JoinFirst(used, maxNames))
	}
	if waiting := quota.Status.BlockedTotal; waiting > 0 {
		result.warn(specPath.Child("cards"), "status.blockedTotal is %d: these workloads wait in queue %s and will not start", waiting, quota.QueueName())
	}

	return result
}

// checkQueueOwner refuses a second CardQuota for a queue. It allows one if the owner is
// being deleted: the new one takes over.
func checkQueueOwner(result *Result, quota *v1alpha1.CardQuota, others []*v1alpha1.CardQuota) {
	others = slices.DeleteFunc(slices.Clone(others), func(c *v1alpha1.CardQuota) bool { return c.QueueName() != quota.QueueName() })
	if owner := cardquota.QueueOwner(slices.DeleteFunc(slices.Clone(others), func(c *v1alpha1.CardQuota) bool { return c.DeletionTimestamp != nil })); owner != nil {
		result.refuse(specPath.Child("queueName"), "queue %s belongs to CardQuota %s of tenant %s: change that one, or give this one another spec.queueName", quota.QueueName(), owner.Name, owner.Spec.Tenant)
		return
	}
	if len(others) > 0 {
		result.warn(specPath.Child("queueName"), "queue %s belongs to CardQuota %s until that is deleted: then this one takes over", quota.QueueName(), others[0].Name)
	}
}

// checkServiceTypeDefined refuses a service type that the spec of the ServiceTypePolicy
// does not define. A defined type may not be in force yet.
func checkServiceTypeDefined(result *Result, quota *v1alpha1.CardQuota, inForce *v1alpha1.ServiceTypePolicy) {
	if inForce == nil || quota.Spec.ServiceType == "" {
		return // without a policy any name is valid, and a parent has no service type
	}
	names := policy.ServiceTypeNames(inForce)
	if !slices.Contains(names, quota.Spec.ServiceType) {
		result.refuse(specPath.Child("serviceType"), "ServiceTypePolicy %s does not define %s: write one of %s, or define it there first",
			inForce.Name, quota.Spec.ServiceType, conditions.JoinFirst(names, maxNames))
	}
}

// checkOverAllocation refuses over-allocation with overAllocation Deny, and warns of it
// with Warn. totals has what all other CardQuotas grant, and the healthy cards. Another warning names the cards that no
// node offers.
func checkOverAllocation(result *Result, quota, before *v1alpha1.CardQuota, totals *cardquota.QuotaTotals, inv *card.Inventory) {
	if denied := totals.Denied(before, quota); len(denied) > 0 {
		result.refuse(specPath.Child("cards"), "spec.overAllocation is Deny: %s: lower the quota here or there, add cards, or set overAllocation to Warn",
			cardquota.DescribeOverAllocation(denied))
		return
	}

	excess := slices.DeleteFunc(totals.OverAllocated(quota), func(o cardquota.OverAllocatedCard) bool { return isUnknownCard(o.Card, inv) })
	if len(excess) > 0 && quota.Spec.OverAllocation == v1alpha1.OverAllocationWarn {
		result.warn(specPath.Child("cards"), "grants more cards than there are: %s: the quota is enforced as written", cardquota.DescribeOverAllocation(excess))
	}
}

// ValidateQueue validates the annotations of a Queue. before is nil for a new one.
func ValidateQueue(queue, before *v1beta1.Queue) Result {
	result := checkQueueAnnotations(queue)
	if before != nil {
		return result.OnlyNew(checkQueueAnnotations(before))
	}
	return result
}

// checkQueueAnnotations returns the errors in the annotations of a Queue for which the
// scheduler would withhold every card, and warns of annotations without an effect.
func checkQueueAnnotations(queue *v1beta1.Queue) Result {
	var result Result
	annotations := field.NewPath("metadata", "annotations")
	invalidIf := func(key string, err error) {
		if err != nil {
			result.invalid(annotations.Key(key), queue.Annotations[key], "%v", err)
		}
	}

	if text, ok := queue.Annotations[v1alpha1.AnnotationCardQuota]; ok {
		_, err := card.ParseQuota(text)
		invalidIf(v1alpha1.AnnotationCardQuota, err)
	}

	if text, ok := queue.Annotations[v1alpha1.AnnotationUnlimitedResources]; ok {
		_, err := workload.ParseUnlimitedResources(text)
		invalidIf(v1alpha1.AnnotationUnlimitedResources, err)
		if _, isManaged := queue.Annotations[v1alpha1.AnnotationCardQuota]; !isManaged {
			result.warn(annotations.Key(v1alpha1.AnnotationUnlimitedResources), "has no effect without %s", v1alpha1.AnnotationCardQuota)
		}
	}

	if text, ok := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]; ok {
		_, err := workload.ParseNamespaceSelector(text)
		invalidIf(v1alpha1.AnnotationNamespaceSelector, err)
	}

	checkTreeAnnotations(&result, queue, annotations, invalidIf)
	if name, ok := queue.Annotations[v1alpha1.AnnotationServiceType]; ok {
		invalidIf(v1alpha1.AnnotationServiceType, servicetype.ValidateName(name))
	}

	// Users mix up these keys with the one for quotas, and the scheduler would ignore them
	// silently.
	for _, key := range []string{v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardRequest} {
		if _, ok := queue.Annotations[key]; ok {
			result.warn(annotations.Key(key), "is read on workloads only: write the quota of a queue in %s", v1alpha1.AnnotationCardQuota)
		}
	}

	warnUnknownAnnotations(&result, annotations, queue.Annotations)
	return result
}
