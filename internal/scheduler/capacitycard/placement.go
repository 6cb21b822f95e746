package capacitycard

import (
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// nodeSearch is what the predicate and the score of a node depend on besides the node, in one
// search for a node for a pod.
type nodeSearch struct {
	checkInput
	// refusal is what podChecks have against the pod, known whether its job is.
	refusal *workload.Refusal
	known   bool
	// reclaims tells that cards may be taken from other queues for the pod on the way.
	mayReclaim bool
	// awaits is what the plugin's awaits answered, once it was asked.
	awaitsNominated bool
	awaitsOnce      sync.Once
	// once reads the rest when the first node is scored: most searches score none.
	once sync.Once
	// requests are what the pod asks for of each resource.
	requests map[corev1.ResourceName]float64
	// weight is what packing counts in the score of a node.
	weight float64
	// hosts are the nodes that hold cards of the pod's gang, by name. It is nil for a pod
	// that belongs to no gang.
	gangNodes map[string]bool
	// rests are the pods of the gang without a node that may run on a card, by its name.
	gangRests map[card.Name]*gangRest
}

// gangRest is what the pods of a gang need that have no node yet.
type gangRest struct {
	// names are the cards that the pods name, all when they name none.
	cards card.Request
	// pods is how many of them the gang still needs, the pod that is placed included.
	pods int
	// requests are the sums of what they ask for, in Volcano's units.
	requests map[corev1.ResourceName]float64
}

// searchFor is the search for a node for a task that Volcano does now.
func (p *plugin) searchFor(task *api.TaskInfo) *nodeSearch {
	s := p.search.Load()
	if s == nil || s.task != task {
		s = p.newSearch(task) // scored without having been announced
	}
	s.once.Do(func() { p.prepareScoring(s) })
	return s
}

func (p *plugin) newSearch(task *api.TaskInfo) *nodeSearch {
	s := &nodeSearch{}
	s.checkInput, s.refusal, s.known = p.checkedInput(task)
	return s
}

// prepareScoring fills a search in.
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

// gangNodeNames are the nodes that hold cards of a resource for a job.
func (p *plugin) gangNodeNames(job *api.JobInfo, resource corev1.ResourceName) map[string]bool {
	hosts := map[string]bool{}
	for task := range tasksIn(job, func(status api.TaskStatus) bool { return api.AllocatedStatus(status) || status == api.Pipelined }) {
		if task.Resreq.Get(resource) > 0 {
			hosts[task.NodeName] = true
		}
	}
	return hosts
}

// gangRestsByCard sums up the waiting pods of a job that ask for the same resource as a pod of it,
// by the cards of that pod. The job lacks so many pods of its minimum. What pods ask for
// beyond the minimum is left out: of pods that differ, the average counts.
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

// limitPods leaves so many pods at most.
func (r *gangRest) limitPods(pods int) {
	if pods >= r.pods {
		return
	}
	for resource := range r.requests {
		r.requests[resource] *= float64(pods) / float64(r.pods)
	}
	r.pods = pods
}

// fitsIdle reports whether all of the rest fit into what is idle.
func (r *gangRest) fitsIdle(idle *api.Resource) bool {
	for resource, request := range r.requests {
		if request > idle.Get(resource)+tolerance {
			return false
		}
	}
	return true
}

// podsThatFit is how many pods such as the one of the search fit into what is idle.
func (s *nodeSearch) podsThatFit(idle *api.Resource) int {
	pods := math.MaxInt32
	for resource, request := range s.requests {
		pods = min(pods, int((idle.Get(resource)+tolerance)/request))
	}
	return max(0, pods)
}

// placementOn describes the pod on a node with a card to the score.
func (s *nodeSearch) placementOn(node *api.NodeInfo, name card.Name) placement {
	idle := node.Idle
	if !s.task.InitResreq.LessEqual(idle, api.Zero) {
		idle = node.FutureIdle() // the pod waits there for others to end, if it fits then
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

// placement is a pod on a node, as the score sees it. Cards are those of the resource that
// the pod asks for.
type placement struct {
	// cards is how many the pod asks for, above 0. restCards is how many the pods of its gang
	// ask for that have no node yet, this pod included: the same for a pod of no gang.
	cards, restCards float64
	// total is how many cards the node has, idle how many of them no pod holds.
	total, idle float64
	// avoided tells that the node has a taint PreferNoSchedule that the pod does not tolerate.
	avoided bool
	// holdsGang tells that pods of the gang are on the node, fitsRest that all of its pods
	// fit that have no node yet.
	holdsGang, fitsRest bool
	// pods is how many pods such as this one fit.
	pods int
}

// The score has three steps: a node that holds pods of the gang, a node on which the whole
// rest of the gang fits, any other node. Between two steps is a gap as large as a step, so
// that scores of other plugins that differ by less than the gap never split a gang.
const (
	scoreStep      = 0.2
	holdsGangScore = 0.8
	fitsRestScore  = 0.4
)

// score is from 0 to 1. Within the two upper steps it is the part of the node's cards that is
// in use when the pods are placed: whole nodes stay free for pods that need whole nodes. Where
// only a part of the gang fits, the larger part is better: the gang takes fewer nodes. A node
// to be avoided is packed by no pod and scores 0.
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
	default: // the pod waits for cards that others hold
		return scoreStep * p.usedWith(p.cards)
	}
}

// usedWith is the part of the node's cards that is in use with so many more, from 0 to 1.
func (p placement) usedWith(cards float64) float64 {
	if p.total <= 0 {
		return 0
	}
	return max(0, min(1, (p.total-p.idle+cards)/p.total))
}
