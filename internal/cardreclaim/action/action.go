// Package action is Volcano's scheduler action cardreclaim: it takes cards back
// from jobs of other queues for pods that wait, in whole gangs and at the least
// loss.
//
// The package only translates: who may take from whom is decided by the plugin
// capacity-card, who goes by package cardreclaim, and how a job takes it by
// package vcjob.
package action

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
)

// Name is the name of the action in volcano-scheduler.conf, and the reason that
// Volcano writes to the pods it evicts.
const Name = "cardreclaim"

// Action is the action. Volcano runs one session at a time.
type Action struct {
	jobs   Jobs
	manner manner
	turns  turns
	// attempts are the searches that found nothing, texts what pods need, by pod.
	attempts attempts
	texts    texts
	// rests is when the action may search again, clock tells how long it took.
	rests time.Time
	clock func() time.Time
	// limit is what may go into a session, with nothing done yet.
	limit limit
}

var _ framework.Action = &Action{}

// New makes the action. jobs tells of Volcano jobs; nil looks them up through
// the API.
func New(jobs Jobs) *Action {
	if jobs == nil {
		jobs = &informed{}
	}
	return &Action{jobs: jobs, manner: newManner(atOnce), clock: time.Now, limit: newLimit()}
}

// Name returns Name.
func (a *Action) Name() string { return Name }

// Initialize does nothing.
func (a *Action) Initialize() {}

// UnInitialize does nothing.
func (a *Action) UnInitialize() {}

// mostShare is the part of the time that searches may take: while they are made nobody
// is scheduled.
const mostShare = 4

// period is the least time between two sessions (Volcano's --schedule-period).
const period = time.Second

// Execute takes cards back for the pods that wait, the queue of the highest
// priority first, as long as a session may take. When it did not suffice for all
// the next ones go by turns. After a long search the next sessions make none, so that
// on average searches take no more than about a quarter of the time. How long a single
// session may take is bounded by the effort that may go into it alone.
func (a *Action) Execute(ssn *framework.Session) {
	counted.keep(ssn.Queues)
	tide, ok := capacitycard.TideOf(ssn)
	if !ok {
		return
	}
	a.jobs.Open(ssn)
	a.insist(ssn, tide)
	takeBackPartial(ssn)
	w := newWave(ssn, tide, a)
	w.finish(Name)
	began := a.clock()
	if began.Before(a.rests) {
		return
	}
	w.search()
	if took := a.clock().Sub(began); took > period/(mostShare-1) {
		a.rests = began.Add(mostShare * took)
	}
}

// search takes cards back for the pods that wait.
func (w *wave) search() {
	a := w.action
	var waiting []*api.JobInfo
	for _, job := range w.ssn.Jobs {
		if w.waits(job) {
			waiting = append(waiting, job)
		}
	}
	if len(waiting) == 0 {
		a.attempts.failed = nil
		a.turns.end(true)
		return
	}
	a.attempts.begin(w, waiting)
	if a.turns.scarce {
		w.serveInTurns(waiting)
	} else {
		w.serveInOrder(waiting)
	}
	a.turns.end(!w.left)
}

// waits tells whether a job has pods for which cards may be taken back. A job
// that must stay inside one part of the network is left to wait: which part it
// gets is decided when it is placed, and cards elsewhere would be no help.
func (w *wave) waits(job *api.JobInfo) bool {
	if job.IsPending() || w.ssn.Queues[job.Queue] == nil || job.ContainsHardTopology() {
		return false
	}
	takes := false
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if w.mayTry(task) && w.tide.Takes(task) {
			takes = true
			break
		}
	}
	if !takes {
		return false
	}
	if result := w.ssn.JobValid(job); result != nil && !result.Pass {
		klog.V(4).InfoS("Job is not valid, no cards are taken back for it", "job", klog.KRef(job.Namespace, job.Name), "reason", result.Reason)
		return false
	}
	return true
}

// mayTry leaves out pods that wait for something else than room, and those that
// want nobody to go for them.
func (w *wave) mayTry(task *api.TaskInfo) bool {
	policy := task.Pod.Spec.PreemptionPolicy
	return !task.SchGated && !task.BestEffort && (policy == nil || *policy != corev1.PreemptNever)
}
