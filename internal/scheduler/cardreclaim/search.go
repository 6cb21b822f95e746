// Package cardreclaim finds cards for pending pods in other queues. It evicts jobs of these in whole
// gangs and at the least loss. Package actions runs it in Volcano's sessions.
//
// The package translates sessions for the solver and back. The plugin capacity-card decides
// who may reclaim from whom. The policies of a Volcano job decide how its pods are evicted.
package cardreclaim

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// Search finds victims for pending pods, in one session after the other.
type Search struct {
	evictions *Evictions
	fairOrder fairOrder
	// searches remembers searches that placed no pod, needs what pods need.
	searches searchHistory
	needs    needsCache
	// restsUntil is when it may search again, clock measures how long a search took.
	restsUntil time.Time
	clock      func() time.Time
	// last is what it did in the last session in which it ran.
	last lastRun
	// budget is the budget with which each session begins.
	budget   budget
	counters counters
}

// New returns a search that evicts by the evictions.
func New(evictions *Evictions) *Search {
	return &Search{evictions: evictions, clock: time.Now, budget: newBudget(), counters: newCounters()}
}

// WithClock lets the search measure its time by another clock. One that stands still keeps it from
// resting after a long search.
func (s *Search) WithClock(clock func() time.Time) *Search {
	s.clock = clock
	return s
}

// restFactor is the least time from the begin of one search to the next, in times that the first
// one took. So searches take at most a quarter of the time, because no pod is scheduled during a search.
const restFactor = 4

// minPeriod is the shortest schedule period that restFactor allows for; the shipped one is 3 s.
const minPeriod = time.Second

// Run reclaims cards for pending pods, the queue of the highest priority first, as far as
// the budget of a session suffices. If it did not suffice for all jobs, the next sessions search in fair
// order. After a long search that placed nothing, the next sessions do not search.
func (s *Search) Run(plugin *capacitycard.Plugin) {
	// Parts of gangs that earlier actions placed cannot start, but they take up what this search needs.
	undoPartialPipelines(plugin.Volcano)
	defer plugin.Evictions.AssumeEvicted()() // until Run returns, pods whose eviction was requested count as terminating

	run := newReclaimSession(plugin, s)
	// An earlier process may have evicted only a part of a gang. That must not wait for the search's rest to end.
	run.applier.completePartialEvictions(schedulerconfig.CardReclaim)
	began := s.clock()
	s.last = lastRun{session: plugin.Volcano.UID}
	if began.Before(s.restsUntil) {
		return
	}

	run.searchForWaitingJobs()
	s.last.isComplete = !run.unfinished
	took := run.repeatedPart(s.clock().Sub(began))
	// A shorter search needs no rest: even the shortest schedule period after it is restFactor-1 times as long.
	if took > minPeriod/(restFactor-1) {
		s.restsUntil = began.Add(restFactor * took)
	}
}

// CompletePartialEvictions evicts the rest of jobs of which a scheduler evicted only a part before it ended. action
// is the name of the action for which it evicted.
func (s *Search) CompletePartialEvictions(plugin *capacitycard.Plugin, action string) {
	run := &planApplier{searchSession: newPluginSession(plugin, s)}
	run.completePartialEvictions(action)
}

// lastRun is what a search did in a session.
type lastRun struct {
	session types.UID
	// isComplete is set if it searched for all jobs that need cards.
	isComplete bool
}

// hasLeftOutJobs reports whether some job gets no search in a session, because the search rests or
// its budget ended.
func (s *Search) hasLeftOutJobs(session types.UID) bool {
	if s.last.session == session {
		return !s.last.isComplete
	}
	return s.clock().Before(s.restsUntil) // the search comes later in this session, or rests
}

// repeatedPart returns the part of a session's time that the next sessions would repeat: that of searches
// that placed no pod, or all of it if the budget ended before some job had its search.
func (s *reclaimSession) repeatedPart(took time.Duration) time.Duration {
	if s.unfinished || s.totalWork() == 0 {
		return took
	}
	return time.Duration(float64(took) * float64(s.failedWork) / float64(s.totalWork()))
}

// searchForWaitingJobs reclaims cards for the jobs that need them: in the order of queues and jobs, or in fair order if
// the budget of the last session did not suffice for all.
func (s *reclaimSession) searchForWaitingJobs() {
	search := s.search
	var waiting []*api.JobInfo
	for _, job := range s.Volcano.Jobs {
		if s.needsCards(job) {
			waiting = append(waiting, job)
		}
	}

	if len(waiting) == 0 {
		// Changes are observed only while a job waits, so no result stays true without one.
		search.searches.failed = nil
		search.fairOrder.endSession(true)
		return
	}

	search.searches.startSession(s, waiting)
	if search.fairOrder.isScarce {
		s.searchFairly(waiting)
	} else {
		s.searchInOrder(waiting)
	}
	search.fairOrder.endSession(!s.unfinished)
}

// needsCards reports whether a job has pods for which cards may be reclaimed. A job that is not enqueued, or
// whose queue does not exist, has none. A job with a hard topology waits: its part of the network is chosen when it
// is placed, and cards elsewhere would not help.
func (s *reclaimSession) needsCards(job *api.JobInfo) bool {
	if job.IsPending() || s.Volcano.Queues[job.Queue] == nil || job.ContainsHardTopology() {
		return false
	}

	pending := slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending]))
	if !slices.ContainsFunc(pending, func(task *api.TaskInfo) bool { return s.mayPreempt(task) && s.rules.CanReclaim(task) }) {
		return false
	}
	if result := s.Volcano.JobValid(job); result != nil && !result.Pass {
		klog.V(4).InfoS("Job is not valid, no cards are reclaimed for it", "job", klog.KRef(job.Namespace, job.Name), "reason", result.Reason)
		return false
	}

	return true
}

// undoPartialPipelines undoes the placements on nodes that others must leave first (Pipelined), if an action before this
// one, such as Volcano's preempt, made them for a part of a gang. The gang cannot start with them, but they block resources
// for this session.
func undoPartialPipelines(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if len(job.TaskStatusIndex[api.Pipelined]) == 0 || ssn.JobPipelined(job) {
			continue
		}

		stmt := framework.NewStatement(ssn)
		// UnPipeline removes the pod from this index.
		for _, task := range slices.Collect(maps.Values(job.TaskStatusIndex[api.Pipelined])) {
			if err := stmt.UnPipeline(task); err != nil {
				klog.ErrorS(err, "Pod could not be unpipelined", "pod", klog.KObj(task.Pod))
			}
		}
	}
}

// Metrics returns the metrics for the program to register.
func (s *Search) Metrics() []prometheus.Collector {
	return []prometheus.Collector{s.counters.jobs, s.counters.pods, s.counters.loss}
}

// ForgetQueues drops the metrics of queues that are gone. queues are those that exist.
func (s *Search) ForgetQueues(queues map[api.QueueID]*api.QueueInfo) {
	for queue := range s.counters.queues {
		if queues[queue] != nil {
			continue
		}
		delete(s.counters.queues, queue)
		for _, vec := range []*prometheus.CounterVec{s.counters.jobs, s.counters.pods, s.counters.loss} {
			vec.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
		}
	}
}
