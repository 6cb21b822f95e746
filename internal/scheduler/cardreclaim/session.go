package cardreclaim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
)

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

// newReclaimSession begins the search in a session. It forgets the needs of pods for which the last session did not ask.
func newReclaimSession(plugin *capacitycard.Plugin, search *Search) *reclaimSession {
	search.needs.startSession()
	s := &reclaimSession{searchSession: newSearchSession(plugin, search)}
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

// placeTasks finds nodes for pods of one job, evicts victims where cards are missing, and places the pods in
// the session: all or none of them, or as many as possible. It reports whether it placed any. First it drops
// the pods for which this session found no plan already.
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
		plan := p.solve(&s.budget, true) // all of them, without victims
		if plan == nil {
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

// sortTasks sorts pods in the order in which Volcano would place them, equal ones by name, so
// that a session is reproducible.
func (s *reclaimSession) sortTasks(tasks []*api.TaskInfo) {
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(compareBy(func(a, b *api.TaskInfo) bool { return s.Volcano.TaskOrderFn(a, b) }, a, b),
			cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) // x-2 before x-10
	})
}

// compareBy compares by a function that reports whether its first argument comes before its second.
func compareBy[T any](before func(a, b T) bool, a, b T) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
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

// dropUnsolvable drops the pod sets of which not even one pod can be placed, and all once the budget is used up. It returns
// none if all pods are to be placed and that is known to be impossible.
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

// rememberUnsolvable remembers that pods cannot be placed, whatever is evicted. If all were to be placed,
// that is true for this count or these pod sets, otherwise even for one pod of each. It remembers nothing if
// the search ended at its budget, or of pods for which it left out nodes: they may fit after all.
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

		count := 1
		if allOrNone {
			count = len(set.tasks)
		}

		key := u.unsolvableKeyOf(set)
		if known, ok := u.unsolvable[key]; !ok || count < known {
			u.unsolvable[key] = count
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
