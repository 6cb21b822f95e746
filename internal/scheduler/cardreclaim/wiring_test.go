package cardreclaim_test

import (
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/scheduler/actions"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/cardreclaim"
)

// The tests of package cardreclaim run the actions.
func init() {
	shared := func(cache *capacitycard.Cache, evictions *cardreclaim.Evictions, search *cardreclaim.Search) *actions.Shared {
		return &actions.Shared{Cache: cache, Evictions: evictions, Search: search}
	}

	cardreclaim.Actions.Allocate = func(cache *capacitycard.Cache, evictions *cardreclaim.Evictions, search *cardreclaim.Search) framework.Action {
		return actions.NewAllocate(shared(cache, evictions, search))
	}
	cardreclaim.Actions.CardReclaim = func(cache *capacitycard.Cache, evictions *cardreclaim.Evictions, search *cardreclaim.Search) framework.Action {
		return actions.NewCardReclaim(shared(cache, evictions, search))
	}
	cardreclaim.Actions.Preempt = func(cache *capacitycard.Cache, evictions *cardreclaim.Evictions, search *cardreclaim.Search, preempts *cardreclaim.PreemptSearches) cardreclaim.PreemptAction {
		return actions.NewPreempt(&actions.Shared{Cache: cache, Evictions: evictions, Search: search, Preempts: preempts})
	}
}
