package cardreclaim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// searchSession is what all parts of the search know of one session.
type searchSession struct {
	ssn    *framework.Session
	plugin *capacitycard.Plugin
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

// reclaimSession is one run of the action in one session, with what it has found out so far.
type reclaimSession struct {
	*searchSession
	// The following do the steps of a search. Each of them uses only those above it.
	victims  *victimFinder
	finder   *nodeFinder
	problems *problemBuilder
	unsolved *unsolvablePods
	applier  *planApplier
	// unfinished reports whether the budget ended before some job had its search, or during it. failedWork is the
	// work of searches that placed no pod.
	unfinished bool
	failedWork int
}

// unsolvablePods remembers for which pods a session found no plan, so that it does not search again for equal ones.
type unsolvablePods struct {
	*searchSession
	finder *nodeFinder
	// unsolvable is the smallest number of pods of one kind that cannot be placed together, whatever is evicted.
	// An eviction clears it.
	unsolvable map[unsolvableKey]int
	// unsolvableSets are pod sets that cannot be placed together, whatever is evicted. An
	// eviction clears them.
	unsolvableSets map[string]bool
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

// newSearchSession returns what a search knows of a session.
func newSearchSession(ssn *framework.Session, plugin *capacitycard.Plugin, search *Search) *searchSession {
	s := &searchSession{
		ssn: ssn, plugin: plugin, search: search, now: plugin.Now(), budget: search.budget,
		nodeIndex: make(map[string]int, len(ssn.NodeList)), nodes: ssn.NodeList, terminating: map[api.TaskID]*api.TaskInfo{},
	}

	for i, node := range ssn.NodeList {
		s.nodeIndex[node.Name] = i
	}

	for _, job := range ssn.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Releasing] {
			if !plugin.IsStuckTerminating(task) {
				s.terminating[uid] = task
			}
		}
	}

	return s
}

// newReclaimSession begins the search in a session. It forgets the needs of pods for which the last session did not ask.
func newReclaimSession(ssn *framework.Session, plugin *capacitycard.Plugin, search *Search) *reclaimSession {
	search.needs.startSession()
	s := &reclaimSession{searchSession: newSearchSession(ssn, plugin, search)}
	s.victims = &victimFinder{
		searchSession: s.searchSession, victimJobs: map[victimKey][]*victimJob{}, minRuntimeEnds: map[victimKey]time.Time{},
		evictablePods: map[victimKey]map[api.TaskID]bool{},
	}
	s.victims.disruptionBudgets = s.victims.listDisruptionBudgets()

	s.finder = &nodeFinder{
		searchSession: s.searchSession, victims: s.victims,
		fittingNodes: map[podKind][]int{}, offeringNodes: map[podKind][]int{}, blockedNodes: map[conflictKey]map[int]bool{},
	}
	s.problems = &problemBuilder{searchSession: s.searchSession, victims: s.victims, finder: s.finder}
	s.unsolved = &unsolvablePods{
		searchSession: s.searchSession, finder: s.finder, unsolvable: map[unsolvableKey]int{}, unsolvableSets: map[string]bool{},
	}
	s.applier = &planApplier{searchSession: s.searchSession, victims: s.victims, finder: s.finder, problems: s.problems, unsolved: s.unsolved}
	return s
}

// placeTasks finds nodes for pods of one job, evicts victims where cards are missing, and places the pods in the
// session: all or none of them, or as many as possible. It reports whether it placed any.
func (s *reclaimSession) placeTasks(job *api.JobInfo, tasks []*api.TaskInfo, allOrNone bool) bool {
	s.sortTasks(tasks)
	podSets, ok := s.finder.groupTasks(job, tasks, allOrNone)
	podSets = s.unsolved.dropUnsolvable(podSets, allOrNone)
	if !ok || len(podSets) == 0 {
		return false
	}

	// Each repetition excludes a node that turned out not to fit, so they come to an end.
	for !s.jobExhausted() {
		p := s.problems.newProblem(job, podSets)
		plan := p.solve(&s.budget, true)
		if plan == nil { // the pods do not all fit without victims
			plan = s.problems.solveWithVictims(p, allOrNone)
		}

		if plan == nil {
			s.unsolved.rememberUnsolvable(podSets, allOrNone)
			return false
		}

		unfit, placed := s.applier.applyPlan(job, p, plan, allOrNone)
		if placed {
			return true
		}
		// Without an unfit node, another try would fail for the same reason. A gang that fits once terminating pods
		// are gone waits for them, instead of taking more victims.
		if unfit == nil || (unfit.waits && allOrNone) {
			return false
		}

		s.finder.excludeNode(unfit)
		if unfit.waits { // one pod waits for terminating pods, the others may still be placed
			podSets = dropFirstPod(podSets, unfit.podSet)
			if len(podSets) == 0 {
				return false
			}
		}
	}

	return false
}

// dropFirstPod drops the first pod of a pod set, and the pod set if that was its only pod. It returns the pod sets
// that are left.
func dropFirstPod(podSets []*podSet, from *podSet) []*podSet {
	from.tasks = from.tasks[1:]
	if len(from.tasks) > 0 {
		return podSets
	}
	return slices.DeleteFunc(podSets, func(set *podSet) bool { return set == from })
}

// dropUnsolvable drops the pod sets of which not even one pod can be placed. It returns none
// if all pods are to be placed and that is known to be impossible.
func (u *unsolvablePods) dropUnsolvable(podSets []*podSet, allOrNone bool) []*podSet {
	isUnsolvable := func(set *podSet) bool {
		n, known := u.unsolvable[u.unsolvableKeyOf(set)]
		// Where as many as possible are placed, fewer than n may fit, unless n is 1.
		isRemembered := known && (n == 1 || (allOrNone && len(set.tasks) >= n))
		return isRemembered || u.jobExhausted() || len(u.finder.nodesOf(set)) == 0
	}

	if allOrNone && (slices.ContainsFunc(podSets, isUnsolvable) || (len(podSets) > 1 && u.unsolvableSets[u.podSetsKey(podSets)])) {
		return nil
	}
	return slices.DeleteFunc(podSets, isUnsolvable)
}

// rememberUnsolvable remembers that pods cannot be placed, whatever is evicted. If all were to
// be placed, that is true for this count or these pod sets, otherwise even for one pod of each.
// It remembers nothing if the search ended at its budget or left out nodes: the pods may fit after all.
func (u *unsolvablePods) rememberUnsolvable(podSets []*podSet, allOrNone bool) {
	hasExcludedNodes := func(set *podSet) bool { return len(set.excluded)+len(set.maxByNode) > 0 }
	if u.jobExhausted() || u.searchCut || (allOrNone && slices.ContainsFunc(podSets, hasExcludedNodes)) {
		return
	}
	if allOrNone && len(podSets) > 1 {
		u.unsolvableSets[u.podSetsKey(podSets)] = true
		return
	}

	for _, set := range podSets {
		if hasExcludedNodes(set) {
			continue
		}

		n := 1
		if allOrNone {
			n = len(set.tasks)
		}

		key := u.unsolvableKeyOf(set)
		if known, ok := u.unsolvable[key]; !ok || n < known {
			u.unsolvable[key] = n
		}
	}
}

// podSetsKey returns a text that is equal for pod sets of the same reclaimer with the same kinds and counts of pods,
// in whatever order.
func (u *unsolvablePods) podSetsKey(podSets []*podSet) string {
	key := u.reclaimerKeyOf(podSets)
	parts := make([]string, len(podSets))
	for i, set := range podSets {
		parts[i] = fmt.Sprintf("%d of %s beside %x", len(set.tasks), set.needs, u.unsolvableKeyOf(set).blocked)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %q %q", key.queue, key.serviceType, parts)
}

func (s *searchSession) kindOf(set *podSet) podKind {
	return podKind{s.reclaimerKeyFor(set.tasks[0]), set.needs}
}

// unsolvableKey identifies pods that fit on the same nodes beside the pods that cannot be evicted.
type unsolvableKey struct {
	podKind
	// blocked is a hash of the nodes that such pods block, 0 for none.
	blocked uint64
}

// unsolvableKeyOf returns the key of a pod set: its kind, and which nodes are blocked for it.
func (u *unsolvablePods) unsolvableKeyOf(set *podSet) unsolvableKey {
	u.finder.findBlockedNodes(set)
	key := unsolvableKey{podKind: u.kindOf(set)}
	for node := range set.blocked {
		key.blocked += hashOf(node) // a sum is the same in each order of the map
	}
	return key
}

// victimKeyFor returns the key of the jobs that may be evicted for a reclaimer.
func (s *searchSession) victimKeyFor(key reclaimerKey) victimKey {
	if s.plugin.IsTree() {
		return victimKey{queue: key.queue, serviceType: key.serviceType}
	}
	return victimKey{priority: s.ssn.Queues[key.queue].Queue.Spec.Priority, serviceType: key.serviceType}
}

func (s *searchSession) reclaimerKeyFor(task *api.TaskInfo) reclaimerKey {
	return reclaimerKey{s.ssn.Jobs[task.Job].Queue, s.plugin.ServiceType(task)}
}

// reclaimerKeyOf returns the key of the pods that reclaim, which is the same for all of them. If none reclaims, it is
// that of the first pod.
func (s *searchSession) reclaimerKeyOf(podSets []*podSet) reclaimerKey {
	return s.reclaimerKeyFor(podSets[max(0, s.firstReclaimer(podSets))].tasks[0])
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

// addPairWork adds the work of checking whether two pods conflict: by each of their terms, and by each pair of ports.
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
