package cardreclaim

import (
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// PreemptName is the name of Volcano's action preempt, and the reason that is written to the
// pods it evicts.
const PreemptName = "preempt"

// Preempt is Volcano's action preempt for gangs. It evicts a job as a whole if the job would
// be left below its minimum, and in the way of cardreclaim. Its searches have the same bounds.
type Preempt struct {
	framework.Action
	// reclaim has what both actions need.
	reclaim *Action
	evictor *Evictor
	// searches remembers searches that placed no pod. served are the jobs with a search since
	// the last session that could serve all jobs.
	searches searchHistory
	served   map[api.JobID]bool
	// restsUntil is when the action may search again.
	restsUntil time.Time
	// searchCount is for how many pods the last session searched a node.
	searchCount int
}

var _ framework.Action = &Preempt{}

// NewPreempt returns the action preempt, which evicts pods as reclaim does.
func NewPreempt(reclaim *Action) *Preempt {
	return &Preempt{Action: preempt.New(), reclaim: reclaim, evictor: &Evictor{pods: &reclaim.evictor}, served: map[api.JobID]bool{}}
}

// Evictor returns the evictor that Volcano's cache must use.
func (p *Preempt) Evictor() *Evictor { return p.evictor }

// Execute evicts pods for others of their queue or of their job. It waits while cardreclaim
// rests: a job takes cards of other queues before it takes those of its own queue.
func (p *Preempt) Execute(ssn *framework.Session) {
	policy, ok := p.reclaim.cache.ReclaimPolicyFor(ssn.UID)
	if !ok {
		return
	}

	p.reclaim.jobPolicies.OpenSession(ssn)
	s := &reclaimSession{ssn: ssn, policy: policy, action: p.reclaim, now: policy.Now()}
	s.completePartialEvictions(PreemptName)

	began := p.reclaim.clock()
	if (conf.EnabledActionMap[Name] && p.reclaim.rests(ssn.UID)) || began.Before(p.restsUntil) {
		return
	}
	defer policy.AssumeEvicted()()

	searches := p.newSearches(ssn, policy)
	hooks := capacitycard.PreemptHooks{PolicyFor: p.reclaim.jobPolicies.EvictionPolicyFor, Begin: searches.begin, MaySearch: searches.maySearch}
	for _, tasks := range policy.Preempt(hooks, func() { p.Action.Execute(ssn) }) {
		recreated := p.reclaim.isRecreated(tasks[0].Namespace, workload.VCJobOwner(tasks[0].Pod))
		klog.InfoS("Pods of a job are preempted", "job", klog.KRef(tasks[0].Namespace, ssn.Jobs[tasks[0].Job].Name), "pods", len(tasks), "recreated", recreated)
		s.evictTasks(tasks, recreated, PreemptName)
		for _, task := range tasks {
			p.evictor.recordEvicted(task.Pod, PreemptName)
		}
	}

	searches.end()
	if took := p.reclaim.clock().Sub(began); took > minPeriod/(restFactor-1) {
		p.restsUntil = began.Add(restFactor * took)
	}
}
