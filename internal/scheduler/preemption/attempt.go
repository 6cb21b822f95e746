package preemption

// This file has the hooks that Volcano's preempt calls while it tries a pod on a node: first for the victims there, and
// after each eviction whether the pod fits now. An attempt notes what the first says for the second: the node ("" where
// nothing can be evicted), whether the pod is refused there in any case, and the pods that must be evicted before. Stuck
// pods are terminating ones long past their grace period. Kept cards are free cards that only certain pods may take.

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// Preemptable selects the victims on one node for a preemptor of the same queue or job. They
// have a lower priority, may be evicted, and release only what node and quota lack. It includes
// the rules of Volcano's plugins priority and conformance, because no other plugin may be asked
// besides it. The second result lets Volcano evict these pods. There are none if the preemptor waits for a node
// that evicted pods leave already, or if its queue accepts no pods.
//
// Topology-aware preemption calls it from several goroutines, and then no hook reads the
// attempt.
func (p *Preemption) Preemptable(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, int) {
	attempt := &preemptionAttempt{pod: preemptor.UID}
	defer p.attempt.Store(attempt)

	job, known := p.Volcano.Jobs[preemptor.Job]
	attempt.refused = p.AwaitsNominatedNode(preemptor)
	if attempt.refused || len(preemptees) == 0 || !known || p.CheckQueue(job) != nil {
		return nil, util.Permit
	}

	attempt.node = preemptees[0].NodeName
	return p.selectInAttempt(attempt, job, preemptor, preemptees), util.Permit
}

// selectInAttempt selects the victims on the node of an attempt. It notes in the attempt whether
// the preemptor is refused there, and which pods must be evicted before it can be there.
func (p *Preemption) selectInAttempt(attempt *preemptionAttempt, job *api.JobInfo, preemptor *api.TaskInfo, preemptees []*api.TaskInfo) []*api.TaskInfo {
	request := p.RequestFor(preemptor)
	name, allowed := p.CardFor(request, attempt.node)
	node, known := p.Volcano.Nodes[attempt.node]
	if !allowed || !known {
		return nil
	}

	candidates, breaks := p.preemptionCandidates(preemptor, preemptees)
	conflicting, victims, useful := p.victims.Select(preemptor, node, name, candidates, breaks)
	// No pod is evicted where that does not help, nor for a pod that fits on another node without evictions.
	attempt.refused = !useful || (len(victims) > 0 && p.fitsOnGangNode(preemptor, job, attempt.node))
	attempt.conflicting = conflicting
	if len(p.stuck.ByNode[node.Name]) > 0 || p.kept.KeepsCardsOn(preemptor, node) {
		attempt.conflicting = victims // Volcano counts what is stuck or kept as free, and would evict too few
	}

	// More terminating pods than the headroom would keep the preemptor itself from starting.
	if attempt.refused || p.victims.ExceedsEvictionHeadroom(job.Queue, name, victims) {
		return nil
	}

	// wouldEvictInVain runs predicates and may compare all nodes, so it comes last.
	attempt.refused = p.wouldEvictInVain(preemptor, node, victims, breaks)
	if attempt.refused {
		return nil
	}

	return victims
}

// wouldEvictInVain reports whether the evictions on a node are not worth it: the node refuses the preemptor also
// after them, or those on another node cost less.
func (p *Preemption) wouldEvictInVain(preemptor *api.TaskInfo, node *api.NodeInfo, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	return len(victims) > 0 && (p.isRefusedIgnoringQuota(preemptor, node) || p.costsLessElsewhere(preemptor, victims, breaks))
}

// fitsOnGangNode reports whether a pod needs no eviction on the node of an attempt because another node fits
// it: one to which pods of its job are pipelined, or one that an evicted gang leaves.
func (p *Preemption) fitsOnGangNode(task *api.TaskInfo, job *api.JobInfo, attempted string) bool {
	fits := func(name string) bool {
		node, known := p.Volcano.Nodes[name]
		if !known || name == attempted {
			return false
		}
		if _, allowed := p.CardOn(task, name); !allowed || !p.victims.MissingAmounts(task, node).IsZero() {
			return false
		}
		return p.victims.HasNoConflicts(task, node)
	}

	for _, other := range job.TaskStatusIndex[api.Pipelined] {
		if fits(other.NodeName) {
			return true
		}
	}

	return slices.ContainsFunc(p.run.vacatedNodes(), func(name string) bool {
		return fits(name) && p.Volcano.PredicateForPreemptAction(task, p.Volcano.Nodes[name]) == nil
	})
}

// AllocatableInAttempt checks a pod during an attempt of preempt, for the card of the node and
// after the evictions so far, with the rest of the gangs that they break. It is false if there is no attempt for
// the pod.
//
// If there is nothing to evict, Volcano does not name the node. The pod may still fit there
// after evictions for another pod of its gang. Then every card must fit that such a node may have.
func (p *Preemption) AllocatableInAttempt(r snapshot.CheckInput) (isAllocatable, isTried bool) {
	attempt := p.attempt.Load()
	if attempt == nil || attempt.pod != r.Task.UID {
		return false, false
	}
	return p.fitsInAttempt(r, attempt), true
}

// fitsInAttempt reports whether a pod fits on the node of an attempt after the evictions so far. Where Volcano does not
// name the node (""), it must fit on every node that Volcano may mean.
func (p *Preemption) fitsInAttempt(r snapshot.CheckInput, attempt *preemptionAttempt) bool {
	// The rest of gangs that the evictions break is evicted too, and releases its quota.
	released := p.ReleasedBy(r.Job.Queue, p.run.tasksToComplete()...)
	r.Released = &released
	if attempt.refused || p.RunChecks(snapshot.PodChecks, r) != nil || (attempt.node == "" && p.isKeptNodeFor(r)) {
		return false
	}

	// Volcano ends its evictions as soon as the pod is allocatable and fits. All of these must be evicted
	// before.
	for _, victim := range attempt.conflicting {
		if p.Volcano.Jobs[victim.Job].Tasks[victim.UID].Status != api.Releasing {
			return false
		}
	}

	if attempt.node == "" {
		return !p.mayNeedStuckCards(r) && p.fitsNodeWithoutVictims(r)
	}

	r.Node = attempt.node
	name, _ := p.CardFor(r.Request, r.Node)
	return p.kept.CheckCard(r) == nil && p.victims.CardsBorrowedTooMany(r, name) == 0
}

// isKeptNodeFor reports whether the node of an attempt that Volcano does not name may be one
// where a pod would take what is kept from it.
func (p *Preemption) isKeptNodeFor(r snapshot.CheckInput) bool {
	isKept := func(name string) bool {
		node := p.Volcano.Nodes[name]
		_, allowed := p.CardFor(r.Request, name)
		if node == nil || !allowed || !r.Task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
			return false
		}
		return !r.Task.InitResreq.LessEqual(p.kept.IdleFor(r.Task, node), api.Zero) && len(p.PreemptableTasksOn(node, r.Task)) > 0
	}

	return slices.ContainsFunc(p.kept.Nodes(), isKept)
}

// mayNeedStuckCards reports whether a pod fits a node with possible victims only after stuck pods are
// gone. The attempt may be on that node.
func (p *Preemption) mayNeedStuckCards(r snapshot.CheckInput) bool {
	for name := range p.stuck.ByNode {
		node, known := p.Volcano.Nodes[name]
		if _, allowed := p.CardFor(r.Request, name); known && allowed && p.stuck.NeedsStuckCards(r.Task, node) && len(p.PreemptableTasksOn(node, r.Task)) > 0 {
			return true
		}
	}
	return false
}

// fitsNodeWithoutVictims reports whether the quota has room for a pod on the node without victims that
// Volcano tries now and does not name. It has if each card of the request has quota left. Otherwise some node
// without victims must fit the pod and have a card with quota left. Volcano is then on such a node: nodeOrder puts
// those without quota last.
func (p *Preemption) fitsNodeWithoutVictims(r snapshot.CheckInput) bool {
	queue := string(r.Job.Queue)
	request := r.Request.Request
	isFull := func(name card.Name) bool {
		return !p.Ledger.Fits(queue, request.On(name).OnlyCards(), quota.Within{}) || p.victims.CardsBorrowedTooMany(r, name) > 0
	}

	if !p.Ledger.Fits(queue, request, quota.Within{}) {
		return false
	}

	return !slices.ContainsFunc(request.Names, isFull) || slices.ContainsFunc(p.Volcano.NodeList, func(node *api.NodeInfo) bool {
		name, allowed := p.CardFor(r.Request, node.Name)
		hasEnough := allowed && !isFull(name) && r.Task.InitResreq.LessEqual(p.stuck.FutureIdleOn(node), api.Zero)
		return hasEnough && len(p.PreemptableTasksOn(node, r.Task)) == 0
	})
}
