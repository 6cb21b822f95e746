package capacitycard

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// nodeCheckFunc returns why a node does not fit a pod, as one of the predicate's reasons.
type nodeCheckFunc func(*nodeChoice, snapshot.CheckInput, *api.NodeInfo) int

// nodeChecks: does the node fit the pod, in the predicate? The first that refuses gives the reason. Each reason
// also says whether evictions on the node may help, see canEvictionsHelp.
var nodeChecks = []nodeCheckFunc{noStuckPodConflicts, conflictsArePreemptable, cardsAreNotStuck, reclaimedCardsStayFree, preemptedCardsStayFree, cardIsDeserved, cardFits, preemptedQuotaStaysFreeOnNode, awaitedCardsStayFree}

// checkedInput returns the input for a pod, and the message of what PodChecks refuse, "" if they pass. known is
// false if the session lacks the pod's job. During a node search it returns the result from the start of the
// search.
func (c *nodeChoice) checkedInput(task *api.TaskInfo) (r snapshot.CheckInput, refused string, known bool) {
	if s := c.search.Load(); s != nil && s.Task == task {
		return s.CheckInput, s.refused, s.known
	}
	r, known = c.CheckInputFor(task)
	if !known {
		return r, "", false
	}
	if refusal := c.RunChecks(snapshot.PodChecks, r); refusal != nil {
		refused = refusal.Message()
	}
	return r, refused, true
}

// newSearch begins a node search for a task.
func (c *nodeChoice) newSearch(task *api.TaskInfo) *nodeSearch {
	s := &nodeSearch{}
	s.CheckInput, s.refused, s.known = c.checkedInput(task)
	return s
}

// cardsAreNotStuck: the pod fits the node without the room of stuck pods, which terminate long past their grace
// period. Volcano expects that room soon, and would let the pod wait for it. Evictions of other pods may help.
func cardsAreNotStuck(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	switch {
	case !c.stuck.NeedsStuckCards(r.Task, node):
		return nodeFits
	case c.preemption.EvictsNothingOn(node, r.Task):
		return cardsAreStuckWithoutVictims // Volcano would pipeline the pod there without an eviction
	}
	return cardsAreStuck
}

// cardFits: the pod may run on the node's card, and the quota has room for it. Otherwise the reason also says
// whether evictions on this node may help. With quotaExceeded they may: pods of the queue there can be
// evicted. While preempt asks whether a node refuses the pod for other reasons, quota is ignored.
func cardFits(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	if r.Request.Count == 0 {
		return nodeFits
	}

	name, named := c.Inventory.CardOnNode(node.Name, r.Request.Resource)
	queue := string(r.Job.Queue)
	switch {
	case !named:
		return unnamedCard
	case !r.Request.Named.Allows(name):
		return cardNotAllowed
	case c.preemption.IgnoresQuota(r.Task) || c.Ledger.Fits(queue, r.Request.On(name).OnlyCards(), quota.Within{}):
		return nodeFits
	case !c.Ledger.Fits(queue, r.Request.On(name).OnlyCards(), quota.Within{Bound: quota.TerminatingLeft}):
		return quotaTerminating
	case c.preemption.IsReclaimer(r.Task):
		// A reclaimer evicts pods of other queues, which gives it no quota. With quotaExceeded Volcano would
		// evict them for nothing and try no other node.
		return quotaExceededForReclaim
	case c.preemption.IsRunning() && !c.Ledger.Fits(queue, r.Request.On(name).OnlyCards(), quota.Within{Bound: quota.QuotaIfIdle}):
		// No eviction in the queue makes enough quota, and Volcano would try no other node here either.
		return quotaExceededForReclaim
	}

	return quotaExceeded
}

// preemptedCardsStayFree: the node has room besides the cards that preempt freed for others.
// Evictions of more pods may help, unless Volcano can evict none there.
func preemptedCardsStayFree(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	switch {
	case c.kept.FitsBesidePreempted(r.Task, r.Job, node):
		return nodeFits
	case c.preemption.EvictsNothingOn(node, r.Task):
		return keptForPreemptorsWithoutVictims
	default:
		return keptForPreemptors
	}
}

// preemptedQuotaStaysFreeOnNode: the quota has room besides what preempt freed for other pods, if the pod uses the
// node's card.
func preemptedQuotaStaysFreeOnNode(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	if !c.kept.KeepsQuotaIn(r.Job.Queue) || c.preemption.IgnoresQuota(r.Task) {
		return nodeFits
	}
	r.Node = node.Name
	if c.kept.CheckKeptQuota(r) != nil {
		return quotaKeptForPreemptors
	}
	return nodeFits
}

// reclaimedCardsStayFree: the node has room besides the cards kept for pending reclaimers.
func reclaimedCardsStayFree(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	if !c.kept.FitsBesideReclaimed(r, node) {
		return reclaimedByOthers
	}
	return nodeFits
}

// noStuckPodConflicts: no stuck pod, which terminates long past its grace period, conflicts with the pod by
// anti-affinity or host port. Volcano's preempt ignores terminating pods, and would pipeline the pod to the node
// for ever.
func noStuckPodConflicts(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	if slices.ContainsFunc(c.stuck.ByNode[node.Name], func(other *api.TaskInfo) bool { return workload.ConflictOnNode(r.Task.Pod, other.Pod) }) {
		return conflictsWithStuckPod
	}
	return nodeFits
}

// conflictsArePreemptable: preempt may evict all pods that conflict with the pod. Volcano
// pipelines a pod to a node that needs no eviction without this check, and tries no other node
// when that is refused.
func conflictsArePreemptable(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	if !c.preemption.IsRunning() || c.victims.HasNoConflicts(r.Task, node) {
		return nodeFits
	}
	if _, _, useful := c.victims.SplitConflicting(r.Task, node, c.preemption.PreemptableTasksOn(node, r.Task)); !useful {
		return conflictNotPreemptable
	}
	return nodeFits
}

// awaitedCardsStayFree: the node has enough cards for the pod beside those that are kept for waiting jobs.
// What this session placed is already counted on the node. Evictions of other pods may help.
func awaitedCardsStayFree(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	kept := c.kept.AwaitedOn(r, node)
	if kept == 0 {
		return nodeFits
	}

	free := snapshot.FutureIdleOf(node, r.Request.Resource)
	switch {
	case free >= float64(kept.Add(r.Request.Count))*snapshot.Milli:
		return nodeFits
	case c.preemption.EvictsNothingOn(node, r.Task):
		return cardsAwaitedByOthersWithoutVictims
	default:
		return cardsAwaitedByOthers
	}
}

// cardIsDeserved: in the first of two runs of allocate, which places no pod that must borrow, the queue of the pod
// deserves the node's card. Of a request with one card, allocatable has checked that. A pod for which cards were
// freed takes none from others. What allocatable knows of the pod it looked at last (tried) is used again.
func cardIsDeserved(c *nodeChoice, r snapshot.CheckInput, node *api.NodeInfo) int {
	isFirstRun := c.allocation.deservedFirst != nil && !c.allocation.deservedFirst.borrows
	if !isFirstRun || r.Request.Count == 0 || len(r.Request.Names) == 1 || c.kept.HasPreempted(r) {
		return nodeFits
	}

	name, named := c.Inventory.CardOnNode(node.Name, r.Request.Resource)
	switch {
	case !named:
		return nodeFits // cardFits refuses it
	case c.allocation.deservedFirst.tried == r.Task.UID && slices.Contains(c.allocation.deservedFirst.deserved, name),
		c.allocation.deservedFirst.tried != r.Task.UID && c.DeservesCard(r, name):
		return nodeFits
	default:
		return cardNotDeserved
	}
}
