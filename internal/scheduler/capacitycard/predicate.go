package capacitycard

import (
	"cmp"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// predicate checks a pod on a node, and makes quota exact: the pod must allow the node's card,
// and the quota of that card must have room.
func (c *nodeChoice) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	r, refused, known := c.checkedInput(task)
	switch {
	case !known:
		return c.fitError(r, node, fitErrorKey{reason: jobNotFound}, nil)
	case refused != "":
		return c.fitError(r, node, fitErrorKey{reason: podRefused, text: refused}, nil)
	}

	for _, check := range nodeChecks {
		if why := check(c, r, node); why != nodeFits {
			key, exceeded := c.fitErrorKeyFor(why, r, node)
			return c.fitError(r, node, key, exceeded)
		}
	}

	return nil
}

// nodeCodes are the codes of the reasons that no refusal of a pod or a queue states.
var nodeCodes = map[int]waiting.NodeCode{
	unnamedCard:                 waiting.NodeUnnamedCard,
	cardNotAllowed:              waiting.NodeOtherCard,
	jobNotFound:                 waiting.NodeJobUnknown,
	reclaimedByOthers:           waiting.NodeKeptForReclaimers,
	conflictsWithStuckPod:       waiting.NodeStuckConflict,
	conflictNotPreemptable:      waiting.NodeProtectedConflict,
	cardsAreStuck:               waiting.NodeStuckPods,
	cardsAreStuckWithoutVictims: waiting.NodeStuckPods,
	cardNotDeserved:             waiting.NodeCardNotDeserved,
	keptForPreemptors:           waiting.NodeKeptForPreemptors,
	quotaKeptForPreemptors:      waiting.NodeQuotaKeptForPreemptors,
	cardsAwaitedByOthers:        waiting.NodeAwaitedByOthers,

	keptForPreemptorsWithoutVictims:    waiting.NodeKeptForPreemptors,
	cardsAwaitedByOthersWithoutVictims: waiting.NodeAwaitedByOthers,
}

// fitErrorKeyFor returns the key of the fit error of a pod on a node, and which quota it exceeds, nil if that
// is not the reason. The key has only what the message of the reason contains, so that nodes and pods share
// messages.
func (c *nodeChoice) fitErrorKeyFor(reason int, r snapshot.CheckInput, node *api.NodeInfo) (key fitErrorKey, exceeded *quota.InsufficientQuota) {
	key.reason = reason
	switch reason {
	case unnamedCard:
		key.text = string(r.Request.Resource)
	case cardNotAllowed:
		key.text = r.Request.Named.String()
	case quotaExceeded, quotaExceededForReclaim, quotaTerminating:
		within := quota.Within{}
		if reason == quotaTerminating { // evictions would only add terminating pods
			within.Bound = quota.TerminatingLeft
		}

		key.queue = r.Job.Queue
		key.name, _ = c.Inventory.CardOnNode(node.Name, r.Request.Resource)
		// cardFits has only learned that the card does not fit. The same check says which limit it exceeds.
		if found := c.Ledger.Check(string(key.queue), r.Request.On(key.name).OnlyCards(), within); len(found) > 0 {
			exceeded = &found[0]
			key.limit = limitKey{exceeded.Kind, exceeded.Queue, exceeded.Limit, exceeded.GracePeriod}
		}
		if reason != quotaTerminating { // whose message does not contain it
			key.count = r.Request.Count
		}
	}

	return key, exceeded
}

// canEvictionsHelp reports whether a node that refuses a pod for a reason may fit it after evictions there.
// Volcano's preempt leaves out the nodes for which it does not.
func canEvictionsHelp(reason int) bool {
	switch reason {
	case quotaExceeded, cardsAreStuck, keptForPreemptors, quotaKeptForPreemptors, cardsAwaitedByOthers:
		return true
	}
	return false
}

// maxFitErrors bounds the cache of fit errors, which is emptied when it is full.
const maxFitErrors = 10_000

// newStatus returns the fit error: its message, and by its code whether preempt tries the node. exceeded is the
// quota that is exceeded if that is the reason.
func (k fitErrorKey) newStatus(exceeded *quota.InsufficientQuota) *api.Status {
	reason := waiting.NodeReason{Code: nodeCodes[k.reason], Detail: k.text}
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: schedulerconfig.CapacityCard, Reason: cmp.Or(reason.Message(), k.text)}
	if canEvictionsHelp(k.reason) {
		status.Code = api.Unschedulable
	}

	if exceeded != nil {
		// Volcano writes the reason behind a count of nodes, in the middle of a sentence.
		status.Reason = workload.RefusalFor(exceeded).NodeMessage()
	}

	return status
}

// fitError returns the fit error of one node, with a message that nodes and pods with the same key share.
// exceeded is the quota that is exceeded if that is the reason.
func (c *nodeChoice) fitError(r snapshot.CheckInput, node *api.NodeInfo, key fitErrorKey, exceeded *quota.InsufficientQuota) error {
	cached := c.fitErrors
	cached.RLock()
	known, ok := cached.statuses[key]
	cached.RUnlock()

	// The message has the usage at its first refusal, and keeps that while pods wait. Once a session used it
	// for no pod, it is built again.
	if !ok || known.session.Load()+1 < c.Cache.SessionCount {
		known = &cachedFitError{statuses: []*api.Status{key.newStatus(exceeded)}}

		cached.Lock()
		if len(cached.statuses) >= maxFitErrors {
			clear(cached.statuses)
		}

		cached.statuses[key] = known
		cached.Unlock()
	}

	known.session.Store(c.Cache.SessionCount)
	return api.NewFitErrWithStatus(r.Task, node, known.statuses...)
}

// prePredicate starts the search of a node for a pod. Volcano calls it before each search. It does four
// things:
//   - It sets how many nodes Volcano checks: all for a pod with alternatives, since any node may have its
//     first one, and all for preempt, since a sample may lack the node where no gang must break.
//   - It evicts the rest of gangs that the last search broke.
//   - It records whether Volcano's action reclaim searches: just before, that asks podReclaim.preemptive.
//   - For preempt it refuses a pod for which nothing may be evicted.
func (c *nodeChoice) prePredicate(task *api.TaskInfo) error {
	c.events.reportLongSession() // so that no heartbeat expires during a long session
	options.ServerOpts.PercentageOfNodesToFind = c.percentageOfNodes
	if c.preemption.IsRunning() || len(c.RequestFor(task).Named.Names()) > 1 {
		options.ServerOpts.PercentageOfNodesToFind = allNodes
	}

	c.TriedTasks[task.UID] = true
	c.preemption.CompleteGangs()

	s := c.newSearch(task)
	c.search.Store(s)
	c.preemption.BeginSearch(s.CheckInput, c.podReclaim.reclaimerCandidate == task.UID)
	c.podReclaim.reclaimerCandidate = "" // the next search of the pod may be of another action

	if c.preemption.IsRunning() {
		return c.preemption.CheckPreemptor(task)
	}

	return nil
}
