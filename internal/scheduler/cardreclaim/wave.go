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

// wave is one execution of the action: one session, and what was worked out in
// it so far.
type wave struct {
	ssn    *framework.Session
	tide   *capacitycard.Tide
	action *Action
	now    time.Time
	// nodes is the place of each node in list, by name.
	nodes map[string]int
	list  []*api.NodeInfo
	// givers are the jobs from which cards may be taken, by who takes.
	givers map[giverKey][]*giver
	// fitting are the nodes that pods of one kind could run on if there were room.
	fitting map[kind][]int
	// offering are the nodes that have what pods of one kind ask for, in use or not, and a
	// card that they may use.
	offering map[kind][]int
	// hopeless is how many pods of one kind cannot be placed together, whoever goes,
	// until somebody goes.
	hopeless map[kind]int
	// together are kinds of pods that cannot be placed together, whoever goes, until
	// somebody goes.
	together map[string]bool
	// looked is what the search for the job that is served looked at.
	looked looked
	// ripens is when the first job will have run long enough to be taken, by who takes.
	ripens map[giverKey]time.Time
	// left tells that somebody did not get all the effort that it needs.
	left bool
	limit
	// mayGo are the pods that givers could give, by who takes.
	mayGo   map[giverKey]map[api.TaskID]bool
	budgets budgets
	// onTheirWay are the pods that were on their way out when the session began, and do not
	// hang.
	onTheirWay map[api.TaskID]*api.TaskInfo
}

// giverKey is all that the rules look at in who takes.
type giverKey struct {
	queue       api.QueueID
	serviceType string
}

// kind tells pods apart for which different nodes may fit: Volcano's plugins look at
// the queue of a pod as well as at the pod.
type kind struct {
	giverKey
	needs string
}

func newWave(ssn *framework.Session, tide *capacitycard.Tide, action *Action) *wave {
	action.texts.begin()
	w := &wave{
		ssn: ssn, tide: tide, action: action, now: tide.Now(),
		nodes: make(map[string]int, len(ssn.NodeList)), list: ssn.NodeList,
		givers: map[giverKey][]*giver{}, fitting: map[kind][]int{}, offering: map[kind][]int{}, ripens: map[giverKey]time.Time{}, hopeless: map[kind]int{},
		together: map[string]bool{}, limit: action.limit,
		onTheirWay: map[api.TaskID]*api.TaskInfo{}, mayGo: map[giverKey]map[api.TaskID]bool{},
	}
	for i, node := range ssn.NodeList {
		w.nodes[node.Name] = i
	}
	w.budgets = w.readBudgets()
	for _, job := range ssn.Jobs {
		for uid, task := range job.TaskStatusIndex[api.Releasing] {
			if !tide.Hangs(task) {
				w.onTheirWay[uid] = task
			}
		}
	}
	return w
}

// place finds nodes for pods of one job and takes cards back for them: for all
// of them or for none, or for as many as can be. It tells whether pods were
// placed.
func (w *wave) place(job *api.JobInfo, tasks []*api.TaskInfo, all bool) bool {
	w.sort(tasks)
	claims, ok := w.claimsOf(job, tasks, all)
	if claims = w.hopeful(claims, all); !ok || len(claims) == 0 {
		return false
	}
	// Each turn leaves a node out that turned out not to fit, so the turns come to an end.
	for !w.exhausted() {
		q := w.question(job, claims)
		plan := q.answer(&w.limit, true)
		if plan == nil { // what is free is not enough for all
			w.addGivers(q)
			plan = q.answer(&w.limit, all)
		}
		if plan == nil {
			w.giveUp(claims, all)
			return false
		}
		unfit, placed := w.carryOut(job, q, plan, all)
		if placed {
			return true
		}
		if unfit == nil || unfit.waits && all {
			return false
		}
		w.avoid(unfit)
		if unfit.waits { // one pod has a place to wait for, the others have not
			if unfit.claim.tasks = unfit.claim.tasks[1:]; len(unfit.claim.tasks) == 0 {
				claims = slices.DeleteFunc(claims, func(c *claim) bool { return c == unfit.claim })
			}
			if len(claims) == 0 {
				return false
			}
		}
	}
	return false
}

// hopeful leaves out the kinds of which not even one pod can be placed: there is
// no node for it, or that was found for pods of the same queue, service type and
// needs. It returns none when all are to be placed and cannot be: so many of one
// kind, or just these.
func (w *wave) hopeful(claims []*claim, all bool) []*claim {
	hopeless := func(c *claim) bool {
		n, known := w.hopeless[w.kindOf(c)]
		return known && (n == 1 || all && len(c.tasks) >= n) || w.exhausted() || len(w.nodesOf(c)) == 0
	}
	if all && (slices.ContainsFunc(claims, hopeless) || len(claims) > 1 && w.together[w.setKey(claims)]) {
		return nil
	}
	return slices.DeleteFunc(claims, hopeless)
}

// giveUp remembers that pods cannot be placed, whoever goes: those of the only kind, all
// kinds together, or of each kind even one. What a search that was cut or that left nodes
// out did not find is not known.
func (w *wave) giveUp(claims []*claim, all bool) {
	narrowed := func(c *claim) bool { return len(c.excluded)+len(c.caps) > 0 }
	if w.exhausted() || w.cut || all && slices.ContainsFunc(claims, narrowed) {
		return
	}
	if all && len(claims) > 1 {
		w.together[w.setKey(claims)] = true
		return
	}
	for _, c := range claims {
		if narrowed(c) {
			continue
		}
		n, key := 1, w.kindOf(c)
		if all {
			n = len(c.tasks)
		}
		if known, ok := w.hopeless[key]; !ok || n < known {
			w.hopeless[key] = n
		}
	}
}

// setKey stands for who takes, and how many pods of which kinds there are.
func (w *wave) setKey(claims []*claim) string {
	by := w.giverKey(claims[max(0, taker(claims))].tasks[0])
	parts := make([]string, len(claims))
	for i, c := range claims {
		parts[i] = fmt.Sprintf("%d of %s", len(c.tasks), c.needs)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %q %q", by.queue, by.serviceType, parts)
}

func (w *wave) kindOf(c *claim) kind { return kind{w.giverKey(c.tasks[0]), c.needs} }

func (w *wave) giverKey(task *api.TaskInfo) giverKey {
	return giverKey{w.ssn.Jobs[task.Job].Queue, w.tide.TypeOf(task)}
}

// placeOf is the place of a node, one after all others for a node that the
// session does not have.
func (w *wave) placeOf(node string) int {
	if i, ok := w.nodes[node]; ok {
		return i
	}
	return len(w.list)
}

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

// choose answers a problem, nil when there is no plan. What is left of the job's effort
// bounds how much cheaper a plan is made; a first plan is looked for in any case.
func (l *limit) choose(p *solver.Problem) *solver.Plan {
	if l.exhausted() {
		return nil
	}
	answer := solver.ChooseWithin(p, l.end-l.effort)
	l.spend(answer.Effort)
	l.cut = answer.Plan == nil && answer.Cut
	l.anyCut = l.anyCut || l.cut
	return answer.Plan
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
