package actions

import (
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// Allocate is Volcano's action allocate, with the order of a tree. After it, it drains queues.
// Every configuration that starts pods has allocate, so stop policies drain whatever else the
// configuration evicts.
type Allocate struct {
	framework.Action
	shared *Shared
}

var _ framework.Action = &Allocate{}

// NewAllocate returns the action allocate.
func NewAllocate(shared *Shared) *Allocate {
	return &Allocate{Action: allocate.New(), shared: shared}
}

// Execute places pods, in a tree first those with which no queue borrows. Then it deletes pods whose eviction is
// overdue, and evicts the jobs of drained queues.
func (a *Allocate) Execute(ssn *framework.Session) {
	plugin, ok := a.shared.Cache.PluginFor(ssn.UID)
	if !ok {
		// While the plugin may not decide, its checks refuse each pod and state why.
		a.Action.Execute(ssn)
		return
	}

	plugin.Allocate(func() { a.Action.Execute(ssn) })
	policiesKnown := a.shared.Evictions.OpenSession(ssn)
	a.shared.Evictions.DeleteOverdue(plugin.Evictions)
	if jobs := plugin.Drains.DrainedJobs(); len(jobs) > 0 {
		drain := &drain{plugin: plugin, evictions: a.shared.Evictions}
		drain.evictJobs(jobs, policiesKnown)
	}
}
