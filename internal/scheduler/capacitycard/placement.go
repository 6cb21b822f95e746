package capacitycard

import (
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// nodeSearch is the state of one node search for a pod: what the predicate and the score read
// besides the node.
type nodeSearch struct {
	checkInput
	// refusal is the result of podChecks; known is whether the pod's job is in the session.
	refusal *workload.Refusal
	known   bool
	// mayReclaim is set if the pod may reclaim cards from other queues in this search.
	mayReclaim bool
	// awaitsNominated is the answer of awaitsNominatedNode, computed once.
	awaitsNominated bool
	awaitsOnce      sync.Once
	// once fills in the rest when the first node is scored, since most searches score none.
	once sync.Once
	// requests are the pod's requests by resource.
	requests map[corev1.ResourceName]float64
	// weight is the highest packing score of a node.
	weight float64
	// gangNodes are the names of nodes that hold cards of the pod's gang, nil without a gang.
	gangNodes map[string]bool
	// gangRests are the pending pods of the gang that may run on a card, by card.
	gangRests map[card.Name]*gangRest
}

// gangRest is what the pending pods of a gang request.
type gangRest struct {
	// cards are the cards that the pods name, all if they name none.
	cards card.Request
	// pods is how many of them the gang still needs, including the pod to place.
	pods int
	// requests are their summed requests, in Volcano's units.
	requests map[corev1.ResourceName]float64
}

// searchFor returns the current node search of a task.
func (p *plugin) searchFor(task *api.TaskInfo) *nodeSearch {
	s := p.search.Load()
	if s == nil || s.task != task {
		s = p.newSearch(task) // scored without prePredicate
	}
	s.once.Do(func() { p.prepareScoring(s) })
	return s
}

func (p *plugin) newSearch(task *api.TaskInfo) *nodeSearch {
	s := &nodeSearch{}
	s.checkInput, s.refusal, s.known = p.checkedInput(task)
	return s
}

// prepareScoring fills in what the score of a node reads.
func (p *plugin) prepareScoring(s *nodeSearch) {
	s.requests = map[corev1.ResourceName]float64{}
	for _, resource := range s.task.InitResreq.ResourceNames() {
		s.requests[resource] = s.task.InitResreq.Get(resource)
	}
	s.weight = packingScore * p.args.nodeOrderWeight
	if p.hasNodePreferences(s.task) {
		s.weight *= preferenceFactor
	}
	job, ok := p.ssn.Jobs[s.task.Job]
	if !ok || job.MinAvailable <= 1 || s.request.Count == 0 || workload.ConflictOnNode(s.task.Pod, s.task.Pod) {
		return
	}
	s.gangNodes = p.gangNodeNames(job, s.request.Resource)
	missing := int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum())
	if missing > 1 {
		s.gangRests = p.gangRestsByCard(job, s.request, missing)
	}
}

// gangNodeNames returns the nodes on which a job holds cards of a resource.
func (p *plugin) gangNodeNames(job *api.JobInfo, resource corev1.ResourceName) map[string]bool {
	hosts := map[string]bool{}
	for task := range tasksIn(job, func(status api.TaskStatus) bool { return api.AllocatedStatus(status) || status == api.Pipelined }) {
		if task.Resreq.Get(resource) > 0 {
			hosts[task.NodeName] = true
		}
	}
	return hosts
}

// gangRestsByCard sums the pending pods of a job that request the same resource as one of its
// pods, by the cards of that pod. missing is how many pods the job lacks for its minimum. Of
// more and different pods the average counts.
func (p *plugin) gangRestsByCard(job *api.JobInfo, request *workload.Request, missing int) map[card.Name]*gangRest {
	alike := map[string]*gangRest{} // pods that name the same cards
	for _, task := range job.TaskStatusIndex[api.Pending] {
		other := p.RequestFor(task)
		if task.SchGated || other.Resource != request.Resource || other.Count == 0 || other.Denied != nil {
			continue
		}
		named := alike[other.Named.String()]
		if named == nil {
			named = &gangRest{cards: other.Named, requests: map[corev1.ResourceName]float64{}}
			alike[other.Named.String()] = named
		}
		named.pods++
		for _, resource := range task.Resreq.ResourceNames() {
			named.requests[resource] += task.Resreq.Get(resource)
		}
	}
	rests := map[card.Name]*gangRest{}
	for _, name := range request.Names {
		rests[name] = &gangRest{requests: map[corev1.ResourceName]float64{}}
		for _, named := range alike {
			if named.cards.Allows(name) {
				rests[name].add(named)
			}
		}
		rests[name].limitPods(missing)
	}
	return rests
}

func (r *gangRest) add(other *gangRest) {
	r.pods += other.pods
	for resource, request := range other.requests {
		r.requests[resource] += request
	}
}

// limitPods reduces the rest to the average of so many pods.
func (r *gangRest) limitPods(pods int) {
	if pods >= r.pods {
		return
	}
	for resource := range r.requests {
		r.requests[resource] *= float64(pods) / float64(r.pods)
	}
	r.pods = pods
}

// fitsIdle reports whether all of the rest fit the idle resources.
func (r *gangRest) fitsIdle(idle *api.Resource) bool {
	for resource, request := range r.requests {
		if request > idle.Get(resource)+tolerance {
			return false
		}
	}
	return true
}

// podsThatFit returns how many pods like that of the search fit the idle resources.
func (s *nodeSearch) podsThatFit(idle *api.Resource) int {
	pods := math.MaxInt32
	for resource, request := range s.requests {
		pods = min(pods, int((idle.Get(resource)+tolerance)/request))
	}
	return max(0, pods)
}

// placementOn returns the input of the score for the pod on a node with a card.
func (s *nodeSearch) placementOn(node *api.NodeInfo, name card.Name) placement {
	idle := node.Idle
	if !s.task.InitResreq.LessEqual(idle, api.Zero) {
		idle = node.FutureIdle() // the pod could wait there for others to end
	}
	count := s.task.Resreq.Get(s.request.Resource)
	on := placement{
		cards: count, restCards: count, total: node.Allocatable.Get(s.request.Resource), idle: idle.Get(s.request.Resource),
		avoided: hasUntoleratedSoftTaint(s.task, node), holdsGang: s.gangNodes[node.Name], pods: s.podsThatFit(idle),
	}
	on.fitsRest = on.pods > 0
	if rest := s.gangRests[name]; rest != nil && rest.pods > 1 {
		on.fitsRest = on.fitsRest && rest.fitsIdle(idle)
		on.restCards = rest.requests[s.request.Resource]
	}
	return on
}

// placement is the input of the score: a pod on a node. Cards are those of the pod's resource.
type placement struct {
	// cards is how many the pod requests, above 0. restCards is the sum of the pending pods of
	// its gang, this pod included; for a pod without a gang it equals cards.
	cards, restCards float64
	// total is how many cards the node has, idle how many of them are free.
	total, idle float64
	// avoided is set if the node has an untolerated PreferNoSchedule taint.
	avoided bool
	// holdsGang is set if pods of the gang are on the node, fitsRest if all pending ones fit
	// there.
	holdsGang, fitsRest bool
	// pods is how many pods like this one fit.
	pods int
}

// The score has three steps: a node with pods of the gang, a node that fits all pending pods of
// the gang, and any other node. Between two steps is a gap as large as a step. So scores of
// other plugins that differ by less than the gap never split a gang.
const (
	scoreStep      = 0.2
	holdsGangScore = 0.8
	fitsRestScore  = 0.4
)

// score returns a value from 0 to 1. Within the two upper steps it is the fraction of the
// node's cards in use after the placement, which keeps whole nodes free. If only a part of the
// gang fits, a larger part scores higher, so the gang uses fewer nodes. A node to be avoided
// scores 0.
func (p placement) score() float64 {
	switch {
	case p.avoided:
		return 0
	case p.holdsGang:
		return holdsGangScore + scoreStep*p.usedWith(p.cards)
	case p.fitsRest:
		return fitsRestScore + scoreStep*p.usedWith(p.restCards)
	case p.pods > 0:
		return scoreStep * float64(p.pods) / float64(p.pods+1)
	default: // the pod waits for cards of other pods
		return scoreStep * p.usedWith(p.cards)
	}
}

// usedWith returns the fraction of the node's cards in use with so many more, from 0 to 1.
func (p placement) usedWith(cards float64) float64 {
	if p.total <= 0 {
		return 0
	}
	return max(0, min(1, (p.total-p.idle+cards)/p.total))
}
