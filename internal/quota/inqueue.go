package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// ElasticUsage is what a running job uses, and how much of it is above the job's minimum. Pods
// above the minimum are evicted first, so jobs may wait for these cards.
type ElasticUsage struct {
	// Used is how many of each card the job's pods use.
	Used map[card.Name]card.Count
	// Elastic is how many of them are above the minimum.
	Elastic card.Count
	// MilliCPU and Memory are used by its pods above the minimum.
	MilliCPU, Memory int64
}

// Bounds of the reservations of one queue. Users choose the alternatives of a job, and 16 cards
// allow any number of choices.
const (
	// maxChoices is how many different choices among several cards are distinguished. Beyond
	// that a request reserves each of its cards: more than it needs, never less.
	maxChoices = 64
	// maxJobChoices is how many more choices one job request may add.
	maxJobChoices = 16
	// maxCardRequests covers all choices and all cards that a quota can name. Only a queue without
	// limits sees more, and there the requests decide nothing.
	maxCardRequests = maxChoices + card.MaxQuotaEntries
)

// Reservations are what the enqueued jobs of a queue still wait for.
type Reservations struct {
	// Cards has at most one entry for the same cards, each with sorted names and a count
	// above 0.
	Cards            []CardRequest
	Elastic          []ElasticUsage
	MilliCPU, Memory int64
	// unreclaimable are the part from which other queues could not reclaim, nil if there is none.
	unreclaimable *Reservations

	// elasticCPU and elasticMemory are used by running jobs above their minimum.
	elasticCPU, elasticMemory int64

	index   cardRequestIndex
	pools   map[string]int // joined card names → index of their pool in Elastic
	choices int            // how many of Cards have several names
	// split is set when there were too many choices: then each request reserves each of its cards.
	split bool
}

// Add adds the request of an enqueued job. Requests for the same cards become one, so a thousand
// equal jobs cost no more than one. The result does not depend on the order of the calls.
func (r *Reservations) Add(request JobRequest) {
	// These have sums of their own, because they are also bounded by what the queue deserves.
	if request.IsUnreclaimable {
		if r.unreclaimable == nil {
			r.unreclaimable = &Reservations{}
		}
		request.IsUnreclaimable = false
		r.unreclaimable.Add(request)
	}

	for _, wanted := range request.Cards {
		if wanted.Count > 0 {
			r.addCards(sortNames(wanted.Names), wanted.Count)
		}
	}
	r.MilliCPU = AddSaturating(r.MilliCPU, request.MilliCPU)
	r.Memory = AddSaturating(r.Memory, request.Memory)
}

// addCards adds a count to the request for these names, which are sorted. Several names are a choice. With
// more than maxChoices different choices, all requests reserve each of their cards: more than they need,
// never less.
func (r *Reservations) addCards(names []card.Name, count card.Count) {
	// Requests before and after the split are treated alike, so that the order of calls does not matter.
	if len(names) > 1 && r.split {
		for i := range names {
			r.addCards(names[i:i+1], count)
		}
		return
	}

	switch i := r.index.find(r.Cards, names); {
	case i >= 0:
		r.Cards[i].Count = r.Cards[i].Count.Add(count)
	case len(names) == 0: // a request without a card name gets no card
	case len(names) > 1 && r.choices == maxChoices:
		r.splitAlternatives()
		r.addCards(names, count)
	case len(r.Cards) < maxCardRequests: // only a queue without limits has more of them, and there they decide nothing
		r.Cards = append(r.Cards, CardRequest{Names: names, Count: count})
		if len(names) > 1 {
			r.choices++
		}
	}
}

// splitAlternatives makes every request reserve each of its cards.
func (r *Reservations) splitAlternatives() {
	requests := r.Cards
	r.Cards = nil
	r.index = cardRequestIndex{}
	r.choices = 0
	r.split = true
	for _, wanted := range requests {
		r.addCards(wanted.Names, wanted.Count)
	}
}

// AddElastic adds the elastic usage of a running job: what it would give to waiting jobs. Jobs that use the
// same one or two cards form one pool, which gives exactly what they give. With more cards only jobs that use
// as many of each form a pool.
func (r *Reservations) AddElastic(e ElasticUsage) {
	r.elasticCPU = AddSaturating(r.elasticCPU, e.MilliCPU)
	r.elasticMemory = AddSaturating(r.elasticMemory, e.Memory)
	names, total := e.givenCards()
	if len(names) == 0 {
		return
	}

	// Each pool is a vertex of the matching at enqueue, whose size then depends on the cards and not on the
	// jobs.
	key := e.poolKey(names)
	i, known := r.pools[key]
	if !known {
		if r.pools == nil {
			r.pools = map[string]int{}
		}
		i = len(r.Elastic)
		r.pools[key] = i
		r.Elastic = append(r.Elastic, ElasticUsage{Used: map[card.Name]card.Count{}})
	}

	// A job gives at most Elastic cards, whatever their names. That bounds what it adds to the pool, of each
	// name and in all.
	pool := &r.Elastic[i]
	for _, name := range names {
		pool.Used[name] = pool.Used[name].Add(min(e.Used[name], e.Elastic))
	}

	pool.Elastic = pool.Elastic.Add(min(e.Elastic, total))
}

// givenCards returns the cards that a job may lose to others, sorted, and the sum over the cards, which
// may be more than Elastic.
func (e *ElasticUsage) givenCards() (names []card.Name, total card.Count) {
	for name, used := range e.Used {
		if give := min(used, e.Elastic); give > 0 {
			names = append(names, name)
			total = total.Add(give)
		}
	}
	slices.Sort(names)
	return names, total
}

// poolKey identifies the pool of a job that may give these cards. Of one or two cards all jobs share a pool,
// which gives exactly what they give. With more, only jobs with equal amounts do.
func (e *ElasticUsage) poolKey(names []card.Name) string {
	key := joinNames(names)
	if len(names) > 2 {
		for _, name := range names {
			key = fmt.Sprint(key, " ", min(e.Used[name], e.Elastic))
		}
		key = fmt.Sprint(key, " ", e.Elastic)
	}
	return key
}

// removeElastic undoes AddElastic.
func (r *Reservations) removeElastic(e ElasticUsage) {
	r.elasticCPU = max(0, r.elasticCPU-e.MilliCPU)
	r.elasticMemory = max(0, r.elasticMemory-e.Memory)
	names, total := e.givenCards()
	i, known := r.pools[e.poolKey(names)]
	if !known {
		return
	}

	pool := &r.Elastic[i]
	for _, name := range names {
		pool.Used[name] = pool.Used[name].Sub(min(e.Used[name], e.Elastic))
	}

	pool.Elastic = pool.Elastic.Sub(min(e.Elastic, total))
}

// ReplaceElastic returns a copy in which jobs give other amounts: without those of removed, which AddElastic
// added, and with those of added. unreclaimable are the amounts of added that other queues could not reclaim.
// The copy shares its list of card requests, so the caller must add none to it.
func (r *Reservations) ReplaceElastic(removed, added, unreclaimable []ElasticUsage) *Reservations {
	// All jobs of the queue go on reading the original, so copy what the calls below change.
	c := *r
	c.Elastic = make([]ElasticUsage, len(r.Elastic), len(r.Elastic)+len(added))
	c.pools = maps.Clone(r.pools)
	for i, pool := range r.Elastic {
		pool.Used = maps.Clone(pool.Used)
		c.Elastic[i] = pool
	}

	for _, e := range removed {
		c.removeElastic(e)
	}

	for _, e := range added {
		c.AddElastic(e)
	}

	// AddElastic adds nothing to the unreclaimable part, so there is nothing to remove from it.
	if len(unreclaimable) > 0 {
		c.unreclaimable = cmp.Or(r.unreclaimable, &Reservations{}).ReplaceElastic(nil, unreclaimable, nil)
	}

	return &c
}

// sortNames returns names sorted, since preference does not matter here. It copies only names
// that are not sorted.
func sortNames(names []card.Name) []card.Name {
	if slices.IsSorted(names) {
		return names
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}
