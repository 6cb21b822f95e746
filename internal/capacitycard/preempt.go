package capacitycard

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/account"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/decision"
)

// attempt is what Volcano's action preempt tries now: one pod on one node. It
// then asks Allocatable without telling the node, and room on another card
// than the node's would end the eviction too early, or never begin it.
type attempt struct {
	pod  api.TaskID
	node string // "" when Volcano does not tell, since nothing can be evicted there
	// awaits tells that the pod was promised a node which others are about to leave.
	awaits bool
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
	try := &attempt{pod: preemptor.UID}
	defer p.attempt.Store(try)
	job, known := p.ssn.Jobs[preemptor.Job]
	if try.awaits = p.awaits(preemptor); try.awaits || len(preemptees) == 0 || !known || p.closedGate(job.Queue, job.Namespace) != nil {
		return nil, util.Permit
	}
	try.node = preemptees[0].NodeName
	ask := p.askOf(preemptor)
	name, allowed := p.cardFor(ask, try.node)
	node, known := p.ssn.Nodes[try.node]
	if !allowed || !known {
		return nil, util.Permit
	}
	if ask.Count > 0 && p.account.Crowded(string(job.Queue), name) {
		return nil, util.Permit
	}
	lacks := lacking(preemptor.InitResreq, node.FutureIdle())
	lacks.lackQuota(p.account.ShortOn(string(job.Queue), accountAsk(ask), name, account.Freed{}))
	var candidates []*api.TaskInfo
	for _, preemptee := range preemptees {
		if p.outranks(preemptor, preemptee) && p.evictable(preemptee) && !saysItGoes(preemptee) {
			candidates = append(candidates, preemptee)
		}
	}
	slices.SortStableFunc(candidates, p.byPriority)
	victims := p.ifUseful(preemptor, node, p.fewest(candidates, lacks, job.Queue, name))
	if ask.Count > 0 && p.endsTooMuch(job.Queue, name, victims) {
		return nil, util.Permit
	}
	return victims, util.Permit
}

// byPriority puts the lowest priority first, of the job and then of the pod, and
// among equals what is lost least.
func (p *plugin) byPriority(a, b *api.TaskInfo) int {
	x, y := p.ssn.Jobs[a.Job], p.ssn.Jobs[b.Job]
	return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(a.Priority, b.Priority), p.byLoss(a, b))
}

// fewest picks as few of the candidates as give all that is lacking.
func (p *plugin) fewest(candidates []*api.TaskInfo, lacks amounts, queue api.QueueID, name card.Name) []*api.TaskInfo {
	gives := make([]amounts, len(candidates))
	for i, candidate := range candidates {
		gives[i] = p.given(candidate, queue, name)
	}
	var picked []*api.TaskInfo
	for _, i := range irreducible(lacks, gives) {
		picked = append(picked, candidates[i])
	}
	return picked
}

// ifUseful returns the victims unless the pod could not be beside those who stay
// on the node. Volcano's actions look at that only before anybody goes, when it
// may still change, and would evict in every session for nothing.
func (p *plugin) ifUseful(by *api.TaskInfo, node *api.NodeInfo, victims []*api.TaskInfo) []*api.TaskInfo {
	if len(victims) == 0 {
		return nil
	}
	goes := make(map[api.TaskID]bool, len(victims))
	for _, victim := range victims {
		goes[victim.UID] = true
	}
	for _, task := range node.Tasks {
		if !goes[task.UID] && task.UID != by.UID && decision.KeepApart(by.Pod, task.Pod) {
			return nil
		}
	}
	return victims
}

// cardFor is the card that a pod would use on a node, false when it may not
// run there. A pod without cards may run anywhere and uses none.
func (p *plugin) cardFor(ask *decision.Ask, node string) (card.Name, bool) {
	switch {
	case ask.Refusal != nil:
		return "", false
	case ask.Count == 0:
		return "", true
	}
	name, ok := p.inv.On(node, ask.Resource)
	return name, ok && ask.Request.Allows(name)
}

// outranks compares as Volcano's plugin priority does: jobs by the priority of
// their PodGroup, pods of one job by their own.
func (p *plugin) outranks(preemptor, preemptee *api.TaskInfo) bool {
	if preemptor.Job == preemptee.Job {
		return preemptor.Priority > preemptee.Priority
	}
	by, of := p.ssn.Jobs[preemptor.Job], p.ssn.Jobs[preemptee.Job]
	return by != nil && of != nil && by.Priority > of.Priority
}

// saysItGoes tells a pod whose eviction began and that is not deleted. To evict it
// once more is of no use: Volcano's evictor would do nothing.
func saysItGoes(task *api.TaskInfo) bool {
	_, evicted := decision.EvictedSince(task.Pod)
	return evicted
}

func (p *plugin) evictable(task *api.TaskInfo) bool {
	job := p.ssn.Jobs[task.Job]
	return job != nil && job.PodGroup != nil && decision.Evictable(task.Pod, job.PodGroup.Annotations)
}

// given is what the eviction of a pod gives back to its node and, of the named
// card, CPU and memory, to a queue: nothing where another one pays for it.
func (p *plugin) given(task *api.TaskInfo, queue api.QueueID, name card.Name) amounts {
	give := resources(task.Resreq)
	if charge := p.chargeIn(queue, task); charge != nil {
		for _, held := range charge.Cards {
			if held.Name == name {
				give[quotaCards] += float64(held.Count)
			}
		}
		give[quotaCPU], give[quotaMemory] = float64(charge.MilliCPU), float64(charge.Memory)
	}
	return give
}

// fitsAttempt answers Allocatable during an attempt of preempt: for the card of
// the node, after what was evicted so far.
//
// Where nothing can be evicted Volcano does not tell the node. The pod may still
// fit there now, because what was evicted for another pod of its gang left
// something over; then every card it may use must have room.
func (p *plugin) fitsAttempt(queue *api.QueueInfo, task *api.TaskInfo, node string) bool {
	ask := p.askOf(task)
	if ask.Refusal != nil || p.closedGate(queue.UID, task.Namespace) != nil {
		return false
	}
	if node == "" {
		return p.account.FitsEverywhere(queue.Name, accountAsk(ask))
	}
	name, allowed := p.cardFor(ask, node)
	return allowed && p.account.FitsNode(queue.Name, accountAsk(ask), name, account.Freed{}) == nil
}
