package quota

import "cardquota.dev/operator/internal/card"

// freeOnPath returns how much more of a resource the quotas on the path allow once released is
// released, negative after a quota was lowered.
func (q *queueLedger) freeOnPath(resource Resource, released *Released) int64 {
	free := Unlimited
	for at := q; at != nil && !at.isRoot; at = at.parent {
		if !at.limits.isUnlimited(resource) {
			free = min(free, at.limits.Quota(resource)-at.used.amountOf(resource)+released.amount(resource))
		}
	}
	return free
}

// limitOnPath returns the smallest quota of a resource on the path.
func (q *queueLedger) limitOnPath(resource Resource) int64 {
	limit := Unlimited
	for at := q; at != nil && !at.isRoot; at = at.parent {
		if !at.limits.isUnlimited(resource) {
			limit = min(limit, at.limits.Quota(resource))
		}
	}
	return limit
}

// PathLimits returns the smallest limits on the path of a queue: what it may use if no other
// queue uses anything.
func (l *Ledger) PathLimits(queue string) Limits {
	q := l.readQueue(queue)
	limits := Limits{AnyCard: q.limits.AnyCard, MilliCPU: q.limitOnPath(CPU), Memory: q.limitOnPath(Memory), Cards: card.Quota{}}

	// A queue without a quota for cards is bound by the nearest ancestor that has one.
	cards := q.limits.Cards
	for at := q.parent; limits.AnyCard && at != nil && !at.isRoot; at = at.parent {
		limits.AnyCard = at.limits.AnyCard
		cards = at.limits.Cards
	}

	for name := range cards {
		limits.Cards[name] = card.Count(q.limitOnPath(Resource(name)))
	}

	return limits
}

// limitAlone returns how much of a resource the queue may use if no other queue uses anything. For
// pods from which others cannot reclaim, that is at most what the queues of the path deserve.
func (q *queueLedger) limitAlone(resource Resource, isUnreclaimable bool) int64 {
	limit := q.limitOnPath(resource)
	for at := q; isUnreclaimable && at != nil && !at.isRoot; at = at.parent {
		limit = min(limit, at.limits.deserved(resource))
	}
	return limit
}
