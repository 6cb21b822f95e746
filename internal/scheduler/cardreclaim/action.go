// Package cardreclaim is Volcano's scheduler action cardreclaim. It evicts jobs of other
// queues so that pending pods get their cards back, in whole gangs and at the least loss.
//
// The package translates sessions for the solver and back. The plugin capacity-card decides
// who may reclaim from whom. The policies of a Volcano job decide how its pods are evicted.
package cardreclaim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// Name is the name of the action in volcano-scheduler.conf, and the reason that Volcano writes
// to the pods it evicts.
const Name = "cardreclaim"

// Action is the action. Volcano runs one session at a time.
type Action struct {
	jobPolicies JobPolicies
	evictor     podEvictor
	fairOrder   fairOrder
	// searches remembers searches that placed no pod, needs what pods need.
	searches searchHistory
	needs    needsCache
	// restsUntil is when the action may search again, clock measures how long a search took.
	restsUntil time.Time
	clock      func() time.Time
	// last is what the action did in the last session in which it ran.
	last lastRun
	// budget is the budget with which each session begins.
	budget budget
	// cache has the plugin of the open session.
	cache    *capacitycard.Cache
	counters counters
}

var _ framework.Action = &Action{}

// New returns the action for sessions of the plugin with a cache. If jobs is nil, it asks the
// Volcano jobs that the plugin reads, and watches the Kubernetes Jobs.
func New(cache *capacitycard.Cache, jobs JobPolicies) *Action {
	if jobs == nil {
		jobs = &jobInformer{vcJobs: cache.VCJobs()}
	}
	action := &Action{jobPolicies: jobs, evictor: newPodEvictor(maxConcurrentWrites), clock: time.Now, budget: newBudget(), cache: cache, counters: newCounters()}
	cache.UseFailureLimits(func(namespace, name string, uid types.UID) (workload.FailureLimit, bool) {
		return action.jobPolicies.FailureLimitFor(namespace, name, uid)
	})
	return action
}

// WithClock lets the action measure its searches by another clock. One that stands still keeps it from
// resting after a long search.
func (a *Action) WithClock(clock func() time.Time) *Action {
	a.clock = clock
	return a
}

// Name returns Name.
func (a *Action) Name() string { return Name }

// Initialize does nothing.
func (a *Action) Initialize() {}

// UnInitialize does nothing.
func (a *Action) UnInitialize() {}

// restFactor is the least time from the begin of one search to the next, in times that the first
// one took. So searches take at most a quarter of the time: no pod is scheduled meanwhile.
const restFactor = 4

// minPeriod is the shortest schedule period that restFactor allows for; the shipped one is 3 s.
const minPeriod = time.Second

// Execute reclaims cards for pending pods, the queue of the highest priority first, as far as
// the budget of a session goes. If that did not suffice, the next sessions serve jobs in fair
// order. After a long search that placed nothing, the next sessions do not search.
func (a *Action) Execute(ssn *framework.Session) {
	a.counters.dropGoneQueues(ssn.Queues)
	policy, ok := a.cache.ReclaimPolicyFor(ssn.UID)
	if !ok {
		return
	}

	a.jobPolicies.OpenSession(ssn)
	undoPartialPipelines(ssn)
	defer policy.AssumeEvicted()()

	s := newReclaimSession(ssn, policy, a)
	s.completePartialEvictions(Name)
	began := a.clock()
	a.last = lastRun{session: ssn.UID}
	if began.Before(a.restsUntil) {
		return
	}

	s.serveWaitingJobs()
	a.last.isComplete = !s.unfinished
	took := s.repeatedPart(a.clock().Sub(began))
	if took > minPeriod/(restFactor-1) {
		a.restsUntil = began.Add(restFactor * took)
	}
}

// lastRun is what the action did in a session.
type lastRun struct {
	session types.UID
	// isComplete is set if it searched for all jobs that need cards.
	isComplete bool
}

// rests reports whether some job has had no search in a session, because the action rests or
// its budget ended.
func (a *Action) rests(session types.UID) bool {
	if a.last.session == session {
		return !a.last.isComplete
	}
	return a.clock().Before(a.restsUntil) // the action comes later in this session
}

// repeatedPart returns the part of a session's time that the next sessions would repeat: that of searches
// that placed no pod, or all if jobs are left. No other session searches for the jobs that were served.
func (s *reclaimSession) repeatedPart(took time.Duration) time.Duration {
	if s.unfinished || s.totalWork() == 0 {
		return took
	}
	return time.Duration(float64(took) * float64(s.failedWork) / float64(s.totalWork()))
}

// serveWaitingJobs reclaims cards for the jobs that need them.
func (s *reclaimSession) serveWaitingJobs() {
	a := s.action
	var waiting []*api.JobInfo
	for _, job := range s.ssn.Jobs {
		if s.needsCards(job) {
			waiting = append(waiting, job)
		}
	}

	if len(waiting) == 0 {
		a.searches.failed = nil
		a.fairOrder.endSession(true)
		return
	}

	a.searches.startSession(s, waiting)
	if a.fairOrder.isScarce {
		s.serveFairly(waiting)
	} else {
		s.serveInOrder(waiting)
	}
	a.fairOrder.endSession(!s.unfinished)
}

// needsCards reports whether a job has pods for which cards may be reclaimed. A job with a
// hard topology waits: its part of the network is chosen when it is placed, and cards
// elsewhere would not help.
func (s *reclaimSession) needsCards(job *api.JobInfo) bool {
	if job.IsPending() || s.ssn.Queues[job.Queue] == nil || job.ContainsHardTopology() {
		return false
	}

	pending := slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending]))
	if !slices.ContainsFunc(pending, func(task *api.TaskInfo) bool { return s.mayPreempt(task) && s.policy.CanReclaim(task) }) {
		return false
	}
	if result := s.ssn.JobValid(job); result != nil && !result.Pass {
		klog.V(4).InfoS("Job is not valid, no cards are reclaimed for it", "job", klog.KRef(job.Namespace, job.Name), "reason", result.Reason)
		return false
	}

	return true
}

// mayPreempt reports whether a pod waits only for resources, and its preemption policy allows
// evictions for it.
func (s *reclaimSession) mayPreempt(task *api.TaskInfo) bool {
	return !task.SchGated && !task.BestEffort && !capacitycard.NeverPreempts(task)
}

// Evictor evicts pods for Volcano's cache. Volcano's own evictor writes to each pod once, so
// one failed write leaves a gang in part. This evictor tries each write again. Preempt evicts
// its own pods, because it knows the policies of their job.
type Evictor struct {
	pods *podEvictor
	// client and recorder are those of the cache.
	client   kubernetes.Interface
	recorder record.EventRecorder
}

var _ cache.Evictor = &Evictor{}

// Use sets the client and the recorder of the cache.
func (e *Evictor) Use(client kubernetes.Interface, recorder record.EventRecorder) *Evictor {
	e.client = client
	e.recorder = recorder
	return e
}

// Evict deletes a pod, and returns when that is done or failed for good. After an error
// Volcano's cache reads the pod again. For preempt it does nothing: that action evicts the
// pod, and deletes it if it does not go.
func (e *Evictor) Evict(pod *corev1.Pod, reason string) error {
	if reason == PreemptName {
		return nil
	}
	e.recordEvicted(pod, reason)
	return e.pods.evictPods(e.client, []*api.TaskInfo{{Pod: pod}}, false, reason)[pod.UID]
}

// recordEvicted records the event that Volcano's own evictor records.
func (e *Evictor) recordEvicted(pod *corev1.Pod, reason string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
}

// undoPartialPipelines undoes the placements that an action before this one, such as Volcano's
// preempt, made for a part of a gang. The gang cannot start with them, but they block
// resources for this session.
func undoPartialPipelines(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if len(job.TaskStatusIndex[api.Pipelined]) == 0 || ssn.JobPipelined(job) {
			continue
		}
		stmt := framework.NewStatement(ssn)
		for _, task := range slices.Collect(maps.Values(job.TaskStatusIndex[api.Pipelined])) {
			if err := stmt.UnPipeline(task); err != nil {
				klog.ErrorS(err, "Pod could not be unpipelined", "pod", klog.KObj(task.Pod))
			}
		}
	}
}
