package cardreclaim

// This file has what all parts of a search share: the session, the keys of pods and victims, and the budget of work.

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/scheduler/reclaimrules"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// searchSession is what all parts of the search know of one session.
type searchSession struct {
	*snapshot.Session
	// The parts of the plugin that a search asks.
	rules     *reclaimrules.Rules
	kept      *keptcards.Kept
	prices    *victims.Prices
	evictions *snapshot.Evictions
	events    *capacitycard.Events

	search *Search
	now    time.Time
	// nodeIndex is the index of each node in nodes, by name.
	nodeIndex map[string]int
	nodes     []*api.NodeInfo
	// scope is what the search for the current job looked at.
	scope searchScope
	budget
	// terminating are the pods that were terminating when the session began, except those that
	// hang.
	terminating map[api.TaskID]*api.TaskInfo
}

// newPluginSession returns what the plugin says about a session.
func newPluginSession(plugin *capacitycard.Plugin, search *Search) *searchSession {
	return &searchSession{
		Session: plugin.Session, rules: plugin.Rules, kept: plugin.Kept, prices: plugin.Prices, evictions: plugin.Evictions, events: plugin.Events,
		search: search, now: plugin.Now(),
	}
}

// newSearchSession returns what a search knows of a session.
func newSearchSession(plugin *capacitycard.Plugin, search *Search) *searchSession {
	s := newPluginSession(plugin, search)
	s.budget = search.budget
	s.nodes = s.Volcano.NodeList
	s.nodeIndex = make(map[string]int, len(s.nodes))
	s.terminating = map[api.TaskID]*api.TaskInfo{}
	for i, node := range s.nodes {
		s.nodeIndex[node.Name] = i
	}

	for _, job := range s.Volcano.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Releasing] {
			if !s.IsStuckTerminating(task) { // stuck pods may never end, so no pod waits for them
				s.terminating[uid] = task
			}
		}
	}

	return s
}

// reclaimerKey is all that the rules look at in a reclaiming pod.
type reclaimerKey struct {
	queue       api.QueueID
	serviceType string
}

// victimKey is all that decides which jobs may be evicted for a reclaiming pod. In flat queues that is
// the priority of its queue, so that all queues of a service type share their victim jobs. In a tree it
// is the queue.
type victimKey struct {
	queue       api.QueueID
	priority    int32
	serviceType string
}

// podKind identifies pods that fit on the same nodes. Volcano's plugins look at the queue of a
// pod as well as at the pod.
type podKind struct {
	reclaimerKey
	needs string
}

// takeKey is what a take limit is about, the most of a card, CPU or memory that victims may be taken from a queue and
// all queues below it. With borrowed that is what they use beyond what the queue deserves, otherwise what they use
// beyond its guarantee.
type takeKey struct {
	queue    string
	name     quota.Resource
	borrowed bool
}

// searchScope is what the search for one job looked at. nodes, everywhere and takes are as in failedSearch.
type searchScope struct {
	kinds      map[podKind]bool
	nodes      [][]int
	everywhere bool
	takes      map[takeKey]seenTake
	// unbound reports whether the search ended at something that is not about nodes, such as
	// an unbound volume. Such a search is cheap, and its result may change at any time.
	unbound bool
}

// reclaimsFor reports whether resources are reclaimed for a request: cards, and CPU and memory
// if the policy says so.
func (s *searchSession) reclaimsFor(request *quota.Request) bool {
	return request.Count > 0 || s.ReclaimsAll()
}

// mayReclaimCPUMemory reports whether a queue may use so much more CPU, in millicores, and
// memory, in bytes, while it reclaims: its quota must have them left, and if they are reclaimed,
// the queue must deserve them. In a tree, evictions may free the quotas of its ancestors, so these do not count.
func (s *searchSession) mayReclaimCPUMemory(queue api.QueueID, milliCPU, memory int64) bool {
	request := quota.Request{MilliCPU: milliCPU, Memory: memory}
	return s.Ledger.Fits(string(queue), request, s.WithinReclaimable())
}

// seenTake is a limit of what may be taken from queues of a tree, as a search saw it: the most that could be taken, and
// how much the victims use that count against it. Only a limit below what they use protects any of them.
type seenTake struct{ most, used int64 }

// addTake records that a victim counts an amount against a limit, and the most that this limit allows.
func (s *searchScope) addTake(key takeKey, most, amount int64) {
	if s.takes == nil {
		s.takes = map[takeKey]seenTake{}
	}
	s.takes[key] = seenTake{most, quota.AddSaturating(s.takes[key].used, amount)}
}

// mayPreempt reports whether a pod waits only for resources, and its preemption policy allows
// evictions for it.
func (s *searchSession) mayPreempt(task *api.TaskInfo) bool {
	return !task.SchGated && !task.BestEffort && !gang.NeverPreempts(task)
}

// victimKeyFor returns the key of the jobs that may be evicted for a reclaimer.
func (s *searchSession) victimKeyFor(key reclaimerKey) victimKey {
	if s.IsTree() {
		return victimKey{queue: key.queue, serviceType: key.serviceType}
	}
	return victimKey{priority: s.Volcano.Queues[key.queue].Queue.Spec.Priority, serviceType: key.serviceType}
}

func (s *searchSession) reclaimerKeyFor(task *api.TaskInfo) reclaimerKey {
	return reclaimerKey{s.Volcano.Jobs[task.Job].Queue, s.ServiceType(task)}
}

// indexOfNode returns the index of a node, or one after all others if the session does not
// have the node.
func (s *searchSession) indexOfNode(node string) int {
	if i, ok := s.nodeIndex[node]; ok {
		return i
	}
	return len(s.nodes)
}

// Bounds of the work in one session, in the unit of solver.MaxWork. No pod is scheduled during a search, and tenants
// decide by their pods how much work it is.
const (
	// maxWorkPerSession is for all jobs. No job begins with less than solver.MaxWork left, the most for one job. The
	// next sessions search for the other jobs.
	maxWorkPerSession = 2 * solver.MaxWork
	// maxPodKinds bounds the kinds of pods that are placed together: each kind is checked on every node.
	maxPodKinds = 64
)

// Approximate work of Volcano's and the plugin's functions, in the unit of solver.MaxWork.
const (
	workPerTask      = 3_000 // what a pod needs, and whether it fits anywhere
	workPerPredicate = 400   // whether a pod fits on a node
	workPerNode      = 50    // a node of a pod set in a problem
	workPerMove      = 3_000 // evicting or placing a pod in the session
	workPerPair      = 50    // whether two pods conflict on a node, for each of their terms
)

// budget bounds the work for a job and for the session, and counts it.
type budget struct {
	// work is the session's work so far beside predicateWork. jobEnd is where the budget of
	// the current job ends.
	work, jobEnd int
	// predicateWork is the work of predicates that does not count against the job's budget.
	// predicateBudget is how much more of it the job may have.
	predicateWork, predicateBudget int
	// maxPerJob and maxPerSession are the bounds of work, smaller ones in tests.
	maxPerJob, maxPerSession int
	// searchCut reports whether the last search ended at its budget without a plan,
	// anySearchCut whether any search for the job did.
	searchCut, anySearchCut bool
}

func newBudget() budget { return budget{maxPerJob: solver.MaxWork, maxPerSession: maxWorkPerSession} }

// startJob begins the budget of a job in a cluster of so many nodes. Predicates of as many
// kinds of pods as are placed together do not count against it. Without their result no search can begin, and
// in a large cluster they would use up the budget.
func (b *budget) startJob(nodes int) {
	b.jobEnd = b.work + b.maxPerJob
	b.predicateBudget = workPerPredicate * maxPodKinds * nodes
	b.anySearchCut = false
}

func (b *budget) addWork(work int) { b.work += work }

// addPredicateWork adds the work of predicates. What exceeds predicateBudget counts against the job's budget.
func (b *budget) addPredicateWork(work int) {
	free := min(work, b.predicateBudget)
	b.predicateBudget -= free
	b.predicateWork += free
	b.addWork(work - free)
}

// totalWork returns all work of the session.
func (b *budget) totalWork() int { return b.work + b.predicateWork }

// jobExhausted reports whether the budget of the job is used up.
func (b *budget) jobExhausted() bool { return b.work >= b.jobEnd }

// sessionExhausted reports whether no other job may begin. The first job always may. Each job begins with its full
// budget: with less it might fail although its search is not too large.
func (b *budget) sessionExhausted() bool {
	return b.totalWork() > 0 && b.maxPerSession-b.totalWork() < b.maxPerJob
}

// solveProblem returns a plan for a problem, nil if it finds none or the job's budget is used up. What is left of the
// budget bounds how much cheaper the solver makes its first plan, not the search for the first plan itself.
func (b *budget) solveProblem(p *solver.Problem) *solver.Plan {
	if b.jobExhausted() {
		return nil
	}
	answer := solver.Solve(p, b.jobEnd-b.work)
	b.addWork(answer.Work)
	b.searchCut = answer.Plan == nil && answer.OutOfBudget
	b.anySearchCut = b.anySearchCut || b.searchCut
	return answer.Plan
}

// addPairWork adds the work of checking whether two pods conflict: by each of the two and of their ports and terms, and by
// each pair of ports.
func (b *budget) addPairWork(a, other *corev1.Pod) {
	ports := countPorts(a)
	others := countPorts(other)
	b.addWork(workPerPair*(2+ports+others+countAntiAffinityTerms(a)+countAntiAffinityTerms(other)) + ports*others)
}

// countPorts returns how many ports the containers of a pod have, which may be ports of the host.
func countPorts(pod *corev1.Pod) int {
	n := 0
	for i := range pod.Spec.Containers {
		n += len(pod.Spec.Containers[i].Ports)
	}
	return n
}

// countAntiAffinityTerms returns how many terms of required anti-affinity a pod has. Preferred ones block no node.
func countAntiAffinityTerms(pod *corev1.Pod) int {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return 0
}

// mostTaken returns the most of a name that victims may be taken from a queue and all below it: what these use beyond what
// the queue deserves, or beyond its guarantee.
func (s *searchSession) mostTaken(key takeKey) int64 {
	if key.borrowed {
		return max(0, s.Ledger.AboveDeserved(key.queue, key.name))
	}
	return max(0, s.Ledger.AboveGuarantee(key.queue, key.name))
}
