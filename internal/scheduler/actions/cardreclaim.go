// Package actions has the actions of Volcano's scheduler that know card quotas: allocate and preempt
// in the place of Volcano's, and cardreclaim. Allocate also drains queues.
//
// An action runs in the sessions of the plugin capacity-card. The plugin has the rules; package
// cardreclaim finds victims in other queues, and carries out the evictions of all actions.
package actions

import (
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/schedulerconfig"
)

// Shared is what the actions of one scheduler share.
type Shared struct {
	// Cache has the plugin of the open session.
	Cache     *capacitycard.Cache
	Evictions *cardreclaim.Evictions
	// Search finds victims in other queues. Preempts bounds the searches of preempt beside it.
	Search   *cardreclaim.Search
	Preempts *cardreclaim.PreemptSearches
}

// NewShared returns what actions share that run in the sessions of the plugin with a cache. If jobs is
// nil, the API server has the policies of jobs.
func NewShared(cache *capacitycard.Cache, jobs cardreclaim.JobPolicies) *Shared {
	evictions := cardreclaim.NewEvictions(cache, jobs)
	search := cardreclaim.New(evictions)
	return &Shared{Cache: cache, Evictions: evictions, Search: search, Preempts: cardreclaim.NewPreemptSearches(search)}
}

// CardReclaim is the action cardreclaim: it reclaims cards for pending pods from other queues.
type CardReclaim struct{ shared *Shared }

var _ framework.Action = &CardReclaim{}

// NewCardReclaim returns the action cardreclaim.
func NewCardReclaim(shared *Shared) *CardReclaim { return &CardReclaim{shared: shared} }

// Name returns schedulerconfig.CardReclaim.
func (c *CardReclaim) Name() string { return schedulerconfig.CardReclaim }

// Initialize does nothing.
func (c *CardReclaim) Initialize() {}

// UnInitialize does nothing.
func (c *CardReclaim) UnInitialize() {}

// Execute searches victims for pending pods, and evicts them.
func (c *CardReclaim) Execute(ssn *framework.Session) {
	c.shared.Search.ForgetQueues(ssn.Queues) // drops the metrics of all other queues
	plugin, ok := c.shared.Cache.PluginFor(ssn.UID)
	if !ok {
		return
	}
	c.shared.Evictions.OpenSession(ssn)
	c.shared.Search.Run(plugin)
}
