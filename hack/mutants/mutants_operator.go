package main

// operatorMutants are wrong rules of what the operator counts and writes.
var operatorMutants = []mutant{
	{"internal/queueusage/usage.go", "case workload.IsPending(pod) && isAllowed && c.allowsAbove(queue, pod.Namespace):", "case workload.IsPending(pod):", "pods of other namespaces are not pending in a queue"},
	{"internal/queueusage/usage.go", "if !isAllowed || !c.allowsAbove(queue, group.Namespace) {", "if !isAllowed {", "a queue above keeps work out of the status, too"},
	{"internal/queueusage/usage.go", `workload.IsAssigned(pod)`, `workload.MayBeRunning(pod)`, "only pods that count are charged"},
	{"internal/waiting/entries.go", "v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented,", "v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedNodesUnsuitable,", "a node selector does not raise the alert of starving"},
	{"internal/cardquota/overallocation.go", "before.Before(&created) || (", "created.Before(&before) || (", "the youngest CardQuota that denies is named"},
	{"internal/cardquota/treeresources.go", "leftOut[i] = leftOut[i] || b.least[i] > b.most[i]", "leftOut[i] = leftOut[i] && b.least[i] > b.most[i]", "a guarantee that fits neither parent nor children is left out"},
	{"internal/cardquota/overallocation.go", "turned = turned || was != is", "turned = turned || !hasSameCards || was != is", "a node refreshes no numbers of over-allocated cards at once"},
	{"internal/controller/cardquota/usagecount.go", "time.Duration(queues)*time.Second/totalsRefreshRate", "0", "many CardQuotas refresh numbers of over-allocated cards more rarely"},
	{"internal/cardquota/status.go", "if at >= 0 && entry.Physical > 0 && before.Cards[at].Physical > 0 {", "if at >= 0 && before.Cards[at].Physical > 0 {", "a card that no node has any more shows at once"},
}

// hierarchyMutants are wrong rules of what a policy without queueHierarchy means.
var hierarchyMutants = []mutant{
	{"internal/policy/effective.go", "cmp.Or(inForce.Spec.QueueHierarchy, inForce.Status.QueueHierarchy, v1alpha1.QueueHierarchyFlat)", "cmp.Or(inForce.Spec.QueueHierarchy, v1alpha1.QueueHierarchyFlat)", "an unset queueHierarchy keeps the tree"},
	{"internal/policy/effective.go", "cmp.Or(inForce.Spec.QueueHierarchy, inForce.Status.QueueHierarchy, v1alpha1.QueueHierarchyFlat)", "cmp.Or(inForce.Status.QueueHierarchy, inForce.Spec.QueueHierarchy, v1alpha1.QueueHierarchyFlat)", "a written Flat ends the tree"},
}

// disclosureMutants are wrong rules of what the webhooks disclose, and of what no owner reference lifts.
var disclosureMutants = []mutant{
	{"internal/validation/queueaccess.go", "\t\tif p.hasAccess() {", "\t\tif p.queue != nil {", "the quota of a queue is not disclosed to other namespaces"},
	{"internal/validation/queuetree.go", "if !p.hasAccess() || p.name", "if p.queue == nil || p.name", "the place of a queue in the tree is not disclosed to other namespaces"},
	{"internal/validation/workloadrules.go", "	if load.Truncated {", "	if load.Truncated && metav1.GetControllerOf(&load.Meta) == nil {", "no owner reference lifts the bound of tasks"},
}

// completeInputMutants write a status of the CardInventory too early.
var completeInputMutants = []mutant{
	{"internal/controller/cardinventory/controller.go", `areNodesRead && areDevicesRead && input`, `(areNodesRead || areDevicesRead) && input`, "no status is written before the devices are read"},
	{"internal/controller/cardinventory/controller.go", ` && input.Count != nil
`, `
`, "no status is written before the pods are counted"},
}

// statusWriterMutants write a status, or report one, wrongly.
var statusWriterMutants = []mutant{
	{"internal/controller/statuswriter.go", `client.FieldOwner(v1alpha1.FieldManager)`, `client.FieldOwner(v1alpha1.PolicyName)`, "the operator's field manager owns statuses"},
	{"internal/controller/statuswriter.go", `	case apierrors.IsNotFound(err):
		return false, 0, nil
`, `	case apierrors.IsNotFound(err):
`, "a status of a gone object is not recorded"},
	{"internal/controller/statuswriter.go", `max(w.Delay, StaleRetry)`, `StaleRetry`, "a late cache does not shorten the delay"},
	{"internal/controller/statuswriter.go", `	case w.Throttle.CacheIsStale(key, w.Object.GetResourceVersion()):`, `	case false:`, "an outdated status is not compared"},
}

// simulatedClaimMutants name the wrong pods whose ResourceClaims whatif does not check.
var simulatedClaimMutants = []mutant{
	{"internal/scheduler/simulator/simulator.go", `return plugin.Arguments[schedulerconfig.ArgumentUnmanagedQueues] != string(v1alpha1.UnmanagedIgnore)`, `return plugin.Arguments[schedulerconfig.ArgumentUnmanagedQueues] != string(v1alpha1.UnmanagedEnforce)`, "the scheduler refuses no claim with unmanagedQueues: Ignore"},
	{"internal/scheduler/simulator/outcome.go", `pod != nil && len(pod.Spec.ResourceClaims) > 0`, `pod != nil`, "only pods with claims are named"},
}

// claimMutants are wrong rules of ResourceClaims.
var claimMutants = []mutant{
	{"internal/deviceclaim/drivers.go", "found = found.intersect(driversAllowedBy(arg))", "found = found.unite(driversAllowedBy(arg))", "a condition beside device.driver does not lift it"},
	{"internal/deviceclaim/drivers.go", "found := drivers{}\n\t\tfor", "found := anyDriver\n\t\tfor", "one of two drivers is none but these"},
	{"internal/deviceclaim/claim.go", "unmanaged == v1alpha1.UnmanagedIgnore {", "unmanaged != v1alpha1.UnmanagedEnforce {", "claims for cards are denied with Deny"},
	{"internal/deviceclaim/claim.go", "for _, alternative := range request.FirstAvailable {", "for _, alternative := range request.FirstAvailable[:min(1, len(request.FirstAvailable))] {", "every alternative of a request counts"},
	{"internal/deviceclaim/claim.go", "if !allowed.isAny {", "if true {", "a class of any driver may give cards"},
}

// cardNameMutants are wrong rules of the warnings of card names.
var cardNameMutants = []mutant{
	{"internal/validation/cardnames.go", `if now == "" {`, `if now == before {`, "a card without a name is lost, not renamed"},
	{"internal/validation/cardnames.go", "if !isMapped && slices.Contains(removed, resource) {", "if !isMapped || slices.Contains(removed, resource) {", "an entry that replaces the label of another resource warns"},
	{"internal/validation/cardnames.go", "return m.Resource == resource && len(m.NodeSelector) == 0 }", "return m.Resource != resource && len(m.NodeSelector) == 0 }", "only an entry of the resource is for all nodes"},
}
