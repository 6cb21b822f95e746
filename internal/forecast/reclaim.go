package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// reclaimer finds the gangs that would lose their cards to jobs that wait.
type reclaimer struct {
	*forecaster
	// free is how many of each card no pod would use.
	free map[card.Name]card.Count
	// victims are the running jobs that may be evicted, in the order in which they lose cards.
	victims []*victim
	// inVain are the requests that found too few cards since victims last lost some. Those of many jobs are alike, and each
	// would look at all victims again.
	inVain map[searchedRequests]bool
}

// searchedRequests are the cards that a job of a queue waits for. Jobs with the same find the same.
type searchedRequests struct{ queue, requests string }

// newSearchedRequests returns the cards that a job waits for.
func newSearchedRequests(waits *job) searchedRequests {
	var requests strings.Builder
	for _, pod := range waits.pods {
		if pod.waitsForCards() {
			fmt.Fprintln(&requests, pod.request.Count, pod.placed, pod.request.Names)
		}
	}
	return searchedRequests{waits.queue, requests.String()}
}

// waitsForCards reports whether the pod requests cards and has no node.
func (p *podRequest) waitsForCards() bool { return p.used == nil && p.request.Count > 0 }

// victim is a running job with the cards that it uses.
type victim struct {
	*job
	uses map[card.Name]card.Count
}

// newVictim returns a job as a victim. Cards that its nodes do not offer help no other job.
func newVictim(running *job) *victim {
	v := &victim{running, map[card.Name]card.Count{}}
	for _, pod := range running.pods {
		for _, amount := range pod.used {
			if !slices.Contains(pod.notOffered, amount) {
				v.uses[amount.Name] = v.uses[amount.Name].Add(amount.Count)
			}
		}
	}
	return v
}

// reclaim lists the gangs that would be reclaimed, for jobs whose quota suffices and that find too few free cards. It
// takes as few as are needed: those of the service type with the lowest priority first, of these the youngest, which
// lose the least work. Nothing is taken if it does not suffice for the whole job.
func (f *forecaster) reclaim(placed []*job) {
	r := &reclaimer{forecaster: f, free: f.freeCards(placed), inVain: map[searchedRequests]bool{}}
	var waits []*job
	for _, job := range placed {
		isPlaced := !slices.ContainsFunc(job.pods, func(p *podRequest) bool { return !p.isPlaced })
		switch hasPending := slices.ContainsFunc(job.pods, (*podRequest).waitsForCards); {
		case !isPlaced:
		case hasPending:
			waits = append(waits, job)
		case job.canBeEvicted && job.isRunning():
			r.victims = append(r.victims, newVictim(job))
		}
	}

	slices.SortFunc(r.victims, func(a, b *victim) int {
		return cmp.Or(cmp.Compare(f.priority(a.job), f.priority(b.job)), compareAges(b.job, a.job))
	})
	slices.SortStableFunc(waits, func(a, b *job) int { return cmp.Compare(f.priority(b), f.priority(a)) })
	for _, job := range waits {
		r.serve(job)
	}
}

// freeCards returns the cards that are free if only what fits the quotas runs. Cards that nodes do not offer are none of
// the healthy ones.
func (f *forecaster) freeCards(placed []*job) map[card.Name]card.Count {
	free := map[card.Name]card.Count{}
	maps.Copy(free, f.input.Healthy)
	for _, pod := range f.input.Pods {
		charge, isCharged := f.input.Charges[pod.UID]
		if !isCharged || !f.hasHealthyCards(pod.Spec.NodeName) {
			continue
		}
		for _, amount := range charge.DistinctCards() {
			if charge.IsInInventory(quota.Resource(amount.Name)) {
				free[amount.Name] = free[amount.Name].Sub(amount.Count)
			}
		}
	}

	for _, job := range placed {
		for _, pod := range job.pods {
			for _, amount := range pod.used {
				if !pod.isPlaced && !slices.Contains(pod.notOffered, amount) {
					free[amount.Name] = free[amount.Name].Add(amount.Count)
				}
			}
		}
	}
	return free
}

// serve gives a job that waits its cards, the free ones first, and lists the victims that it needs.
func (r *reclaimer) serve(waits *job) {
	searched := newSearchedRequests(waits)
	if r.inVain[searched] {
		return
	}

	free := maps.Clone(r.free)
	var taken []*victim
	for _, pod := range waits.pods {
		if !pod.waitsForCards() {
			continue
		}
		name, victims := r.cardFor(waits, pod, free, taken)
		if name == "" {
			r.inVain[searched] = true
			return
		}
		taken = append(taken, victims...)
		free[name] = free[name].Sub(pod.request.Count)
	}

	r.free = free
	for _, loses := range taken {
		cards := countCards(loses.pods, func(*podRequest) bool { return true })
		r.listsFor(loses.queue).reclaimed.add(loses.job, cards, fmt.Sprintf(
			"%s %s of namespace %s in queue %s waits for its cards", waits.workload.Kind, waits.workload.Name, waits.workload.Namespace, waits.queue))
	}
	if len(taken) > 0 {
		clear(r.inVain) // cards of victims that the job does not need are free now
		r.victims = slices.DeleteFunc(r.victims, func(v *victim) bool { return slices.Contains(taken, v) })
	}
}

// cardFor returns the card that a pod gets, "" for none, and the victims of which it takes cards. Their cards are free
// then.
func (r *reclaimer) cardFor(waits *job, pod *podRequest, free map[card.Name]card.Count, taken []*victim) (name card.Name, victims []*victim) {
	isFree := func(name card.Name) bool { return free[name] >= pod.request.Count }
	if i := slices.IndexFunc(pod.request.Names, isFree); i >= 0 {
		return pod.request.Names[i], nil
	}

	if r.input.Tree.IsFlat() && !r.input.Matrix.Reclaims(r.typeOf(waits)) { // as most jobs that wait
		return "", nil
	}

	found := free[pod.placed]
	for _, loses := range r.victims {
		if found >= pod.request.Count {
			break
		}
		if cards := loses.uses[pod.placed]; cards > 0 && !slices.Contains(taken, loses) && r.canReclaim(waits, loses.job, pod.placed) {
			victims = append(victims, loses)
			found = found.Add(cards)
		}
	}
	if found < pod.request.Count {
		return "", nil
	}

	for _, loses := range victims {
		for name, count := range loses.uses {
			free[name] = free[name].Add(count)
		}
	}
	return pod.placed, victims
}

// canReclaim reports whether a job may take a card from another one: by their service types, or in a tree because its
// queue stays within what it deserves and the other uses more.
func (r *reclaimer) canReclaim(waits, loses *job, name card.Name) bool {
	if waits.queue == loses.queue {
		return false
	}
	if r.input.Matrix.CanReclaim(r.typeOf(waits), r.typeOf(loses)) {
		return true
	}
	ofCard := quota.Resource(name)
	return !r.input.Tree.IsFlat() && r.ledger.AboveDeserved(waits.queue, ofCard) <= 0 && r.ledger.AboveDeserved(loses.queue, ofCard) > 0
}

// typeOf returns the service type of the queue of a job, "" for a queue that no CardQuota owns.
func (f *forecaster) typeOf(j *job) string {
	owner := f.input.Owners[j.queue]
	if owner == nil {
		return ""
	}
	return owner.Spec.ServiceType
}

// priority returns the priority of the service type of a job, 0 for an unknown one.
func (f *forecaster) priority(j *job) int32 {
	known, _ := f.input.TypeFor(f.typeOf(j))
	return known.Priority
}
