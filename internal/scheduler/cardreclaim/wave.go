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

// reclaimSession is one execution of the action: one session, and what was worked out in
// it so far.
type reclaimSession struct {
	ssn    *framework.Session
	policy *capacitycard.ReclaimPolicy
	action *Action
	now    time.Time
	// nodes is the place of each node in list, by name.
	nodeIndex map[string]int
	nodes     []*api.NodeInfo
	// givers are the jobs from which cards may be taken, by who takes.
	victimJobs map[reclaimerKey][]*victimJob
	// fitting are the nodes that pods of one kind could run on if there were room.
	fittingNodes map[podKind][]int
	// offering are the nodes that have what pods of one kind ask for, in use or not, and a
	// card that they may use.
	offeringNodes map[podKind][]int
	// hopeless is how many pods of one kind cannot be placed together, whoever goes,
	// until somebody goes.
	unsolvable map[podKind]int
	// together are kinds of pods that cannot be placed together, whoever goes, until
	// somebody goes.
	unsolvableSets map[string]bool
	// looked is what the search for the job that is served looked at.
	scope searchScope
	// ripens is when the first job will have run long enough to be taken, by who takes.
	minRuntimeEnds map[reclaimerKey]time.Time
	// left tells that somebody did not get all the effort that it needs.
	unfinished bool
	budget
	// mayGo are the pods that givers could give, by who takes.
	evictablePods     map[reclaimerKey]map[api.TaskID]bool
	disruptionBudgets disruptionBudgets
	// onTheirWay are the pods that were on their way out when the session began, and do not
	// hang.
	terminating map[api.TaskID]*api.TaskInfo
}

// reclaimerKey is all that the rules look at in who takes.
type reclaimerKey struct {
	queue       api.QueueID
	serviceType string
}

// podKind tells pods apart for which different nodes may fit: Volcano's plugins look at
// the queue of a pod as well as at the pod.
type podKind struct {
	reclaimerKey
	needs string
}

func newReclaimSession(ssn *framework.Session, policy *capacitycard.ReclaimPolicy, action *Action) *reclaimSession {
	action.needs.startSession()
	s := &reclaimSession{
		ssn: ssn, policy: policy, action: action, now: policy.Now(),
		nodeIndex: make(map[string]int, len(ssn.NodeList)), nodes: ssn.NodeList,
		victimJobs: map[reclaimerKey][]*victimJob{}, fittingNodes: map[podKind][]int{}, offeringNodes: map[podKind][]int{}, minRuntimeEnds: map[reclaimerKey]time.Time{}, unsolvable: map[podKind]int{},
		unsolvableSets: map[string]bool{}, budget: action.budget,
		terminating: map[api.TaskID]*api.TaskInfo{}, evictablePods: map[reclaimerKey]map[api.TaskID]bool{},
	}
	for i, node := range ssn.NodeList {
		s.nodeIndex[node.Name] = i
	}
	s.disruptionBudgets = s.listDisruptionBudgets()
	for _, job := range ssn.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Releasing] {
			if !policy.IsStuckTerminating(task) {
				s.terminating[uid] = task
			}
		}
	}
	return s
}

// placeTasks finds nodes for pods of one job and takes cards back for them: for all
// of them or for none, or for as many as can be. It tells whether pods were
// placed.
func (s *reclaimSession) placeTasks(job *api.JobInfo, tasks []*api.TaskInfo, all bool) bool {
	s.sortTasks(tasks)
	podSets, ok := s.groupTasks(job, tasks, all)
	if podSets = s.dropUnsolvable(podSets, all); !ok || len(podSets) == 0 {
		return false
	}
	// Each turn leaves a node out that turned out not to fit, so the turns come to an end.
	for !s.jobExhausted() {
		q := s.newProblem(job, podSets)
		plan := q.solve(&s.budget, true)
		if plan == nil { // what is free is not enough for all
			s.addVictimJobs(q)
			plan = q.solve(&s.budget, all)
		}
		if plan == nil {
			s.rememberUnsolvable(podSets, all)
			return false
		}
		unfit, placed := s.applyPlan(job, q, plan, all)
		if placed {
			return true
		}
		if unfit == nil || unfit.waits && all {
			return false
		}
		s.excludeNode(unfit)
		if unfit.waits { // one pod has a place to wait for, the others have not
			if unfit.podSet.tasks = unfit.podSet.tasks[1:]; len(unfit.podSet.tasks) == 0 {
				podSets = slices.DeleteFunc(podSets, func(c *podSet) bool { return c == unfit.podSet })
			}
			if len(podSets) == 0 {
				return false
			}
		}
	}
	return false
}

// dropUnsolvable leaves out the kinds of which not even one pod can be placed: there is
// no node for it, or that was found for pods of the same queue, service type and
// needs. It returns none when all are to be placed and cannot be: so many of one
// kind, or just these.
func (s *reclaimSession) dropUnsolvable(podSets []*podSet, all bool) []*podSet {
	hopeless := func(c *podSet) bool {
		n, known := s.unsolvable[s.kindOf(c)]
		return known && (n == 1 || all && len(c.tasks) >= n) || s.jobExhausted() || len(s.nodesOf(c)) == 0
	}
	if all && (slices.ContainsFunc(podSets, hopeless) || len(podSets) > 1 && s.unsolvableSets[s.podSetsKey(podSets)]) {
		return nil
	}
	return slices.DeleteFunc(podSets, hopeless)
}

// rememberUnsolvable remembers that pods cannot be placed, whoever goes: those of the only kind, all
// kinds together, or of each kind even one. What a search that was cut or that left nodes
// out did not find is not known.
func (s *reclaimSession) rememberUnsolvable(podSets []*podSet, all bool) {
	narrowed := func(c *podSet) bool { return len(c.excluded)+len(c.maxByNode) > 0 }
	if s.jobExhausted() || s.searchCut || all && slices.ContainsFunc(podSets, narrowed) {
		return
	}
	if all && len(podSets) > 1 {
		s.unsolvableSets[s.podSetsKey(podSets)] = true
		return
	}
	for _, c := range podSets {
		if narrowed(c) {
			continue
		}
		n, key := 1, s.kindOf(c)
		if all {
			n = len(c.tasks)
		}
		if known, ok := s.unsolvable[key]; !ok || n < known {
			s.unsolvable[key] = n
		}
	}
}

// podSetsKey stands for who takes, and how many pods of which kinds there are.
func (s *reclaimSession) podSetsKey(podSets []*podSet) string {
	by := s.reclaimerKeyFor(podSets[max(0, firstReclaimer(podSets))].tasks[0])
	parts := make([]string, len(podSets))
	for i, c := range podSets {
		parts[i] = fmt.Sprintf("%d of %s", len(c.tasks), c.needs)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %q %q", by.queue, by.serviceType, parts)
}

func (s *reclaimSession) kindOf(c *podSet) podKind {
	return podKind{s.reclaimerKeyFor(c.tasks[0]), c.needs}
}

func (s *reclaimSession) reclaimerKeyFor(task *api.TaskInfo) reclaimerKey {
	return reclaimerKey{s.ssn.Jobs[task.Job].Queue, s.policy.ServiceType(task)}
}

// indexOfNode is the place of a node, one after all others for a node that the
// session does not have.
func (s *reclaimSession) indexOfNode(node string) int {
	if i, ok := s.nodeIndex[node]; ok {
		return i
	}
	return len(s.nodes)
}

// What may go into one session, in the unit of cardreclaim.ChooseWithin: tenants
// write the pods that it is asked about, and while it looks for an answer nobody
// is scheduled.
const (
	// maxWorkPerJob is for one job, and as much as a single choice can need.
	maxWorkPerJob = 150_000_000
	// maxWorkPerSession is for all jobs. No job begins with less than mostForJob; what is left
	// to do is left to the next sessions.
	maxWorkPerSession = 2 * maxWorkPerJob
	// maxPodKinds bounds the kinds of pods that are placed together.
	maxPodKinds = 64
)

// What calls of Volcano and of the rules take about, in the same unit.
const (
	workPerTask      = 3_000 // what a pod needs, and whether it fits anywhere
	workPerPredicate = 1_000 // whether a pod fits on a node
	workPerNode      = 50    // a node of a claim in a question
	workPerMove      = 3_000 // a pod that goes or comes in the session
	workPerPair      = 50    // whether two pods keep apart, for each of their terms
)

// budget is what may go into a job, and what has gone into the session.
type budget struct {
	// effort is what went into the session so far beside asked, end where the job that
	// is served has used up what is meant for it.
	work, jobEnd int
	// asked is what went into asking which nodes fit, as far as that is not meant to
	// bound the search; mayAsk is how much more of that the job may have.
	predicateWork, predicateBudget int
	// forJob and forSession are mostForJob and mostForSession.
	maxPerJob, maxPerSession int
	// cut tells that the last choice found no plan, and ended for lack of effort, anyCut
	// that some choice for the job did.
	searchCut, anySearchCut bool
}

func newBudget() budget { return budget{maxPerJob: maxWorkPerJob, maxPerSession: maxWorkPerSession} }

// startJob lets the next job begin, in a cluster of so many nodes. Which of them fit is asked
// for as many kinds of pods as are placed together, whatever that takes: before, there is
// nothing to choose from, and with less a large cluster would have no answer at all.
func (l *budget) startJob(nodes int) {
	l.jobEnd = l.work + l.maxPerJob
	l.predicateBudget, l.anySearchCut = workPerPredicate*maxPodKinds*nodes, false
}

func (l *budget) addWork(effort int) { l.work += effort }

// addPredicateWork counts what it takes to ask which nodes fit.
func (l *budget) addPredicateWork(effort int) {
	free := min(effort, l.predicateBudget)
	l.predicateBudget -= free
	l.predicateWork += free
	l.addWork(effort - free)
}

// totalWork is all that went into the session.
func (l *budget) totalWork() int { return l.work + l.predicateWork }

// jobExhausted tells that no more may go into the job.
func (l *budget) jobExhausted() bool { return l.work >= l.jobEnd }

// sessionExhausted reports whether no other job may begin: each begins with all that may go into a job.
// With less it might get no answer, and not because its search is too large.
func (l *budget) sessionExhausted() bool {
	return l.totalWork() > 0 && l.maxPerSession-l.totalWork() < l.maxPerJob
}

// solveProblem answers a problem, nil when there is no plan. What is left of the job's effort
// bounds how much cheaper a plan is made; a first plan is looked for in any case.
func (l *budget) solveProblem(p *solver.Problem) *solver.Plan {
	if l.jobExhausted() {
		return nil
	}
	answer := solver.Solve(p, l.jobEnd-l.work)
	l.addWork(answer.Work)
	l.searchCut = answer.Plan == nil && answer.OutOfBudget
	l.anySearchCut = l.anySearchCut || l.searchCut
	return answer.Plan
}

// addPairWork counts a look at whether two pods keep apart.
func (l *budget) addPairWork(a, b *corev1.Pod) {
	ports, others := countPorts(a), countPorts(b)
	l.addWork(workPerPair*(2+ports+others+countAntiAffinityTerms(a)+countAntiAffinityTerms(b)) + ports*others)
}

func countPorts(pod *corev1.Pod) int {
	n := 0
	for i := range pod.Spec.Containers {
		n += len(pod.Spec.Containers[i].Ports)
	}
	return n
}

func countAntiAffinityTerms(pod *corev1.Pod) int {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return 0
}
