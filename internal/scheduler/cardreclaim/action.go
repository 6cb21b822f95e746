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
	// cache knows the plugin of the session that is open.
	cache    *capacitycard.Cache
	counters counters
}

var _ framework.Action = &Action{}

// New makes the action for sessions of the plugin with a cache. jobs tells of Volcano jobs;
// nil looks them up through the API.
func New(cache *capacitycard.Cache, jobs Jobs) *Action {
	if jobs == nil {
		jobs = &informed{}
	}
	return &Action{jobs: jobs, manner: newManner(atOnce), clock: time.Now, limit: newLimit(), cache: cache, counters: newCounters()}
}

// Name returns Name.
func (a *Action) Name() string { return Name }

// Initialize does nothing.
func (a *Action) Initialize() {}

// UnInitialize does nothing.
func (a *Action) UnInitialize() {}

// mostShare bounds the part of the time that searches may take, here a quarter: while they
// are made nobody is scheduled.
const mostShare = 4

// period is the least time between two sessions (Volcano's --schedule-period).
const period = time.Second

// Execute takes cards back for the pods that wait, the queue of the highest priority
// first, as long as a session may take. When it did not suffice for all the next ones go
// by turns. After a long search the next sessions make none.
func (a *Action) Execute(ssn *framework.Session) {
	a.counters.keep(ssn.Queues)
	tide, ok := a.cache.Tide(ssn.UID)
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
	pending := slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending]))
	if !slices.ContainsFunc(pending, func(task *api.TaskInfo) bool { return w.mayTry(task) && w.tide.Takes(task) }) {
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
	return &Preempt{Action: preempt.New(), reclaim: reclaim, evictor: &Evictor{manner: &reclaim.manner}}
}

// Evictor returns what Volcano's cache must evict with.
func (a *Preempt) Evictor() *Evictor { return a.evictor }

// Execute evicts pods for others of their queue or of their job.
func (a *Preempt) Execute(ssn *framework.Session) {
	tide, ok := a.reclaim.cache.Tide(ssn.UID)
	if !ok {
		return
	}
	a.reclaim.jobs.Open(ssn)
	a.reclaim.insist(ssn, tide)
	w := &wave{ssn: ssn, tide: tide, action: a.reclaim, now: tide.Now()}
	w.finish(PreemptName)
	for _, tasks := range tide.Preempt(a.reclaim.jobs.HabitOf, func() { a.Action.Execute(ssn) }) {
		replaced := a.reclaim.isReplaced(tasks[0].Namespace, workload.VCJobOwner(tasks[0].Pod))
		klog.InfoS("Pods of a job are preempted", "job", klog.KRef(tasks[0].Namespace, ssn.Jobs[tasks[0].Job].Name), "pods", len(tasks), "replaced", replaced)
		w.remove(tasks, replaced, PreemptName)
		for _, task := range tasks {
			a.evictor.tell(task.Pod, PreemptName)
		}
	}
}

// Evictor evicts pods for Volcano's cache. Volcano's own writes to each pod once, and a
// gang of which one write fails is left in part. Here each write is tried again. Pods that
// preempt evicts are left to the action Preempt, which knows how their job takes it.
type Evictor struct {
	manner *manner
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
	e.tell(pod, reason)
	return e.manner.inTwoSteps(e.client, []*api.TaskInfo{{Pod: pod}}, false, reason)[pod.UID]
}

// tell sends the event that Volcano's own evictor sends.
func (e *Evictor) tell(pod *corev1.Pod, reason string) {
	if e.recorder != nil {
		e.recorder.Eventf(pod, corev1.EventTypeWarning, "Evict", "Pod is evicted, because of %s", reason)
	}
}

// takeBackPartial takes back promises that an action before this one, such as Volcano's
// preempt inside a job, made to a part of a gang only. The gang cannot start with them, but
// in this session they keep room from others.
func takeBackPartial(ssn *framework.Session) {
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
