package quota

import "cardquota.dev/operator/internal/card"

// TogetherFit is how requests of several pods fit a queue together.
type TogetherFit int

// The answers of FitsTogether.
const (
	// ExceedsQuota: the pods wait for quota.
	ExceedsQuota TogetherFit = iota
	// WithinQuota: the queue would borrow.
	WithinQuota
	// WithinDeserved: the queue would use at most what it deserves.
	WithinDeserved
)

// FitsTogether returns how the requests of some pods fit a queue together, beside what it uses now.
// Each pod gets the first of its cards that the queue deserves, else the first one within its quota.
// reclaimable is ReclaimableCards or ReclaimableAll. Without a tree a queue deserves its quota.
func (l *Ledger) FitsTogether(queue string, requests []Request, reclaimable Within) TogetherFit {
	q := l.readQueue(queue)
	sums := map[card.Name]card.Count{}
	fit := WithinDeserved

	var compute Request
	for _, r := range requests {
		compute.MilliCPU = AddSaturating(compute.MilliCPU, r.MilliCPU)
		compute.Memory = AddSaturating(compute.Memory, r.Memory)
		compute.IsUnreclaimable = compute.IsUnreclaimable || r.IsUnreclaimable
		if r.Count == 0 {
			continue
		}

		// Pods that fit one by one may exceed the quota together, so each sees the cards of those
		// before it.
		name, ofPod := q.chooseCard(r, sums, &reclaimable)
		if ofPod == ExceedsQuota {
			return ExceedsQuota
		}

		sums[name] = sums[name].Add(r.Count)
		fit = min(fit, ofPod)
	}

	if !l.Fits(queue, compute, Within{}) {
		return ExceedsQuota
	}
	if !l.Fits(queue, compute, reclaimable) {
		return WithinQuota
	}

	return fit
}

// chooseCard returns the card that a pod gets beside some sums, and how it fits.
func (q *queueLedger) chooseCard(r Request, sums map[card.Name]card.Count, reclaimable *Within) (chosen card.Name, fit TogetherFit) {
	for _, name := range r.Names {
		together := r.On(name)
		together.Count = sums[name].Add(r.Count)
		switch {
		case !q.fitsSomeCard(&together, &Within{}):
		case q.fitsSomeCard(&together, reclaimable):
			return name, WithinDeserved
		case fit == ExceedsQuota:
			chosen = name
			fit = WithinQuota
		}
	}

	return chosen, fit
}
