package capacitycard

import (
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/packing"
	"cardquota.dev/operator/internal/workload"
)

// search is what the predicate and the score of a node depend on besides the node, in one
// search for a node for a pod.
type search struct {
	request
	// refusal is what podChecks have against the pod, known whether its job is.
	refusal *workload.Refusal
	known   bool
	// once reads the rest when the first node is scored: most searches score none.
	once sync.Once
	// requests are what the pod asks for of each resource.
	requests map[corev1.ResourceName]float64
	// weight is what packing counts in the score of a node.
	weight float64
	// hosts are the nodes that hold cards of the pod's gang, by name. It is nil for a pod
	// that belongs to no gang.
	hosts map[string]bool
	// rests are the pods of the gang without a node that may run on a card, by its name.
	rests map[card.Name]*rest
}

// rest is what the pods of a gang need that have no node yet.
type rest struct {
	// names are the cards that the pods name, all when they name none.
	names card.Request
	// pods is how many of them the gang still needs, the pod that is placed included.
	pods int
	// requests are the sums of what they ask for, in Volcano's units.
	requests map[corev1.ResourceName]float64
}

// searchFor is the search for a node for a task that Volcano does now.
func (p *plugin) searchFor(task *api.TaskInfo) *search {
	s := p.search.Load()
	if s == nil || s.task != task {
		s = p.newSearch(task) // scored without having been announced
	}
	s.once.Do(func() { p.read(s) })
	return s
}

func (p *plugin) newSearch(task *api.TaskInfo) *search {
	s := &search{}
	s.request, s.refusal, s.known = p.checked(task)
	return s
}

// read fills a search in.
func (p *plugin) read(s *search) {
	s.requests = map[corev1.ResourceName]float64{}
	for _, resource := range s.task.InitResreq.ResourceNames() {
		s.requests[resource] = s.task.InitResreq.Get(resource)
	}
	s.weight = packingScore * p.args.nodeOrderWeight
	if p.prefers(s.task) {
		s.weight *= besidePreferences
	}
	job, ok := p.ssn.Jobs[s.task.Job]
	if !ok || job.MinAvailable <= 1 || s.ask.Count == 0 || workload.KeepApart(s.task.Pod, s.task.Pod) {
		return
	}
	s.hosts = p.hosts(job, s.ask.Resource)
	lacks := int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum())
	if lacks > 1 {
		s.rests = p.restsOf(job, s.ask, lacks)
	}
}

// hosts are the nodes that hold cards of a resource for a job.
func (p *plugin) hosts(job *api.JobInfo, resource corev1.ResourceName) map[string]bool {
	hosts := map[string]bool{}
	for task := range tasksIn(job, func(status api.TaskStatus) bool { return api.AllocatedStatus(status) || status == api.Pipelined }) {
		if task.Resreq.Get(resource) > 0 {
			hosts[task.NodeName] = true
		}
	}
	return hosts
}

// restsOf sums up the waiting pods of a job that ask for the same resource as a pod of it,
// by the cards of that pod. The job lacks so many pods of its minimum. What pods ask for
// beyond the minimum is left out: of pods that differ, the average counts.
func (p *plugin) restsOf(job *api.JobInfo, ask *workload.Request, lacks int) map[card.Name]*rest {
	alike := map[string]*rest{} // pods that name the same cards
	for _, task := range job.TaskStatusIndex[api.Pending] {
		other := p.Ask(task)
		if task.SchGated || other.Resource != ask.Resource || other.Count == 0 || other.Denied != nil {
			continue
		}
		named := alike[other.Named.String()]
		if named == nil {
			named = &rest{names: other.Named, requests: map[corev1.ResourceName]float64{}}
			alike[other.Named.String()] = named
		}
		named.pods++
		for _, resource := range task.Resreq.ResourceNames() {
			named.requests[resource] += task.Resreq.Get(resource)
		}
	}
	rests := map[card.Name]*rest{}
	for _, name := range ask.Names {
		rests[name] = &rest{requests: map[corev1.ResourceName]float64{}}
		for _, named := range alike {
			if named.names.Allows(name) {
				rests[name].add(named)
			}
		}
		rests[name].limit(lacks)
	}
	return rests
}

func (r *rest) add(other *rest) {
	r.pods += other.pods
	for resource, request := range other.requests {
		r.requests[resource] += request
	}
}

// limit leaves so many pods at most.
func (r *rest) limit(pods int) {
	if pods >= r.pods {
		return
	}
	for resource := range r.requests {
		r.requests[resource] *= float64(pods) / float64(r.pods)
	}
	r.pods = pods
}

// fits reports whether all of the rest fit into what is idle.
func (r *rest) fits(idle *api.Resource) bool {
	for resource, request := range r.requests {
		if request > idle.Get(resource)+slack {
			return false
		}
	}
	return true
}

// slack is by how much Volcano lets a request exceed what is idle: less than any unit.
const slack = 0.1

// podsThatFit is how many pods such as the one of the search fit into what is idle.
func (s *search) podsThatFit(idle *api.Resource) int {
	pods := math.MaxInt32
	for resource, request := range s.requests {
		pods = min(pods, int((idle.Get(resource)+slack)/request))
	}
	return max(0, pods)
}

// nodeFor describes a node with a card to the score.
func (s *search) nodeFor(node *api.NodeInfo, name card.Name) (packing.Node, packing.Pod) {
	idle := node.Idle
	if !s.task.InitResreq.LessEqual(idle, api.Zero) {
		idle = node.FutureIdle() // the pod waits there for others to end, if it fits then
	}
	count := s.task.Resreq.Get(s.ask.Resource)
	pod := packing.Pod{Cards: count, RestCards: count}
	described := packing.Node{
		Total: node.Allocatable.Get(s.ask.Resource), Idle: idle.Get(s.ask.Resource),
		Avoided: isAvoided(s.task, node), HoldsGang: s.hosts[node.Name], Pods: s.podsThatFit(idle),
	}
	described.FitsRest = described.Pods > 0
	if rest := s.rests[name]; rest != nil && rest.pods > 1 {
		described.FitsRest = described.FitsRest && rest.fits(idle)
		pod.RestCards = rest.requests[s.ask.Resource]
	}
	return described, pod
}
