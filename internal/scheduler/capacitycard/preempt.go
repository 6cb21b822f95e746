package capacitycard

import (
	"cmp"
	"slices"
	"sync/atomic"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// preemptionAttempt is the pod and node that Volcano's action preempt tries now. Volcano then
// calls allocatable without the node, and quota of another card than the node's would end the
// evictions too early or prevent them.
type preemptionAttempt struct {
	pod  api.TaskID
	node string // "" if nothing can be evicted there, since Volcano then does not name it
	// refused is set if the pod must not be pipelined to the node, even if Volcano finds room.
	refused bool
	// conflicting are the pods that must be evicted before the pod can be there.
	conflicting []*api.TaskInfo
}

// preemption decides what Volcano's action preempt evicts inside of a queue.
type preemption struct {
	*snapshot.Session
	prices  *victims.Prices
	stuck   *snapshot.StuckPods
	kept    *keptcards.Kept
	victims *victims.Selection
	// run is what the action evicts, nil unless it runs.
	run *preemptRun
	// attempt is the pod and node that it tries now, nil if none.
	attempt atomic.Pointer[preemptionAttempt]
	// ignoringQuota is the pod that the predicate checks without quota now.
	ignoringQuota quotaIgnorer
	// search is the node search that Volcano started last.
	search atomic.Pointer[nodeSearch]
}

// preemptable selects the victims on one node for a preemptor of the same queue or job. They
// have a lower priority, may be evicted, and release only what node and quota lack. It includes
// the rules of Volcano's plugins priority and conformance, because no other plugin may be asked
// besides it.
//
// Topology-aware preemption calls it from several goroutines, and then no hook reads the
// attempt.
func (p *preemption) preemptable(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, int) {
	attempt := &preemptionAttempt{pod: preemptor.UID}
	defer p.attempt.Store(attempt)

	job, known := p.Volcano.Jobs[preemptor.Job]
	attempt.refused = p.awaitsNominatedNode(preemptor)
	if attempt.refused || len(preemptees) == 0 || !known || p.CheckQueue(job) != nil {
		return nil, util.Permit
	}

	attempt.node = preemptees[0].NodeName
	return p.selectInAttempt(attempt, job, preemptor, preemptees), util.Permit
}

// selectInAttempt selects the victims on the node of an attempt. It notes in the attempt whether
// the preemptor is refused there, and which pods must be evicted before it can be there.
func (p *preemption) selectInAttempt(attempt *preemptionAttempt, job *api.JobInfo, preemptor *api.TaskInfo, preemptees []*api.TaskInfo) []*api.TaskInfo {
	request := p.RequestFor(preemptor)
	name, allowed := p.CardFor(request, attempt.node)
	node, known := p.Volcano.Nodes[attempt.node]
	if !allowed || !known || p.Ledger.IsTerminatingOverQuota(string(job.Queue), name) {
		return nil
	}

	candidates, breaks := p.preemptionCandidates(preemptor, preemptees)
	conflicting, victims, useful := p.victims.Select(preemptor, node, name, candidates, breaks)
	attempt.refused = !useful || (len(victims) > 0 && p.fitsOnGangNode(preemptor, job, attempt.node))
	attempt.conflicting = conflicting
	if len(p.stuck.ByNode[node.Name]) > 0 || p.kept.KeepsCardsOn(preemptor, node) {
		attempt.conflicting = victims // Volcano counts what is stuck or kept, and would evict too few
	}

	if attempt.refused || p.exceedsEvictionHeadroom(job.Queue, name, victims) {
		return nil
	}

	// wouldEvictInVain runs predicates and may compare all nodes, so it comes last.
	attempt.refused = p.wouldEvictInVain(preemptor, node, victims, breaks)
	if attempt.refused {
		return nil
	}

	return victims
}

// wouldEvictInVain reports whether the preemptor could not run after the evictions. It also
// reports true if those on another node cost less.
func (p *preemption) wouldEvictInVain(preemptor *api.TaskInfo, node *api.NodeInfo, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	return len(victims) > 0 && (p.isRefusedIgnoringQuota(preemptor, node) || p.costsLessElsewhere(preemptor, victims, breaks))
}

// preemptionCandidates returns the possible victims of a preemptor in the order of eviction, and
// those of them that break a gang. Of equal priority elastic pods come first, then the smallest loss.
func (p *preemption) preemptionCandidates(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, map[api.TaskID]bool) {
	var candidates []*api.TaskInfo
	for _, preemptee := range preemptees {
		if p.mayPreempt(preemptor, preemptee) && p.IsEvictable(preemptee) && !p.IsEvictionInProgress(preemptee) {
			candidates = append(candidates, preemptee)
		}
	}

	// This order decides which pods of a gang are elastic, and these come first in the end.
	slices.SortStableFunc(candidates, p.compareByPriority)
	candidates, breaks := p.protectGangs(preemptor, candidates)
	slices.SortStableFunc(candidates, func(a, b *api.TaskInfo) int {
		return cmp.Or(p.comparePriorities(a, b), victims.CompareBool(breaks[a.UID], breaks[b.UID]), cmp.Compare(p.prices.LossOfEviction(a, breaks), p.prices.LossOfEviction(b, breaks)))
	})
	return candidates, breaks
}

// fitsOnGangNode reports whether a pod needs no eviction on a node because another node fits
// it: one to which pods of its job are pipelined, or one that an evicted gang leaves.
func (p *preemption) fitsOnGangNode(task *api.TaskInfo, job *api.JobInfo, except string) bool {
	fits := func(name string) bool {
		node, known := p.Volcano.Nodes[name]
		if !known || name == except {
			return false
		}
		if _, allowed := p.CardFor(p.RequestFor(task), name); !allowed || !p.victims.MissingAmounts(task, node).IsZero() {
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

// vacatedNodes returns the nodes that evicted gangs leave.
func (p *preemptRun) vacatedNodes() []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, rest := range p.restOfGangs {
		for _, task := range rest.tasks {
			names = append(names, task.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// compareByPriority puts the lowest priority first, and among equals the smallest loss of a single pod.
func (p *preemption) compareByPriority(a, b *api.TaskInfo) int {
	return cmp.Or(p.comparePriorities(a, b), p.prices.CompareByLoss(a, b))
}

// comparePriorities puts the lowest priority first, of the job and then of the pod.
func (p *preemption) comparePriorities(a, b *api.TaskInfo) int {
	x := p.Volcano.Jobs[a.Job]
	y := p.Volcano.Jobs[b.Job]
	return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(a.Priority, b.Priority))
}

// hasHigherPriority compares as Volcano's plugin priority does: jobs by the priority of their
// PodGroup, pods of one job by their own.
func (p *preemption) hasHigherPriority(preemptor, preemptee *api.TaskInfo) bool {
	if preemptor.Job == preemptee.Job {
		return preemptor.Priority > preemptee.Priority
	}
	preemptorJob := p.Volcano.Jobs[preemptor.Job]
	preempteeJob := p.Volcano.Jobs[preemptee.Job]
	return preemptorJob != nil && preempteeJob != nil && preemptorJob.Priority > preempteeJob.Priority
}

// mayPreempt reports whether one pod may take the place of another one of its queue. Pods of
// other jobs go only for pods that are jobs of their own, and for the minimum of a job.
func (p *preemption) mayPreempt(preemptor, preemptee *api.TaskInfo) bool {
	return p.hasHigherPriority(preemptor, preemptee) && (preemptor.Job == preemptee.Job || p.preemptsJobs(preemptor))
}

// preemptsJobs reports whether pods of other jobs may go for a pod. The answer stays true for the
// whole node search.
func (p *preemption) preemptsJobs(task *api.TaskInfo) bool {
	compute := func() bool {
		job := p.Volcano.Jobs[task.Job]
		return job != nil && (arePodsSeparate(job) || completesMinimum(job, task))
	}
	s := p.search.Load()
	if s == nil || s.Task.UID != task.UID {
		return compute()
	}
	s.preemptsOnce.Do(func() { s.preemptsJobs = compute() })
	return s.preemptsJobs
}

// allocatableInAttempt checks a pod during an attempt of preempt, for the card of the node and
// after the evictions so far, with the rest of the gangs that they break.
//
// If there is nothing to evict, Volcano does not name the node. The pod may still fit there
// after evictions for another pod of its gang. Then every card must fit that such a node may have.
func (p *preemption) allocatableInAttempt(r snapshot.CheckInput, attempt *preemptionAttempt) bool {
	released := p.ReleasedBy(r.Job.Queue, p.run.tasksToComplete()...)
	r.Released = &released
	if attempt.refused || p.RunChecks(snapshot.PodChecks, r) != nil || (attempt.node == "" && p.isKeptNodeFor(r)) {
		return false
	}

	// Volcano ends its evictions as soon as the pod is allocatable and fits.
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

// mayNeedStuckCards reports whether a pod fits a node with possible victims only after stuck pods are
// gone. The attempt may be on that node.
func (p *preemption) mayNeedStuckCards(r snapshot.CheckInput) bool {
	for name := range p.stuck.ByNode {
		node, known := p.Volcano.Nodes[name]
		if _, allowed := p.CardFor(r.Request, name); known && allowed && p.stuck.NeedsStuckCards(r.Task, node) && len(p.preemptableTasksOn(node, r.Task)) > 0 {
			return true
		}
	}
	return false
}

// fitsNodeWithoutVictims reports whether the quota has room for a pod on the node without victims that
// Volcano tries now. Nodes whose card has no quota for the pod come last, see nodeOrder: others that fit
// would have been taken before.
func (p *preemption) fitsNodeWithoutVictims(r snapshot.CheckInput) bool {
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
		return hasEnough && len(p.preemptableTasksOn(node, r.Task)) == 0
	})
}

// isUselessForPreempt reports whether preempt runs, and the quota has no room for the pod of a search on a
// node on which it can evict no pod.
func (p *preemption) isUselessForPreempt(s *nodeSearch, node *api.NodeInfo, name card.Name) bool {
	if p.run == nil || p.Ledger.Fits(string(s.Job.Queue), s.Request.On(name).OnlyCards(), quota.Within{}) {
		return false
	}
	return len(p.preemptableTasksOn(node, s.Task)) == 0
}
