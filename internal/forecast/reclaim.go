package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// reclaimer finds the gangs that would lose their cards to jobs that wait.
type reclaimer struct {
	*forecaster
	// free is how many of each card no pod would use.
	free map[card.Name]card.Count
	// victims are the running jobs that may be evicted, in the order in which they lose cards.
	victims []*job
}

// reclaim lists the gangs that would be reclaimed, for jobs whose quota suffices and that find too few free cards. It
// takes as few as are needed: those of the service type with the lowest priority first, of these the youngest, which
// lose the least work. Nothing is taken if it does not suffice for the whole job.
func (f *forecaster) reclaim(placed []*job) {
	r := &reclaimer{forecaster: f, free: f.freeCards(placed)}
	var waits []*job
	for _, job := range placed {
		isPlaced := !slices.ContainsFunc(job.pods, func(p *podRequest) bool { return !p.isPlaced })
		switch hasPending := slices.ContainsFunc(job.pods, func(p *podRequest) bool { return p.used == nil && p.request.Count > 0 }); {
		case !isPlaced:
		case hasPending:
			waits = append(waits, job)
		case job.canBeEvicted && job.isRunning():
			r.victims = append(r.victims, job)
		}
	}

	slices.SortFunc(r.victims, func(a, b *job) int { return cmp.Or(cmp.Compare(f.priority(a), f.priority(b)), compareAges(b, a)) })
	slices.SortStableFunc(waits, func(a, b *job) int { return cmp.Compare(f.priority(b), f.priority(a)) })
	for _, job := range waits {
		r.serve(job)
	}
}

// freeCards returns the cards that are free if only what fits the quotas runs.
func (f *forecaster) freeCards(placed []*job) map[card.Name]card.Count {
	free := map[card.Name]card.Count{}
	maps.Copy(free, f.input.Healthy)
	for _, charge := range f.input.Charges {
		for _, amount := range charge.DistinctCards() {
			free[amount.Name] = free[amount.Name].Sub(amount.Count)
		}
	}

	for _, job := range placed {
		for _, pod := range job.pods {
			for _, amount := range pod.used {
				if !pod.isPlaced {
					free[amount.Name] = free[amount.Name].Add(amount.Count)
				}
			}
		}
	}
	return free
}

// serve gives a job that waits its cards, the free ones first, and lists the victims that it needs.
func (r *reclaimer) serve(waits *job) {
	free := maps.Clone(r.free)
	var taken []*job
	for _, pod := range waits.pods {
		if pod.used != nil || pod.request.Count == 0 {
			continue
		}
		name, victims := r.cardFor(waits, pod, free, taken)
		if name == "" {
			return
		}
		taken = append(taken, victims...)
		free[name] = free[name].Sub(pod.request.Count)
	}

	r.free = free
	for _, victim := range taken {
		cards := countCards(victim.pods, func(*podRequest) bool { return true })
		r.listsFor(victim.queue).reclaimed.add(victim, cards, fmt.Sprintf(
			"%s %s of namespace %s in queue %s waits for its cards", waits.workload.Kind, waits.workload.Name, waits.workload.Namespace, waits.queue))
	}
	r.victims = slices.DeleteFunc(r.victims, func(victim *job) bool { return slices.Contains(taken, victim) })
}

// cardFor returns the card that a pod gets, "" for none, and the victims of which it takes cards. Their cards are free
// then.
func (r *reclaimer) cardFor(waits *job, pod *podRequest, free map[card.Name]card.Count, taken []*job) (name card.Name, victims []*job) {
	for _, name := range pod.request.Names {
		if free[name] >= pod.request.Count {
			return name, nil
		}
	}

	found := free[pod.placed]
	for _, victim := range r.victims {
		if found >= pod.request.Count {
			break
		}
		if cards := victim.cardsOf(pod.placed); cards > 0 && !slices.Contains(taken, victim) && r.canReclaim(waits, victim, pod.placed) {
			victims = append(victims, victim)
			found = found.Add(cards)
		}
	}
	if found < pod.request.Count {
		return "", nil
	}

	for _, victim := range victims {
		for _, used := range victim.pods {
			for _, amount := range used.used {
				free[amount.Name] = free[amount.Name].Add(amount.Count)
			}
		}
	}
	return pod.placed, victims
}

// cardsOf returns how many of a card the job uses.
func (j *job) cardsOf(name card.Name) (sum card.Count) {
	for _, pod := range j.pods {
		for _, amount := range pod.used {
			if amount.Name == name {
				sum = sum.Add(amount.Count)
			}
		}
	}
	return sum
}

// canReclaim reports whether a job may take a card from another one: by their service types, or in a tree because its
// queue stays within what it deserves and the other uses more.
func (r *reclaimer) canReclaim(waits, victim *job, name card.Name) bool {
	if waits.queue == victim.queue {
		return false
	}
	if r.input.Matrix.CanReclaim(r.typeOf(waits), r.typeOf(victim)) {
		return true
	}
	ofCard := quota.Resource(name)
	return !r.input.Tree.IsFlat() && r.ledger.AboveDeserved(waits.queue, ofCard) <= 0 && r.ledger.AboveDeserved(victim.queue, ofCard) > 0
}

// typeOf returns the service type of the queue of a job.
func (f *forecaster) typeOf(j *job) string { return f.input.Owners[j.queue].Spec.ServiceType }

// priority returns the priority of the service type of a job, 0 for an unknown one.
func (f *forecaster) priority(j *job) int32 {
	known, _ := f.input.TypeFor(f.typeOf(j))
	return known.Priority
}
