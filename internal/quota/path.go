package quota

import (
	"maps"

	"cardquota.dev/operator/internal/card"
)

// exceededLimit is the first limit on the path to root that a request would exceed.
type exceededLimit struct {
	kind         LimitKind
	at           *queueLedger
	total, limit int64
}

// checkPath returns the first limit on the path that a request would exceed, once released is
// released. The limits are those of the queue, then those of its ancestors, and at last the
// inventory.
//
// A request may use the guarantee of its own queue and ancestors that is unused after the release.
// Otherwise it must leave all unused guarantees free.
func (q *queueLedger) checkPath(resource Resource, count int64, isUnreclaimable bool, released *Released) (e exceededLimit, isExceeded bool) {
	change := int64(0)
	opened := int64(0) // of the unused guarantees below: in all, and by the release
	for at := q; at != nil; at = at.parent {
		gone := released.amountIn(at, resource)
		more := count - gone

		// An exceeded quota is the plainest reason, so it is reported before what others deserve
		// or are guaranteed.
		used := AddSaturating(at.used.amountOf(resource), more)
		if e, isExceeded := at.checkQuota(resource, used); isExceeded {
			return e, true
		}
		if at.isFlat() {
			return e, false
		}

		if !at.isRoot && !at.limits.deservesAny(resource) {
			if e, isExceeded := at.checkDeserved(q, resource, used, count, isUnreclaimable, released); isExceeded {
				return e, true
			}
		}

		if e, isExceeded := at.checkForOthers(resource, used, at.keptForOthers(q, resource, count-released.amount(resource)), change, count+change-opened); isExceeded {
			return e, true
		}

		if at.parent == nil {
			return e, false
		}

		// The request uses its own guarantee first, so the parent has that much less to leave
		// free.
		change = at.unusedAfter(resource, more, change) - at.unused[resource]
		if gone != 0 || opened != 0 { // else nothing opens
			opened = at.unusedAfter(resource, -gone, opened) - at.unused[resource]
		}
	}

	return e, false
}

// checkQuota checks the quota at one queue of the path. Root has none.
func (q *queueLedger) checkQuota(resource Resource, used int64) (e exceededLimit, isExceeded bool) {
	limit := q.limits.Quota(resource)
	if limit < used && !q.isRoot && !q.limits.isUnlimited(resource) {
		return exceededLimit{HardLimit, q, used, limit}, true
	}
	return e, false
}

// keptForOthers returns what is kept at a queue of the path of leaf for pods of others, when leaf uses more
// of a resource.
func (q *queueLedger) keptForOthers(leaf *queueLedger, resource Resource, more int64) int64 {
	kept := q.kept[resource]
	if kept <= 0 {
		return 0
	}
	return max(kept-leaf.usableKept(resource, more), 0)
}

// checkForOthers checks at one queue of the path what is kept for other pods, and what other queues are
// guaranteed. change is by how much the unused guarantees below change. grown is by how much the request
// adds to use and unused guarantees together.
func (q *queueLedger) checkForOthers(resource Resource, used, kept, change, grown int64) (e exceededLimit, isExceeded bool) {
	if q.limits.isUnlimited(resource) {
		return e, false
	}

	limit := q.limits.Quota(resource)
	total := AddSaturating(used, kept)
	if kept > 0 && total > limit && !q.isRoot {
		return exceededLimit{KeptForOthers, q, total, limit}, true
	}

	// A request that grows nothing takes nothing from a guarantee, even where the sum is too
	// large.
	unused := q.unusedBelow[resource] + change
	if unused > 0 && grown > 0 && AddSaturating(total, unused) > limit {
		return exceededLimit{Guaranteed, q, AddSaturating(total, unused), limit}, true
	}

	return e, false
}

// usableKept returns how much of what is kept for its pods the queue may use with more of a card.
// With cards that it borrows, it may not use what was reclaimed for others of its pods.
func (q *queueLedger) usableKept(resource Resource, more int64) int64 {
	if resource.IsCard() && !q.limits.deservesAny(resource) && !q.staysWithinDeserved(resource, more) {
		return 0
	}
	return q.kept[resource]
}

// checkDeserved checks that the queue borrows nothing that could not be reclaimed, and nothing
// that was just reclaimed from it. leaf is the queue that requests.
func (q *queueLedger) checkDeserved(leaf *queueLedger, resource Resource, used, count int64, isUnreclaimable bool, released *Released) (e exceededLimit, isExceeded bool) {
	deserved := q.limits.deserved(resource)
	if isUnreclaimable {
		unreclaimable := AddSaturating(q.unreclaimable.amountOf(resource), count) - released.unreclaimable[resource]
		if unreclaimable > deserved {
			return exceededLimit{NotReclaimable, q, unreclaimable, deserved}, true
		}
	}
	if q.stopped[resource] && used > deserved && count > 0 && !leaf.staysWithinDeserved(resource, count-released.amount(resource)) {
		return exceededLimit{RecentlyReclaimed, q, used, deserved}, true
	}
	return e, false
}

// staysWithinDeserved reports whether the queue uses at most what it deserves with more of a resource.
// Then it takes back what siblings have borrowed, so no ancestor stops it.
func (q *queueLedger) staysWithinDeserved(resource Resource, more int64) bool {
	return !q.limits.deservesAny(resource) && AddSaturating(q.used.amountOf(resource), more) <= q.limits.deserved(resource)
}

// checkTerminating returns the first queue on the path in which terminating pods use more of a
// card than its quota.
func (q *queueLedger) checkTerminating(resource Resource, released *Released) (e exceededLimit, isExceeded bool) {
	for at := q; at != nil && !at.isRoot; at = at.parent {
		if at.limits.AnyCard || (at.terminating == nil && !released.Evicted) {
			continue
		}
		total := int64(at.terminating[resource.Card()].count)

		// An evicted pod uses its cards until it has ended, so it counts on this side at once.
		if released.Evicted {
			total += int64(released.Cards[resource.Card()])
		}

		if limit := int64(at.limits.Cards[resource.Card()]); total > limit {
			return exceededLimit{Terminating, at, total, limit}, true
		}
	}
	return e, false
}

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
	if q.isFlat() {
		return q.limits
	}

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

// deservedOnPath returns limits that are also at most what the queue and its ancestors deserve.
func (q *queueLedger) deservedOnPath(limits Limits) Limits {
	limits.Cards = maps.Clone(limits.Cards)
	for name := range limits.Cards {
		limits.Cards[name] = card.Count(min(q.limitAlone(Resource(name), true), int64(card.MaxCount)))
	}
	limits.MilliCPU = q.limitAlone(CPU, true)
	limits.Memory = q.limitAlone(Memory, true)
	return limits
}
