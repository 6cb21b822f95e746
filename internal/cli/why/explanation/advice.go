package explanation

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
)

// reasonTexts say what a reason means.
var reasonTexts = map[v1alpha1.BlockedReason]string{
	v1alpha1.BlockedQuotaExhausted:         "the quota of the queue is in use",
	v1alpha1.BlockedNoQuota:                "the queue has no quota of this card",
	v1alpha1.BlockedAncestorQuotaExhausted: "the quota of a queue above it is in use",
	v1alpha1.BlockedGuaranteedToOthers:     "what is left is guaranteed to other queues",
	v1alpha1.BlockedNotReclaimable:         "the queue would borrow for pods from which no other queue could take back",
	v1alpha1.BlockedRecentlyReclaimed:      "another queue has just taken back what this one would borrow again",
	v1alpha1.BlockedCPUQuotaExhausted:      "the queue, or one above it, has too little CPU left",
	v1alpha1.BlockedMemoryQuotaExhausted:   "the queue, or one above it, has too little memory left",
	v1alpha1.BlockedCardsTerminating:       "pods that are being deleted still hold the cards",
	v1alpha1.BlockedNoFreeCard:             "the queue has quota, but too few cards are free",
	v1alpha1.BlockedFragmented:             "enough cards are free, but not on one node",
	v1alpha1.BlockedNodesUnsuitable:        "the nodes with enough free cards refuse the pod for another reason",
	v1alpha1.BlockedUnknownCard:            "no node has this card",
	v1alpha1.BlockedWrongCombination:       "the cards and resources of the request do not belong together",
	v1alpha1.BlockedInvalidRequest:         "the request cannot be read, or is more than any queue can have",
	v1alpha1.BlockedUnmanagedClaim:         "a ResourceClaim hands out cards, which no quota limits",
	v1alpha1.BlockedQueueStopped:           "the queue takes no new work",
	v1alpha1.BlockedQueueNotFound:          "the queue does not exist",
	v1alpha1.BlockedNamespaceNotAllowed:    "the queue, or one above it, is not for this namespace",
	v1alpha1.BlockedGangIncomplete:         "its pods fit, but others of its gang do not, or do not exist yet",
	v1alpha1.BlockedPodGroupNotFound:       "the PodGroup that the pod names does not exist",
	v1alpha1.BlockedSchedulerNotReady:      "the scheduler has just started, or its arguments are invalid",
	v1alpha1.BlockedOther:                  "the scheduler's message says more",
}

// constantAdvice is what helps whatever the numbers are.
var constantAdvice = map[v1alpha1.BlockedReason][]string{
	v1alpha1.BlockedGuaranteedToOthers:   {"Wait until the guarantee is used or lowered, or ask for a guarantee of the queue itself."},
	v1alpha1.BlockedNotReclaimable:       {"Leave out volcano.sh/preemptable: \"false\", or use no more than the queue deserves: other queues must be able to take borrowed cards back."},
	v1alpha1.BlockedRecentlyReclaimed:    {"Wait: the queue may borrow again when its sibling does not need the cards."},
	v1alpha1.BlockedCPUQuotaExhausted:    {"Raise spec.resources.cpu of the CardQuota, or request less CPU."},
	v1alpha1.BlockedMemoryQuotaExhausted: {"Raise spec.resources.memory of the CardQuota, or request less memory."},
	v1alpha1.BlockedCardsTerminating:     {"Wait until these pods have ended. A shorter terminationGracePeriodSeconds helps the next time."},
	v1alpha1.BlockedNoFreeCard:           {"Wait until a workload that holds the cards ends, or add nodes with the card."},
	v1alpha1.BlockedFragmented:           {"Request fewer cards for each pod, or free one node: kubectl cardquota inventory --nodes shows what is free where."},
	v1alpha1.BlockedNodesUnsuitable:      {"The scheduler's message counts the nodes by reason: taints, affinity, CPU, memory, cordoned. Change the pod, or the nodes."},
	v1alpha1.BlockedWrongCombination:     {"Name cards of one resource in volcano.sh/card.name, and request that resource."},
	v1alpha1.BlockedInvalidRequest:       {"Correct the annotation or the request that the scheduler's message names."},
	v1alpha1.BlockedUnmanagedClaim:       {"Request the cards as resources of a device plugin, or ask the administrator to allow such claims: unmanagedQueues: Ignore in the ServiceTypePolicy."},
	v1alpha1.BlockedQueueStopped:         {"Ask the administrator of the queue why it is stopped."},
	v1alpha1.BlockedQueueNotFound:        {"Name a queue that exists in scheduling.volcano.sh/queue-name, or in spec.queue of a Volcano job."},
	v1alpha1.BlockedNamespaceNotAllowed:  {"Name a queue that is for this namespace, or ask for the labels that the queue selects."},
	v1alpha1.BlockedGangIncomplete:       {"See why the other pods of the gang wait: the events of its PodGroup name them."},
	v1alpha1.BlockedSchedulerNotReady:    {"Ask again in a minute. If this stays, kubectl cardquota doctor says what is wrong."},
	v1alpha1.BlockedOther:                {"Read the scheduler's message, and ask again in a few seconds."},
}

// limitedResources are what a queue has too little of beside cards.
var limitedResources = map[v1alpha1.BlockedReason]string{v1alpha1.BlockedCPUQuotaExhausted: "CPU", v1alpha1.BlockedMemoryQuotaExhausted: "memory"}

// adviser says what would help a workload that waits.
type adviser struct{ *Input }

// adviseEntry returns what would help a workload that waits for this reason. Where its quota is being deleted,
// neither more quota nor the end of others helps.
func (a adviser) adviseEntry(entry v1alpha1.BlockedStatus) []string {
	if deleted := a.deletedQuota(); deleted != nil && isQuotaReason(entry.Reason) {
		return a.adviseDeletedQuota(deleted)
	}

	// The owner of a Deployment can end its old pods alone, so that comes first.
	advice := a.adviseRollout(entry.Reason)
	holders := a.visibleHolders(entry)
	switch entry.Reason {
	case v1alpha1.BlockedQuotaExhausted, v1alpha1.BlockedNoQuota, v1alpha1.BlockedAncestorQuotaExhausted:
		advice = append(append(advice, a.adviseQuota(entry)...), a.adviseHolders(holders)...)
	case v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented:
		advice = append(append(append(advice, a.adviseMinimumRuntime(holders)...), a.adviseHolders(holders)...), a.adviseObstacles()...)
	case v1alpha1.BlockedNodesUnsuitable:
		advice = append(advice, a.adviseObstacles()...)
	case v1alpha1.BlockedUnknownCard:
		advice = append(advice, a.adviseUnknownCard()...)
	case v1alpha1.BlockedPodGroupNotFound:
		advice = append(advice, a.adviseOrphans()...)
	}

	advice = append(advice, a.constantAdvice(entry.Reason)...)
	switch entry.Reason { // another card helps only where cards or their quota are lacking
	case v1alpha1.BlockedQuotaExhausted, v1alpha1.BlockedNoQuota, v1alpha1.BlockedAncestorQuotaExhausted,
		v1alpha1.BlockedNoFreeCard, v1alpha1.BlockedFragmented, v1alpha1.BlockedCardsTerminating:
		advice = append(advice, a.adviseAlternatives()...)
	}

	return advice
}

// constantAdvice returns what helps whatever the numbers are, as far as the user may do it. A Queue without
// a CardQuota has to be changed itself.
func (a adviser) constantAdvice(reason v1alpha1.BlockedReason) []string {
	if resource := limitedResources[reason]; resource != "" && !a.ChangesQuotas {
		return []string{fmt.Sprintf("Request less %s, or ask the administrator for more %s of queue %s.", resource, resource, a.Queue)}
	}

	switch {
	case reason == v1alpha1.BlockedGangIncomplete && a.Gang.lacksPods():
		return a.adviseGang()
	case reason == v1alpha1.BlockedGangIncomplete && a.PodGroup != "":
		return []string{fmt.Sprintf("See why the other pods of the gang wait: kubectl -n %s describe podgroup.scheduling.volcano.sh %s.", a.Workload.Namespace, a.PodGroup)}
	case reason == v1alpha1.BlockedFragmented && a.Nodes == nil:
		return []string{"Request fewer cards for each pod, or ask the administrator to free one node."}
	case reason == v1alpha1.BlockedQueueStopped && a.seesCardQuota():
		return []string{fmt.Sprintf("Ask the administrator of the queue why it is stopped: kubectl describe cardq %s says so too.", a.Path[0].Name)}
	case a.lacksCardQuota():
		return a.adviseQueue(reason)
	}
	return constantAdvice[reason]
}

// seesCardQuota reports whether the user may read the CardQuota itself, and not only its
// LocalCardQuota, which has a namespace.
func (a adviser) seesCardQuota() bool { return len(a.Path) > 0 && a.Path[0].Namespace == "" }

// lacksCardQuota reports whether the user may see that no CardQuota owns the queue.
func (a adviser) lacksCardQuota() bool { return len(a.Path) == 0 && a.HasQueue != nil }

// adviseQueue returns what helps in a Queue without a CardQuota.
func (a adviser) adviseQueue(reason v1alpha1.BlockedReason) []string {
	switch reason {
	case v1alpha1.BlockedCPUQuotaExhausted:
		return []string{fmt.Sprintf("Raise spec.capability.cpu of Queue %s or of the Queue above it that refuses, or request less CPU.", a.Queue)}
	case v1alpha1.BlockedMemoryQuotaExhausted:
		return []string{fmt.Sprintf("Raise spec.capability.memory of Queue %s or of the Queue above it that refuses, or request less memory.", a.Queue)}
	case v1alpha1.BlockedQueueStopped:
		return []string{fmt.Sprintf("Ask the administrator of the queue why it is stopped: kubectl describe queue.scheduling.volcano.sh %s.", a.Queue)}
	}
	return constantAdvice[reason]
}

// adviseBeyondQuota says that the workload would not start with more quota either, because too few cards are
// free, or not on one node. It says nothing where that is unknown.
func (a adviser) adviseBeyondQuota(name card.Name) []string {
	least, most := a.freeCards(name)
	switch {
	case a.Inventory == nil && a.Nodes == nil:
		return nil
	case most < a.Request.nodesCount():
		return []string{fmt.Sprintf("More quota alone does not help now: %d requested, %s %s free.", a.Request.nodesCount(), describeRange(least, most), name)}
	case a.Nodes != nil && !a.Request.IsJob && !a.hasNodeFor(name):
		return []string{fmt.Sprintf("More quota alone does not help now: no node has %d %s free for one pod.", a.Request.Count, name)}
	}
	return nil
}

// adviseHolders names the first other workload that uses enough cards, so that its end would help.
func (a adviser) adviseHolders(holders []v1alpha1.CardHolder) []string {
	if a.exceedsWholeQuota() { // so no end of others helps
		return nil
	}
	for _, holder := range holders {
		if holder.Workload != a.Workload && holder.Workload.Name != "" && holder.Count >= int64(a.Request.Count) {
			return []string{fmt.Sprintf("When %s %s, %d %s are free again.", output.DescribeWorkload(holder.Workload), describeEnd(holder.Workload), holder.Count, holder.Card)}
		}
	}
	return nil
}

// adviseAlternatives names other cards that the queue has quota for and that are free now. They must
// be of the same resource, because one request cannot mean two.
func (a adviser) adviseAlternatives() []string {
	if len(a.Path) == 0 || a.Inventory == nil || len(a.Request.Names) == 0 {
		return nil
	}

	// Only the least number of free cards is certain for a user who may not read nodes.
	var advice []string
	for _, status := range a.Path[0].Status.Cards {
		name := card.Name(status.Name)
		least, _ := a.freeCards(name)
		if slices.Contains(a.Request.Names, name) || least < int64(a.Request.Count) || !a.canRunOn(name) {
			continue
		}

		named := append(append([]card.Name{}, a.Request.Names...), name)
		advice = append(advice, fmt.Sprintf("%s has %d free, and the queue has quota for %d: add it as an alternative, volcano.sh/card.name: %s.",
			name, least, status.Free, card.Join(named, "|")))
	}

	return advice
}

// canRunOn reports whether nodes and quotas would take the pod if its request named another card.
func (a adviser) canRunOn(name card.Name) bool {
	return a.takesPod(name) && a.sameResource(name) && a.fitsPath(name)
}

// unit returns what gets the cards of the request at once.
func (r Request) unit() string {
	if r.IsJob {
		return "the job"
	}
	return "the next pod"
}

// quotaUnit returns what gets the quota of the request at once.
func (r Request) quotaUnit() string {
	if r.GangCount > r.Count {
		return "the whole gang"
	}
	return r.unit()
}

// fitsPath reports whether the quotas of the queue and of those above it have room for the request on another
// card.
func (a adviser) fitsPath(name card.Name) bool {
	return !slices.ContainsFunc(a.Path, func(quota *v1alpha1.CardQuota) bool {
		return cardStatus(quota, name).Free < a.Request.quotaCount()
	})
}

// sameResource reports whether another card has the resource of the first one that the request names. The
// container requests that resource, whichever card it gets.
func (in *Input) sameResource(name card.Name) bool {
	own, ok := in.inventoryCard(in.Request.Names[0])
	other, known := in.inventoryCard(name)
	return ok && known && strings.Join(own.Resources, ",") == strings.Join(other.Resources, ",")
}
