// Package cardreclaim is Volcano's scheduler action cardreclaim: it takes cards back
// from jobs of other queues for pods that wait, in whole gangs and at the least
// loss.
//
// The package only translates: who may take from whom is decided by the plugin
// capacity-card, who goes by package cardreclaim, and how a job takes it by its policies.
package cardreclaim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// Name is the name of the action in volcano-scheduler.conf, and the reason that
// Volcano writes to the pods it evicts.
const Name = "cardreclaim"

// Action is the action. Volcano runs one session at a time.
type Action struct {
	jobPolicies JobPolicies
	evictor     podEvictor
	fairOrder   fairOrder
	// attempts are the searches that found nothing, texts what pods need, by pod.
	searches searchHistory
	needs    needsCache
	// rests is when the action may search again, clock tells how long it took.
	restsUntil time.Time
	clock      func() time.Time
	// limit is what may go into a session, with nothing done yet.
	budget budget
	// cache knows the plugin of the session that is open.
	cache    *capacitycard.Cache
	counters counters
}

var _ framework.Action = &Action{}

// New makes the action for sessions of the plugin with a cache. jobs tells of Volcano jobs;
// nil looks them up through the API.
func New(cache *capacitycard.Cache, jobs JobPolicies) *Action {
	if jobs == nil {
		jobs = &jobInformer{}
	}
	return &Action{jobPolicies: jobs, evictor: newPodEvictor(maxConcurrentWrites), clock: time.Now, budget: newBudget(), cache: cache, counters: newCounters()}
}

// Name returns Name.
func (a *Action) Name() string { return Name }

// Initialize does nothing.
func (a *Action) Initialize() {}

// UnInitialize does nothing.
func (a *Action) UnInitialize() {}

// maxTimeShare bounds the part of the time that searches may take, here a quarter: while they
// are made nobody is scheduled.
const maxTimeShare = 4

// period is the least time between two sessions (Volcano's --schedule-period).
const period = time.Second

// Execute takes cards back for the pods that wait, the queue of the highest priority
// first, as long as a session may take. When it did not suffice for all the next ones go
// by turns. After a long search the next sessions make none.
func (a *Action) Execute(ssn *framework.Session) {
	a.counters.dropGoneQueues(ssn.Queues)
	policy, ok := a.cache.ReclaimPolicyFor(ssn.UID)
	if !ok {
		return
	}
	a.jobPolicies.OpenSession(ssn)
	a.deleteOverdue(ssn, policy)
	undoPartialPipelines(ssn)
	s := newReclaimSession(ssn, policy, a)
	s.completePartialEvictions(Name)
	began := a.clock()
	if began.Before(a.restsUntil) {
		return
	}
	s.serveWaitingJobs()
	if took := a.clock().Sub(began); took > period/(maxTimeShare-1) {
		a.restsUntil = began.Add(maxTimeShare * took)
	}
}

// serveWaitingJobs takes cards back for the pods that wait.
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

// needsCards tells whether a job has pods for which cards may be taken back. A job
// that must stay inside one part of the network is left to wait: which part it
// gets is decided when it is placed, and cards elsewhere would be no help.
func (s *reclaimSession) needsCards(job *api.JobInfo) bool {
	if job.IsPending() || s.ssn.Queues[job.Queue] == nil || job.ContainsHardTopology() {
		return false
	}
	pending := slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending]))
	if !slices.ContainsFunc(pending, func(task *api.TaskInfo) bool { return s.mayPreempt(task) && s.policy.CanReclaim(task) }) {
		return false
	}
	if result := s.ssn.JobValid(job); result != nil && !result.Pass {
		klog.V(4).InfoS("Job is not valid, no cards are taken back for it", "job", klog.KRef(job.Namespace, job.Name), "reason", result.Reason)
		return false
	}
	return true
}

// mayPreempt leaves out pods that wait for something else than room, and those that
// want nobody to go for them.
func (s *reclaimSession) mayPreempt(task *api.TaskInfo) bool {
	policy := task.Pod.Spec.PreemptionPolicy
	return !task.SchGated && !task.BestEffort && (policy == nil || *policy != corev1.PreemptNever)
}

// PreemptName is the name of Volcano's action preempt, and the reason that is written to
// the pods it evicts.
const PreemptName = "preempt"

// Preempt is Volcano's action preempt for jobs that are gangs: a job goes as a whole where
// it would be left below its minimum, and its pods go as those that cardreclaim evicts.
type Preempt struct {
	framework.Action
	// reclaim has what both actions need.
	reclaim *Action
	evictor *Evictor
}

var _ framework.Action = &Preempt{}

// NewPreempt makes the action. It looks up jobs and tells pods to go as reclaim does.
func NewPreempt(reclaim *Action) *Preempt {
	return &Preempt{Action: preempt.New(), reclaim: reclaim, evictor: &Evictor{pods: &reclaim.evictor}}
}

// Evictor returns what Volcano's cache must evict with.
func (a *Preempt) Evictor() *Evictor { return a.evictor }

// Execute evicts pods for others of their queue or of their job.
func (a *Preempt) Execute(ssn *framework.Session) {
	policy, ok := a.reclaim.cache.ReclaimPolicyFor(ssn.UID)
	if !ok {
		return
	}
	a.reclaim.jobPolicies.OpenSession(ssn)
	a.reclaim.deleteOverdue(ssn, policy)
	s := &reclaimSession{ssn: ssn, policy: policy, action: a.reclaim, now: policy.Now()}
	s.completePartialEvictions(PreemptName)
	for _, tasks := range policy.Preempt(a.reclaim.jobPolicies.EvictionPolicyFor, func() { a.Action.Execute(ssn) }) {
		replaced := a.reclaim.isRecreated(tasks[0].Namespace, workload.VCJobOwner(tasks[0].Pod))
		klog.InfoS("Pods of a job are preempted", "job", klog.KRef(tasks[0].Namespace, ssn.Jobs[tasks[0].Job].Name), "pods", len(tasks), "replaced", replaced)
		s.evictTasks(tasks, replaced, PreemptName)
		for _, task := range tasks {
			a.evictor.recordEvicted(task.Pod, PreemptName)
		}
	}
}

// Evictor evicts pods for Volcano's cache. Volcano's own writes to each pod once, and a
// gang of which one write fails is left in part. Here each write is tried again. Pods that
// preempt evicts are left to the action Preempt, which knows how their job takes it.
type Evictor struct {
	pods *podEvictor
	// client and recorder are those of the cache.
	client   kubernetes.Interface
	recorder record.EventRecorder
}

var _ cache.Evictor = &Evictor{}

// Use gives the evictor the client and the recorder of the cache that it evicts for.
func (e *Evictor) Use(client kubernetes.Interface, recorder record.EventRecorder) *Evictor {
	e.client, e.recorder = client, recorder
	return e
}

// Evict deletes a pod that an action evicts, and returns when that is done or was given up.
// With an error Volcano's cache looks the pod up again. For preempt it does nothing: the
// action tells the pod to go, and insists until the pod is gone.
func (e *Evictor) Evict(pod *corev1.Pod, reason string) error {
	if reason == PreemptName {
		return nil
	}
	e.recordEvicted(pod, reason)
	return e.pods.evictPods(e.client, []*api.TaskInfo{{Pod: pod}}, false, reason)[pod.UID]
}

// recordEvicted sends the event that Volcano's own evictor sends.
func (e *Evictor) recordEvicted(pod *corev1.Pod, reason string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
}

// undoPartialPipelines takes back promises that an action before this one, such as Volcano's
// preempt inside a job, made to a part of a gang only. The gang cannot start with them, but
// in this session they keep room from others.
func undoPartialPipelines(ssn *framework.Session) {
	for _, job := range ssn.Jobs {
		if len(job.TaskStatusIndex[api.Pipelined]) == 0 || ssn.JobPipelined(job) {
			continue
		}
		promised := framework.NewStatement(ssn)
		for _, task := range slices.Collect(maps.Values(job.TaskStatusIndex[api.Pipelined])) {
			if err := promised.UnPipeline(task); err != nil {
				klog.ErrorS(err, "A promise could not be taken back", "pod", klog.KObj(task.Pod))
			}
		}
	}
}
