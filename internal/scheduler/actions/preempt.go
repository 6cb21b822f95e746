package actions

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// Preempt is Volcano's action preempt for gangs. It evicts a job as a whole if the job would
// be left below its minimum, and in the way of cardreclaim. Its searches have the same bounds.
type Preempt struct {
	framework.Action
	shared  *Shared
	evictor *cardreclaim.Evictor
}

var _ framework.Action = &Preempt{}

// NewPreempt returns the action preempt.
func NewPreempt(shared *Shared) *Preempt {
	return &Preempt{Action: preempt.New(), shared: shared, evictor: shared.Evictions.NewEvictor()}
}

// Evictor returns the evictor that Volcano's cache must use.
func (p *Preempt) Evictor() *cardreclaim.Evictor { return p.evictor }

// Execute evicts pods for others of their queue or of their job. It searches only once cardreclaim has
// searched for all jobs: a job takes cards of other queues before it takes those of its own queue. Until
// then, and while its own searches rest after a long one, it only completes evictions of gangs.
func (p *Preempt) Execute(ssn *framework.Session) {
	plugin, ok := p.shared.Cache.PluginFor(ssn.UID)
	if !ok {
		return
	}

	p.shared.Evictions.OpenSession(ssn)
	// A gang must not stay evicted in part, also while the searches rest.
	p.shared.Search.CompletePartialEvictions(plugin, schedulerconfig.Preempt)
	searches, ok := p.shared.Preempts.Start(plugin)
	if !ok { // no search in this session
		return
	}
	defer plugin.Evictions.AssumeEvicted()() // until preempt ends, what was evicted before counts as free soon
	defer searches.End()

	// Volcano's own action searches, which p.Action is, and the plugin collects what it would evict.
	hooks := preemption.Hooks{PolicyFor: p.shared.Evictions.EvictionPolicyFor, Begin: searches.Begin, MaySearch: searches.MaySearch}
	for _, tasks := range plugin.Preempt(hooks, func() { p.Action.Execute(ssn) }) {
		recreated := p.shared.Evictions.Evict(plugin.Evictions, tasks, schedulerconfig.Preempt)
		klog.InfoS("Pods of a job are preempted", "job", klog.KRef(tasks[0].Namespace, ssn.Jobs[tasks[0].Job].Name), "pods", len(tasks), "recreated", recreated)
		for _, task := range tasks {
			p.evictor.Record(task.Pod, schedulerconfig.Preempt)
		}
	}
}
