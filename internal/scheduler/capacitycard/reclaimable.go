package capacitycard

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// podReclaim decides what Volcano's action reclaim evicts.
type podReclaim struct {
	*snapshot.Session
	prices  *victims.Prices
	rules   *reclaimrules.Rules
	stuck   *snapshot.StuckPods
	kept    *keptcards.Kept
	victims *victims.Selection
	// reclaimerCandidate is the pod that preemptive allowed last.
	reclaimerCandidate api.TaskID
}

// preemptive reports whether a pod may reclaim cards from other queues, and notes it for prePredicate. Volcano's
// action reclaim checks quota nowhere else. In a tree only cardreclaim reclaims: configurations with
// reclaim are refused there.
func (p *podReclaim) preemptive(obj, candidate any) bool {
	_, isQueue := obj.(*api.QueueInfo)
	task, isTask := candidate.(*api.TaskInfo)
	may := isQueue && isTask && !p.IsTree() && p.rules.CanReclaim(task)
	if may {
		p.reclaimerCandidate = task.UID
	}
	return may
}

// reclaimable is the hook of Volcano's action reclaim. It selects the victims among the reclaimees, which are
// on one node, for a pod of another queue: all that conflict with it, and no more others than the node lacks.
// It selects none if idle cards suffice or the pod could not run anyway. util.Permit, always the second
// result, lets Volcano evict them.
//
// Volcano evicts without regard to quota, service types, queue priorities or benefit. So every rule is here, and no
// other plugin may be asked besides it.
func (p *podReclaim) reclaimable(reclaimer *api.TaskInfo, reclaimees []*api.TaskInfo) ([]*api.TaskInfo, int) {
	r, known := p.CheckInputFor(reclaimer)
	if len(reclaimees) == 0 || !known || p.IsTree() { // in a tree only the action cardreclaim reclaims
		return nil, util.Permit
	}

	r.Node = reclaimees[0].NodeName
	node, known := p.Volcano.Nodes[r.Node]
	if !known || (r.Request.Count == 0 && !p.ReclaimsAll()) || p.kept.CheckPlace(r) != nil {
		return nil, util.Permit
	}
	if !maps.Equal(victims.MissingResources(reclaimer.InitResreq, node.FutureIdle()), victims.MissingResources(reclaimer.InitResreq, p.stuck.FutureIdleOn(node))) {
		return nil, util.Permit // Volcano counts the room of stuck pods, and would evict too few
	}

	name, _ := p.CardFor(r.Request, r.Node)
	_, victims, useful := p.victims.Select(reclaimer, node, name, p.reclaimCandidates(reclaimer, reclaimees, r.Request.Resource), nil)
	if !useful {
		return nil, util.Permit
	}

	return victims, util.Permit
}

// reclaimCandidates returns the possible victims on one node in the order of eviction. They
// use cards of the needed resource, so of the same card. If CPU and memory are reclaimed too, pods
// without cards may be victims, and for a reclaimer without cards all pods.
func (p *podReclaim) reclaimCandidates(reclaimer *api.TaskInfo, reclaimees []*api.TaskInfo, resource corev1.ResourceName) []*api.TaskInfo {
	var candidates []*api.TaskInfo
	for _, reclaimee := range reclaimees {
		request := p.RequestFor(reclaimee)
		hasResource := request.Count > 0 && request.Resource == resource
		isUseful := hasResource || (p.ReclaimsAll() && (request.Count == 0 || resource == ""))
		if isUseful && p.rules.CanReclaimFrom(reclaimer, reclaimee) && p.rules.HasReachedMinRuntime(reclaimee) && !p.IsEvictionInProgress(reclaimee) {
			candidates = append(candidates, reclaimee)
		}
	}
	p.sortByVictimOrder(candidates)
	return candidates
}

// sortByVictimOrder puts first the pod to evict first for another queue. By default that is the lowest
// priority of queue, job and pod, where only the policy's PriorityClasses count. Among equals, or with
// VictimOrder Loss, pods of broken jobs are first, then elastic pods, then the smallest loss.
func (p *podReclaim) sortByVictimOrder(candidates []*api.TaskInfo) {
	byPriority := func(a, b *api.TaskInfo) int {
		if p.Args.VictimOrder == v1alpha1.VictimsByLoss {
			return 0
		}
		return p.rules.CompareBetweenQueues(a, b)
	}

	// This order decides which pods of a job are elastic, and these come first in the end.
	slices.SortFunc(candidates, func(a, b *api.TaskInfo) int { return cmp.Or(byPriority(a, b), p.prices.CompareByLoss(a, b)) })

	impacts, breaks := p.evictionImpacts(candidates)
	slices.SortStableFunc(candidates, func(a, b *api.TaskInfo) int {
		return cmp.Or(byPriority(a, b), cmp.Compare(impacts[a.UID], impacts[b.UID]), cmp.Compare(p.prices.LossOfEviction(a, breaks), p.prices.LossOfEviction(b, breaks)))
	})
}

// The impacts of an eviction on a job: it is below its minimum already, continues with fewer pods, or
// breaks.
const (
	jobIsBroken = iota
	jobContinues
	jobBreaks
)

// evictionImpacts returns the impact of each candidate's eviction on its job, if the candidates before it are
// evicted as well. breaks are the candidates whose eviction breaks their job. Policies of vcjobs on evicted
// pods do not count, because Volcano's reclaim does not know them.
func (p *podReclaim) evictionImpacts(candidates []*api.TaskInfo) (impacts map[api.TaskID]int, breaks map[api.TaskID]bool) {
	impacts = map[api.TaskID]int{}
	breaks = map[api.TaskID]bool{}
	allowances := map[api.JobID]*victims.Allowance{}
	for _, candidate := range candidates {
		job := p.Volcano.Jobs[candidate.Job]
		allowance := allowances[job.UID]
		if allowance == nil {
			allowance = &victims.Allowance{}
			allowance.Elastic, allowance.ElasticByRole = p.prices.ElasticPods(job)
			allowances[job.UID] = allowance
		}

		// The allowance is how many more pods the job can lose and continue. TakeElastic uses up one.
		switch {
		case job.ReadyTaskNum() < job.MinAvailable:
			impacts[candidate.UID] = jobIsBroken
		case allowance.TakeElastic(candidate):
			impacts[candidate.UID] = jobContinues
		default:
			impacts[candidate.UID] = jobBreaks
			breaks[candidate.UID] = true
		}
	}

	return impacts, breaks
}
