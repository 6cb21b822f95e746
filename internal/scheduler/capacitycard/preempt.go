package capacitycard

import (
	"cmp"
	"slices"
	"sort"
	"sync/atomic"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
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
	prices  *Prices
	stuck   *snapshot.StuckPods
	kept    *keptcards.Kept
	victims *victimSelection
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
	conflicting, victims, useful := p.victims.selectVictims(preemptor, node, name, candidates, breaks)
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

// victimSelection selects victims on one node for a pod.
type victimSelection struct {
	*snapshot.Session
	kept *keptcards.Kept
	// mostBorrowed is how many cards the queue may borrow whose pods preempt now, see limitBorrowing.
	mostBorrowed map[card.Name]int64
}

// selectVictims selects from candidates the victims on a node for a pod: all that conflict with
// it, and as few others as release what is missing. It returns the conflicting ones alone, and all. breaks are the
// candidates whose eviction breaks a gang. useful is false if the pod could not run there in spite of the evictions.
func (p *victimSelection) selectVictims(preemptor *api.TaskInfo, node *api.NodeInfo, name card.Name, candidates []*api.TaskInfo, breaks map[api.TaskID]bool) (conflicting, all []*api.TaskInfo, useful bool) {
	queue := p.Volcano.Jobs[preemptor.Job].Queue
	missing := p.missingAmounts(preemptor, node)
	conflicting, rest, useful := p.splitConflicting(preemptor, node, candidates)
	released := p.releasedByEach(slices.Concat(conflicting, rest), breaks, queue, name)
	for _, give := range released[:len(conflicting)] {
		missing.add(give, -1)
	}

	needed := map[api.TaskID]bool{}
	broken := map[api.JobID]bool{}
	for _, i := range irreducibleSubset(missing, released[len(conflicting):]) {
		needed[rest[i].UID] = true
		broken[rest[i].Job] = broken[rest[i].Job] || breaks[rest[i].UID]
	}

	all = slices.Clone(conflicting)
	for _, task := range rest {
		if needed[task.UID] || broken[task.Job] { // without its elastic pods, another one would break no gang
			all = append(all, task)
		}
	}

	return conflicting, all, useful && (len(all) > len(conflicting) || missing.isZero())
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
		return cmp.Or(p.comparePriorities(a, b), CompareBool(breaks[a.UID], breaks[b.UID]), cmp.Compare(p.prices.lossOfEviction(a, breaks), p.prices.lossOfEviction(b, breaks)))
	})
	return candidates, breaks
}

// missingAmounts returns what the node and the quota lack for a pod.
func (p *victimSelection) missingAmounts(task *api.TaskInfo, node *api.NodeInfo) amounts {
	request := p.RequestFor(task)
	job := p.Volcano.Jobs[task.Job]
	name, _ := p.CardFor(request, node.Name)
	missing := missingResources(task.InitResreq, p.kept.IdleFor(task, node))

	kept := p.kept.DeductKept(snapshot.CheckInput{Job: job, Task: task}, quota.Released{})
	missing = p.addMissingQuota(missing, job.Queue, request, name, kept)
	if tooMany := p.cardsBorrowedTooMany(snapshot.CheckInput{Job: job, Request: request}, name); tooMany > 0 {
		missing[quotaCards] = max(missing[quotaCards], float64(tooMany))
	}
	return missing
}

// addMissingQuota adds what the quotas of a queue and its ancestors lack for a pod, as far as
// evictions in its own queue release it: not what terminating pods use. released is what is kept for
// others, see DeductKept.
func (p *victimSelection) addMissingQuota(missing amounts, queue api.QueueID, request *workload.Request, name card.Name, released quota.Released) amounts {
	for range maxMissingLimits {
		isComplete := true
		for _, insufficient := range p.Ledger.Check(string(queue), request.On(name), quota.Within{Released: released}) {
			what := quotaOf(insufficient.Of)
			lack := insufficient.Total - insufficient.Limit
			if lack <= 0 || insufficient.Kind == quota.Terminating {
				continue
			}

			isComplete = false
			if insufficient.Kind == quota.Guaranteed {
				lack = p.leastForGuarantees(insufficient, queue, request, name, released)
			}

			// reused is what is missing anyway and was open so far: now pods that cannot be reclaimed must release it.
			reused := int64(0)
			isUnreclaimable := insufficient.Kind == quota.NotReclaimable
			if isUnreclaimable {
				reused = min(lack, int64(missing[what]-missing[unreclaimableQuota(what)]))
				missing[unreclaimableQuota(what)] += float64(lack)
			}

			// What is missing counts as released from now on, so that the next round finds what another
			// limit lacks.
			missing[what] += float64(lack - reused)
			released.Add(chargeOf(insufficient.Of, name, lack, isUnreclaimable))
			released.Remove(chargeOf(insufficient.Of, name, reused, false))
		}

		if isComplete {
			break
		}
	}
	return missing
}

// leastForGuarantees returns how much must be released so that a pod leaves the guarantees of other
// queues free. Within the guarantee of its own queue it takes nothing from others, so that may be less than
// the excess.
func (p *victimSelection) leastForGuarantees(insufficient quota.InsufficientQuota, queue api.QueueID, request *workload.Request, name card.Name, released quota.Released) int64 {
	excess := insufficient.Total - insufficient.Limit
	isSame := func(other quota.InsufficientQuota) bool {
		return other.Kind == insufficient.Kind && other.Queue == insufficient.Queue && other.Of == insufficient.Of
	}
	return 1 + int64(sort.Search(int(excess-1), func(n int) bool {
		more := released.Clone()
		more.Add(chargeOf(insufficient.Of, name, int64(n+1), false))
		return !slices.ContainsFunc(p.Ledger.Check(string(queue), request.On(name), quota.Within{Released: more}), isSame)
	}))
}

// chargeOf returns a charge of so much CPU or memory, or so many of a card.
func chargeOf(of quota.Resource, name card.Name, amount int64, isUnreclaimable bool) *quota.Charge {
	charge := &quota.Charge{IsUnreclaimable: isUnreclaimable}
	switch of {
	case quota.CPU:
		charge.MilliCPU = amount
	case quota.Memory:
		charge.Memory = amount
	default:
		charge.Cards = []card.Amount{{Name: name, Count: card.Count(amount)}}
	}
	return charge
}

// maxMissingLimits is how many limits a pod can exceed: on each level of a tree and at root, four
// limits of a card, of CPU and of memory. Each search finds the first that is left.
const maxMissingLimits = 4 * 3 * (quota.MaxDepth + 1)

// splitConflicting splits candidates into those that conflict with a pod on the node and the
// rest. useful is false if other conflicting pods stay.
func (p *victimSelection) splitConflicting(incoming *api.TaskInfo, node *api.NodeInfo, candidates []*api.TaskInfo) (conflicting, rest []*api.TaskInfo, useful bool) {
	conflicts := map[api.TaskID]bool{}
	for _, task := range node.Tasks {
		if task.UID != incoming.UID && workload.ConflictOnNode(incoming.Pod, task.Pod) && !p.IsBeingEvicted(task) {
			conflicts[task.UID] = true
		}
	}

	if len(conflicts) == 0 {
		return nil, candidates, true
	}

	for _, candidate := range candidates {
		if conflicts[candidate.UID] {
			conflicting = append(conflicting, candidate)
		} else {
			rest = append(rest, candidate)
		}
	}

	return conflicting, rest, len(conflicting) == len(conflicts)
}

// hasNoConflicts reports whether no pod that stays on a node conflicts with another one.
func (p *victimSelection) hasNoConflicts(task *api.TaskInfo, node *api.NodeInfo) bool {
	_, _, fits := p.splitConflicting(task, node, nil)
	return fits
}

// fitsOnGangNode reports whether a pod needs no eviction on a node because another node fits
// it: one to which pods of its job are pipelined, or one that an evicted gang leaves.
func (p *preemption) fitsOnGangNode(task *api.TaskInfo, job *api.JobInfo, except string) bool {
	fits := func(name string) bool {
		node, known := p.Volcano.Nodes[name]
		if !known || name == except {
			return false
		}
		if _, allowed := p.CardFor(p.RequestFor(task), name); !allowed || !p.victims.missingAmounts(task, node).isZero() {
			return false
		}
		return p.victims.hasNoConflicts(task, node)
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
	return cmp.Or(p.comparePriorities(a, b), p.prices.compareByLoss(a, b))
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
	return p.kept.CheckCard(r) == nil && p.victims.cardsBorrowedTooMany(r, name) == 0
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
		return !p.Ledger.Fits(queue, request.On(name).OnlyCards(), quota.Within{}) || p.victims.cardsBorrowedTooMany(r, name) > 0
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

// CompareBool orders false before true.
func CompareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
