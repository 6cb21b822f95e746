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

// attempt is what Volcano's action preempt tries now: one pod on one node. It
// then asks Allocatable without telling the node, and room on another card
// than the node's would end the eviction too early, or never begin it.
type attempt struct {
	pod  api.TaskID
	node string // "" when Volcano does not tell, since nothing can be evicted there
	// refused tells that the pod gets no promise of the node, whatever room Volcano finds
	// there.
	refused bool
	// apart are those that must go before the pod can be there.
	apart []*api.TaskInfo
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
	if try.refused = p.awaits(preemptor); try.refused || len(preemptees) == 0 || !known || p.closedGate(job) != nil {
		return nil, util.Permit
	}
	try.node = preemptees[0].NodeName
	ask := p.Ask(preemptor)
	name, allowed := p.cardFor(ask, try.node)
	node, known := p.ssn.Nodes[try.node]
	if !allowed || !known || p.account.IsTerminatingOverQuota(string(job.Queue), name) {
		return nil, util.Permit
	}
	candidates, breaks := p.candidates(preemptor, preemptees)
	apart, victims, useful := p.victims(preemptor, node, name, candidates)
	try.refused = !useful || len(victims) > 0 && p.fitsBesideItsJob(preemptor, job, try.node)
	if try.apart = apart; len(p.hanging[node.Name]) > 0 {
		try.apart = victims // Volcano counts on what pods hold that hang, and would spare some
	}
	if try.refused || p.endsTooMuch(job.Queue, name, victims) {
		return nil, util.Permit
	}
	if try.refused = p.goInVain(preemptor, node, preemptees, victims, breaks); try.refused {
		return nil, util.Permit
	}
	return victims, util.Permit
}

// goInVain reports whether victims would go for a pod that could not run on the node even so,
// or break a gang although pods that jobs can spare do on another node.
func (p *plugin) goInVain(preemptor *api.TaskInfo, node *api.NodeInfo, preemptees, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	breaksGang := func(victim *api.TaskInfo) bool { return breaks[victim.UID] }
	return len(victims) > 0 && p.refusesWithoutQuota(preemptor, node) ||
		slices.ContainsFunc(victims, breaksGang) && p.sparesElsewhere(preemptor, preemptees)
}

// victims picks those of the candidates who must go from a node for a pod: who may not be
// beside it, which it also returns alone, and as few others as give what is lacking. It is
// not useful that any go when the pod could not run there even so.
func (p *plugin) victims(by *api.TaskInfo, node *api.NodeInfo, name card.Name, candidates []*api.TaskInfo) (apart, all []*api.TaskInfo, useful bool) {
	queue := p.ssn.Jobs[by.Job].Queue
	lacks := p.lacks(by, node)
	apart, rest, useful := p.keptApart(by, node, candidates)
	for _, victim := range apart {
		lacks.add(p.given(victim, queue, name), -1)
	}
	others := p.fewest(rest, lacks, queue, name)
	return apart, slices.Concat(apart, others), useful && (len(others) > 0 || lacks.none())
}

// candidates are the pods that may make room for another one, in the order in which
// they go, and those of them that break a gang.
func (p *plugin) candidates(preemptor *api.TaskInfo, preemptees []*api.TaskInfo) ([]*api.TaskInfo, map[api.TaskID]bool) {
	var candidates []*api.TaskInfo
	for _, preemptee := range preemptees {
		if p.outranks(preemptor, preemptee) && p.evictable(preemptee) && !p.saysItGoes(preemptee) {
			candidates = append(candidates, preemptee)
		}
	}
	slices.SortStableFunc(candidates, p.byPriority)
	return p.keepGangs(preemptor, candidates)
}

// lacks is what a node and the queue of a pod have too little of for it.
func (p *plugin) lacks(task *api.TaskInfo, node *api.NodeInfo) amounts {
	ask, queue := p.Ask(task), p.ssn.Jobs[task.Job].Queue
	name, _ := p.cardFor(ask, node.Name)
	lacks := lacking(task.InitResreq, p.RoomOn(node))
	for _, short := range p.account.InsufficientAfterRelease(string(queue), ask.Request, name, quota.Released{}) {
		if what, ok := quotaOf[short.Kind]; ok { // evictions are no help against what is ending
			lacks[what] = float64(short.Total - short.Limit)
		}
	}
	return lacks
}

// keptApart splits candidates into those that may not be beside a pod and the rest. It
// is false when others that may not be there stay.
func (p *plugin) keptApart(by *api.TaskInfo, node *api.NodeInfo, candidates []*api.TaskInfo) (apart, rest []*api.TaskInfo, useful bool) {
	stay := map[api.TaskID]bool{}
	for _, task := range node.Tasks {
		if task.UID != by.UID && workload.ConflictOnNode(by.Pod, task.Pod) && !p.isEvicted(task) {
			stay[task.UID] = true
		}
	}
	if len(stay) == 0 {
		return nil, candidates, true
	}
	for _, candidate := range candidates {
		if stay[candidate.UID] {
			apart = append(apart, candidate)
		} else {
			rest = append(rest, candidate)
		}
	}
	return apart, rest, len(apart) == len(stay)
}

// fitsBeside reports whether no pod that stays on a node keeps another one off it.
func (p *plugin) fitsBeside(task *api.TaskInfo, node *api.NodeInfo) bool {
	_, _, fits := p.keptApart(task, node, nil)
	return fits
}

// fitsBesideItsJob tells that a pod needs nobody evicted on one node, since it fits
// another one that pods of its job were promised in this session, or that a gang leaves.
// Where Volcano looks at a sample of the nodes that one may not be among them.
func (p *plugin) fitsBesideItsJob(task *api.TaskInfo, job *api.JobInfo, except string) bool {
	if nodes := int32(len(p.ssn.NodeList)); schedulerutil.CalculateNumOfFeasibleNodesToFind(nodes) < nodes {
		return false
	}
	fits := func(name string) bool {
		node, known := p.ssn.Nodes[name]
		if !known || name == except {
			return false
		}
		if _, allowed := p.cardFor(p.Ask(task), name); !allowed || !p.lacks(task, node).none() {
			return false
		}
		return p.fitsBeside(task, node)
	}
	for _, other := range job.TaskStatusIndex[api.Pipelined] {
		if fits(other.NodeName) {
			return true
		}
	}
	return slices.ContainsFunc(p.preemption.leftNodes(), func(name string) bool {
		return fits(name) && p.ssn.PredicateForPreemptAction(task, p.ssn.Nodes[name]) == nil
	})
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

// cardFor is the card that a pod would use on a node, false when it may not
// run there. A pod without cards may run anywhere and uses none.
func (p *plugin) cardFor(ask *workload.Request, node string) (card.Name, bool) {
	switch {
	case ask.Denied != nil:
		return "", false
	case ask.Count == 0:
		return "", true
	}
	name, ok := p.inv.CardOnNode(node, ask.Resource)
	return name, ok && ask.Named.Allows(name)
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

// saysItGoes reports whether the eviction of a pod began a moment ago: its writes are still
// tried.
func (p *plugin) saysItGoes(task *api.TaskInfo) bool {
	since, evicted := workload.EvictedSince(task.Pod)
	return evicted && p.cache.now().Sub(since) < evictionLasts
}

func (p *plugin) evictable(task *api.TaskInfo) bool {
	job := p.ssn.Jobs[task.Job]
	return job != nil && job.PodGroup != nil && workload.IsEvictable(task.Pod, job.PodGroup.Annotations)
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
func (p *plugin) fitsAttempt(r request, try *attempt) bool {
	if try.refused || p.refusal(podChecks, r) != nil {
		return false
	}
	for _, victim := range try.apart {
		if p.ssn.Jobs[victim.Job].Tasks[victim.UID].Status != api.Releasing {
			return false
		}
	}
	if try.node == "" {
		for name := range p.hanging { // it may be this one
			of, known := p.ssn.Nodes[name]
			if _, allowed := p.cardFor(r.ask, name); known && allowed && p.needsHanging(r.task, of) && len(p.preemptableOn(of, r.task)) > 0 {
				return false
			}
		}
		return p.account.FitsAllCards(string(r.job.Queue), r.ask.Request)
	}
	r.node = try.node
	return p.refusal(cardChecks, r) == nil
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

var quotaOf = map[quota.LimitKind]string{quota.Cards: quotaCards, quota.CPU: quotaCPU, quota.Memory: quotaMemory}

// tolerance is how much Volcano lets a request exceed what is idle
// (pkg/scheduler/api, minResource).
const tolerance = 0.1

// lacking is what a node has too little of for a request, counting what is
// being released on it; empty when the request fits.
func lacking(request, futureIdle *api.Resource) amounts {
	idle, lacks := resources(futureIdle), amounts{}
	for what, asked := range resources(request) {
		if short := asked - idle[what]; asked > 0 && short > tolerance {
			lacks[what] = short
		}
	}
	return lacks
}

// resources lists what is counted on a node.
func resources(r *api.Resource) amounts {
	list := make(amounts, 2+len(r.ScalarResources))
	list["cpu"], list["memory"] = r.MilliCPU, r.Memory
	for name, quantity := range r.ScalarResources {
		if !api.IsIgnoredScalarResource(name) {
			list[string(name)] = quantity
		}
	}
	return list
}

// irreducible picks as few of the candidates as are needed, in their order:
// the first that help, and then without any whose place the others fill. It
// picks none when all together are not enough: nobody is evicted for a pod that
// could not run afterwards either.
func irreducible(lacks amounts, gives []amounts) []int {
	var picked []int
	left := maps.Clone(lacks)
	for i, give := range gives {
		if left.none() {
			break
		}
		if left.reducedBy(give) {
			picked = append(picked, i)
			left.add(give, -1)
		}
	}
	if !left.none() {
		return nil
	}
	for i := len(picked) - 1; i >= 0; i-- {
		if without := maps.Clone(left).add(gives[picked[i]], 1); without.none() {
			left = without
			picked = append(picked[:i], picked[i+1:]...)
		}
	}
	return picked
}

func (a amounts) none() bool {
	for _, n := range a {
		if n > tolerance {
			return false
		}
	}
	return true
}

func (a amounts) reducedBy(give amounts) bool {
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
