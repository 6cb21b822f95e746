package action

import (
	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/cardreclaim"
)

// What may go into one session, in the unit of cardreclaim.ChooseWithin: tenants
// write the pods that it is asked about, and while it looks for an answer nobody
// is scheduled.
const (
	// mostForJob is for one job, and as much as a single choice can need.
	mostForJob = 150_000_000
	// mostForSession is for all jobs. No job begins with less than mostForJob; what is left
	// to do is left to the next sessions.
	mostForSession = 2 * mostForJob
	// mostKinds bounds the kinds of pods that are placed together.
	mostKinds = 64
)

// What calls of Volcano and of the rules take about, in the same unit.
const (
	effortOfTask      = 3_000 // what a pod needs, and whether it fits anywhere
	effortOfPredicate = 1_000 // whether a pod fits on a node
	effortOfNode      = 50    // a node of a claim in a question
	effortOfMove      = 3_000 // a pod that goes or comes in the session
	effortOfPair      = 50    // whether two pods keep apart, for each of their terms
)

// limit is what may go into a job, and what has gone into the session.
type limit struct {
	// effort is what went into the session so far beside asked, end where the job that
	// is served has used up what is meant for it.
	effort, end int
	// asked is what went into asking which nodes fit, as far as that is not meant to
	// bound the search; mayAsk is how much more of that the job may have.
	asked, mayAsk int
	// forJob and forSession are mostForJob and mostForSession.
	forJob, forSession int
	// cut tells that the last choice found no plan, and ended for lack of effort, anyCut
	// that some choice for the job did.
	cut, anyCut bool
}

func newLimit() limit { return limit{forJob: mostForJob, forSession: mostForSession} }

// begin lets the next job begin, in a cluster of so many nodes. Which of them fit is asked
// for as many kinds of pods as are placed together, whatever that takes: before, there is
// nothing to choose from, and with less a large cluster would have no answer at all.
func (l *limit) begin(nodes int) {
	l.end = l.effort + l.forJob
	l.mayAsk, l.anyCut = effortOfPredicate*mostKinds*nodes, false
}

func (l *limit) spend(effort int) { l.effort += effort }

// ask counts what it takes to ask which nodes fit.
func (l *limit) ask(effort int) {
	free := min(effort, l.mayAsk)
	l.mayAsk -= free
	l.asked += free
	l.spend(effort - free)
}

// total is all that went into the session.
func (l *limit) total() int { return l.effort + l.asked }

// exhausted tells that no more may go into the job.
func (l *limit) exhausted() bool { return l.effort >= l.end }

// over reports whether no other job may begin: each begins with all that may go into a job.
// With less it might get no answer, and not because its search is too large.
func (l *limit) over() bool { return l.total() > 0 && l.forSession-l.total() < l.forJob }

// choose answers a problem. What is left of the job's effort bounds how much
// cheaper a plan is made; a first plan is looked for in any case.
func (l *limit) choose(p *cardreclaim.Problem) (*cardreclaim.Plan, bool) {
	if l.exhausted() {
		return nil, false
	}
	answer := cardreclaim.ChooseWithin(p, l.end-l.effort)
	l.spend(answer.Effort)
	l.cut = answer.Plan == nil && answer.Cut
	l.anyCut = l.anyCut || l.cut
	return answer.Plan, answer.Plan != nil
}

// pair counts a look at whether two pods keep apart.
func (l *limit) pair(a, b *corev1.Pod) {
	ports, others := portsOf(a), portsOf(b)
	l.spend(effortOfPair*(2+ports+others+termsOf(a)+termsOf(b)) + ports*others)
}

func portsOf(pod *corev1.Pod) int {
	n := 0
	for i := range pod.Spec.Containers {
		n += len(pod.Spec.Containers[i].Ports)
	}
	return n
}

func termsOf(pod *corev1.Pod) int {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return 0
}
