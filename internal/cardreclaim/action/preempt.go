package action

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/workload"
)

// PreemptName is the name of Volcano's action preempt, and the reason that is written to
// the pods it evicts.
const PreemptName = "preempt"

// Preempt is Volcano's action preempt for jobs that are gangs: a job goes as a whole where
// it would be left below its minimum, and its pods go as those that cardreclaim evicts. Each
// write is tried again, and no retry of a Volcano job is counted.
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
	tide, ok := capacitycard.TideOf(ssn)
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
