package capacitycard

import (
	"cmp"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
	schedulerutil "volcano.sh/volcano/pkg/scheduler/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// preemptionAttempt is what Volcano's action preempt tries now: one pod on one node. It
// then asks Allocatable without telling the node, and room on another card
// than the node's would end the eviction too early, or never begin it.
type preemptionAttempt struct {
	pod  api.TaskID
	node string // "" when Volcano does not tell, since nothing can be evicted there
	// refused tells that the pod gets no promise of the node, whatever room Volcano finds
	// there.
	refused bool
	// apart are those that must go before the pod can be there.
	conflicting []*api.TaskInfo
}

// preemptable picks the pods of one node that may make room for another pod of
// the same queue, or for a pod of their own job: of lower priority, evictable,
// and no more than give what the node and the queue lack. It embodies the rules
// of Volcano's plugins priority and conformance, because no other plugin may be
// asked beside it.
//
// Volcano calls it from several goroutines when preemption is topology-aware;
// then nobody reads the attempt.
func (p *plugin) preemptable(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, int) {
	attempt := &preemptionAttempt{pod: preemptor.UID}
	defer p.attempt.Store(attempt)
	job, known := p.ssn.Jobs[preemptor.Job]
	if attempt.refused = p.awaitsNominatedNode(preemptor); attempt.refused || len(preemptees) == 0 || !known || p.checkQueue(job) != nil {
		return nil, util.Permit
	}
	attempt.node = preemptees[0].NodeName
	request := p.RequestFor(preemptor)
	name, allowed := p.cardFor(request, attempt.node)
	node, known := p.ssn.Nodes[attempt.node]
	if !allowed || !known || p.ledger.IsTerminatingOverQuota(string(job.Queue), name) {
		return nil, util.Permit
	}
	candidates, breaks := p.preemptionCandidates(preemptor, preemptees)
	conflicting, victims, useful := p.selectVictims(preemptor, node, name, candidates)
	attempt.refused = !useful || len(victims) > 0 && p.fitsOnGangNode(preemptor, job, attempt.node)
	if attempt.conflicting = conflicting; len(p.stuckPods[node.Name]) > 0 {
		attempt.conflicting = victims // Volcano counts on what pods hold that hang, and would spare some
	}
	if attempt.refused || p.exceedsEvictionHeadroom(job.Queue, name, victims) {
		return nil, util.Permit
	}
	if attempt.refused = p.wouldEvictInVain(preemptor, node, preemptees, victims, breaks); attempt.refused {
		return nil, util.Permit
	}
	return victims, util.Permit
}

// wouldEvictInVain reports whether victims would go for a pod that could not run on the node even so,
// or break a gang although pods that jobs can spare do on another node.
func (p *plugin) wouldEvictInVain(preemptor *api.TaskInfo, node *api.NodeInfo, preemptees, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	breaksGang := func(victim *api.TaskInfo) bool { return breaks[victim.UID] }
	return len(victims) > 0 && p.isRefusedIgnoringQuota(preemptor, node) ||
		slices.ContainsFunc(victims, breaksGang) && p.elasticPodsSufficeElsewhere(preemptor, preemptees)
}

// selectVictims picks those of the candidates who must go from a node for a pod: who may not be
// beside it, which it also returns alone, and as few others as give what is lacking. It is
// not useful that any go when the pod could not run there even so.
func (p *plugin) selectVictims(preemptor *api.TaskInfo, node *api.NodeInfo, name card.Name, candidates []*api.TaskInfo) (conflicting, all []*api.TaskInfo, useful bool) {
	queue := p.ssn.Jobs[preemptor.Job].Queue
	missing := p.missingAmounts(preemptor, node)
	conflicting, rest, useful := p.splitConflicting(preemptor, node, candidates)
	for _, victim := range conflicting {
		missing.add(p.releasedAmounts(victim, queue, name), -1)
	}
	others := p.minimalVictims(rest, missing, queue, name)
	return conflicting, slices.Concat(conflicting, others), useful && (len(others) > 0 || missing.isZero())
}

// preemptionCandidates are the pods that may make room for another one, in the order in which
// they go, and those of them that break a gang.
func (p *plugin) preemptionCandidates(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, map[api.TaskID]bool) {
	var candidates []*api.TaskInfo
	for _, preemptee := range preemptees {
		if p.hasHigherPriority(preemptor, preemptee) && p.isEvictable(preemptee) && !p.isEvictionInProgress(preemptee) {
			candidates = append(candidates, preemptee)
		}
	}
	slices.SortStableFunc(candidates, p.compareByPriority)
	return p.protectGangs(preemptor, candidates)
}

// missingAmounts is what a node and the queue of a pod have too little of for it.
func (p *plugin) missingAmounts(task *api.TaskInfo, node *api.NodeInfo) amounts {
	request, queue := p.RequestFor(task), p.ssn.Jobs[task.Job].Queue
	name, _ := p.cardFor(request, node.Name)
	missing := missingResources(task.InitResreq, p.FutureIdleOn(node))
	for _, insufficient := range p.ledger.InsufficientAfterRelease(string(queue), request.Request, name, quota.Released{}) {
		if what, ok := quotaAmounts[insufficient.Kind]; ok { // evictions are no help against what is ending
			missing[what] = float64(insufficient.Total - insufficient.Limit)
		}
	}
	return missing
}

// splitConflicting splits candidates into those that may not be beside a pod and the rest. It
// is false when others that may not be there stay.
func (p *plugin) splitConflicting(incoming *api.TaskInfo, node *api.NodeInfo, candidates []*api.TaskInfo) (conflicting, rest []*api.TaskInfo, useful bool) {
	conflicts := map[api.TaskID]bool{}
	for _, task := range node.Tasks {
		if task.UID != incoming.UID && workload.ConflictOnNode(incoming.Pod, task.Pod) && !p.isBeingEvicted(task) {
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

// hasNoConflicts reports whether no pod that stays on a node keeps another one off it.
func (p *plugin) hasNoConflicts(task *api.TaskInfo, node *api.NodeInfo) bool {
	_, _, fits := p.splitConflicting(task, node, nil)
	return fits
}

// fitsOnGangNode tells that a pod needs nobody evicted on one node, since it fits
// another one that pods of its job were promised in this session, or that a gang leaves.
// Where Volcano looks at a sample of the nodes that one may not be among them.
func (p *plugin) fitsOnGangNode(task *api.TaskInfo, job *api.JobInfo, except string) bool {
	if nodes := int32(len(p.ssn.NodeList)); schedulerutil.CalculateNumOfFeasibleNodesToFind(nodes) < nodes {
		return false
	}
	fits := func(name string) bool {
		node, known := p.ssn.Nodes[name]
		if !known || name == except {
			return false
		}
		if _, allowed := p.cardFor(p.RequestFor(task), name); !allowed || !p.missingAmounts(task, node).isZero() {
			return false
		}
		return p.hasNoConflicts(task, node)
	}
	for _, other := range job.TaskStatusIndex[api.Pipelined] {
		if fits(other.NodeName) {
			return true
		}
	}
	return slices.ContainsFunc(p.preemption.vacatedNodes(), func(name string) bool {
		return fits(name) && p.ssn.PredicateForPreemptAction(task, p.ssn.Nodes[name]) == nil
	})
}

// compareByPriority puts the lowest priority first, of the job and then of the pod, and
// among equals what is lost least.
func (p *plugin) compareByPriority(a, b *api.TaskInfo) int {
	x, y := p.ssn.Jobs[a.Job], p.ssn.Jobs[b.Job]
	return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(a.Priority, b.Priority), p.compareByLoss(a, b))
}

// minimalVictims picks as few of the candidates as give all that is lacking.
func (p *plugin) minimalVictims(candidates []*api.TaskInfo, missing amounts, queue api.QueueID, name card.Name) []*api.TaskInfo {
	released := make([]amounts, len(candidates))
	for i, candidate := range candidates {
		released[i] = p.releasedAmounts(candidate, queue, name)
	}
	var picked []*api.TaskInfo
	for _, i := range irreducibleSubset(missing, released) {
		picked = append(picked, candidates[i])
	}
	return picked
}

// cardFor is the card that a pod would use on a node, false when it may not
// run there. A pod without cards may run anywhere and uses none.
func (p *plugin) cardFor(request *workload.Request, node string) (card.Name, bool) {
	switch {
	case request.Denied != nil:
		return "", false
	case request.Count == 0:
		return "", true
	}
	name, ok := p.inventory.CardOnNode(node, request.Resource)
	return name, ok && request.Named.Allows(name)
}

// hasHigherPriority compares as Volcano's plugin priority does: jobs by the priority of
// their PodGroup, pods of one job by their own.
func (p *plugin) hasHigherPriority(preemptor, preemptee *api.TaskInfo) bool {
	if preemptor.Job == preemptee.Job {
		return preemptor.Priority > preemptee.Priority
	}
	by, of := p.ssn.Jobs[preemptor.Job], p.ssn.Jobs[preemptee.Job]
	return by != nil && of != nil && by.Priority > of.Priority
}

// isEvictionInProgress reports whether the eviction of a pod began a moment ago: its writes are still
// tried.
func (p *plugin) isEvictionInProgress(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	return evicted && p.cache.now().Sub(since) < evictionTimeout
}

func (p *plugin) isEvictable(task *api.TaskInfo) bool {
	job := p.ssn.Jobs[task.Job]
	return job != nil && job.PodGroup != nil && workload.IsEvictable(task.Pod, job.PodGroup.Annotations)
}

// releasedAmounts is what the eviction of a pod gives back to its node and, of the named
// card, CPU and memory, to a queue: nothing where another one pays for it.
func (p *plugin) releasedAmounts(task *api.TaskInfo, queue api.QueueID, name card.Name) amounts {
	released := resourceAmounts(task.Resreq)
	if charge := p.chargeInQueue(queue, task); charge != nil {
		for _, held := range charge.Cards {
			if held.Name == name {
				released[quotaCards] += float64(held.Count)
			}
		}
		released[quotaCPU], released[quotaMemory] = float64(charge.MilliCPU), float64(charge.Memory)
	}
	return released
}

// allocatableInAttempt answers Allocatable during an attempt of preempt: for the card of
// the node, after what was evicted so far.
//
// Where nothing can be evicted Volcano does not tell the node. The pod may still
// fit there now, because what was evicted for another pod of its gang left
// something over; then every card it may use must have room.
func (p *plugin) allocatableInAttempt(r checkInput, attempt *preemptionAttempt) bool {
	if attempt.refused || p.runChecks(podChecks, r) != nil {
		return false
	}
	for _, victim := range attempt.conflicting {
		if p.ssn.Jobs[victim.Job].Tasks[victim.UID].Status != api.Releasing {
			return false
		}
	}
	if attempt.node == "" {
		for name := range p.stuckPods { // it may be this one
			of, known := p.ssn.Nodes[name]
			if _, allowed := p.cardFor(r.request, name); known && allowed && p.needsStuckRoom(r.task, of) && len(p.preemptableTasksOn(of, r.task)) > 0 {
				return false
			}
		}
		return p.ledger.FitsAllCards(string(r.job.Queue), r.request.Request)
	}
	r.node = attempt.node
	return p.runChecks(cardChecks, r) == nil
}

// amounts are quantities by what they are of: resources of a node in Volcano's
// units, and cards, CPU and memory of a queue's quota.
type amounts map[string]float64

// What of a queue's quota may be short.
const (
	quotaCards  = "quota of cards"
	quotaCPU    = "quota of CPU"
	quotaMemory = "quota of memory"
)

var quotaAmounts = map[quota.LimitKind]string{quota.Cards: quotaCards, quota.CPU: quotaCPU, quota.Memory: quotaMemory}

// tolerance is how much Volcano lets a request exceed what is idle
// (pkg/scheduler/api, minResource).
const tolerance = 0.1

// missingResources is what a node has too little of for a request, counting what is
// being released on it; empty when the request fits.
func missingResources(request, futureIdle *api.Resource) amounts {
	idle, missing := resourceAmounts(futureIdle), amounts{}
	for what, asked := range resourceAmounts(request) {
		if short := asked - idle[what]; asked > 0 && short > tolerance {
			missing[what] = short
		}
	}
	return missing
}

// resourceAmounts lists what is counted on a node.
func resourceAmounts(r *api.Resource) amounts {
	list := make(amounts, 2+len(r.ScalarResources))
	list["cpu"], list["memory"] = r.MilliCPU, r.Memory
	for name, quantity := range r.ScalarResources {
		if !api.IsIgnoredScalarResource(name) {
			list[string(name)] = quantity
		}
	}
	return list
}

// irreducibleSubset picks as few of the candidates as are needed, in their order:
// the first that help, and then without any whose place the others fill. It
// picks none when all together are not enough: nobody is evicted for a pod that
// could not run afterwards either.
func irreducibleSubset(missing amounts, released []amounts) []int {
	var picked []int
	left := maps.Clone(missing)
	for i, give := range released {
		if left.isZero() {
			break
		}
		if left.isReducedBy(give) {
			picked = append(picked, i)
			left.add(give, -1)
		}
	}
	if !left.isZero() {
		return nil
	}
	for i := len(picked) - 1; i >= 0; i-- {
		if without := maps.Clone(left).add(released[picked[i]], 1); without.isZero() {
			left = without
			picked = append(picked[:i], picked[i+1:]...)
		}
	}
	return picked
}

func (a amounts) isZero() bool {
	for _, n := range a {
		if n > tolerance {
			return false
		}
	}
	return true
}

func (a amounts) isReducedBy(give amounts) bool {
	for what, n := range a {
		if n > tolerance && give[what] > 0 {
			return true
		}
	}
	return false
}

// add adds what is given so many times, of what there is an amount.
func (a amounts) add(give amounts, times float64) amounts {
	for what := range a {
		a[what] += times * give[what]
	}
	return a
}
