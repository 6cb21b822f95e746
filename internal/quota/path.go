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
func (q *queueLedger) checkPath(name card.Name, count int64, isUnreclaimable bool, released *Released) (e exceededLimit, isExceeded bool) {
	change := int64(0)
	opened := int64(0) // of the unused guarantees below: in all, and by the release
	for at := q; at != nil; at = at.parent {
		gone := released.amountIn(at, name)
		more := count - gone
		used := AddSaturating(at.used(name), more)
		if e, isExceeded := at.checkQuota(name, used); isExceeded {
			return e, true
		}
		if at.tree == nil {
			return e, false
		}

		if !at.isRoot() && !at.deservesAny(name) {
			if e, isExceeded := at.checkDeserved(q, name, used, count, isUnreclaimable, released); isExceeded {
				return e, true
			}
		}

		if e, isExceeded := at.checkForOthers(name, used, at.heldFor(q, name, count-released.amount(name)), change, count+change-opened); isExceeded {
			return e, true
		}

		if at.parent == nil {
			return e, false
		}

		change = at.unusedAfter(name, more, change) - at.tree.unused[name]
		if gone != 0 || opened != 0 { // else nothing opens
			opened = at.unusedAfter(name, -gone, opened) - at.tree.unused[name]
		}
	}

	return e, false
}

// checkQuota checks the quota at one queue of the path. Root has none.
func (q *queueLedger) checkQuota(name card.Name, used int64) (e exceededLimit, isExceeded bool) {
	limit := q.limits.quota(name)
	if limit < used && !q.isRoot() && !q.isUnlimited(name) {
		return exceededLimit{Cards, q, used, limit}, true
	}
	return e, false
}

// heldFor returns what is held at a queue of the path of leaf for pods of others, when leaf uses more
// of a name.
func (q *queueLedger) heldFor(leaf *queueLedger, name card.Name, more int64) int64 {
	held := q.tree.held[name]
	if held <= 0 {
		return 0
	}
	return max(held-leaf.usableKept(name, more), 0)
}

// checkForOthers checks at one queue of the path what is held for other pods, and what other queues are
// guaranteed. change is by how much the unused guarantees below change. grown is by how much the request
// adds to use and unused guarantees together.
func (q *queueLedger) checkForOthers(name card.Name, used, held, change, grown int64) (e exceededLimit, isExceeded bool) {
	if q.isUnlimited(name) {
		return e, false
	}

	limit := q.limits.quota(name)
	total := AddSaturating(used, held)
	if held > 0 && total > limit && !q.isRoot() {
		return exceededLimit{HeldForOthers, q, total, limit}, true
	}

	unused := q.tree.unusedBelow[name] + change
	if unused > 0 && grown > 0 && AddSaturating(total, unused) > limit {
		return exceededLimit{Guaranteed, q, AddSaturating(total, unused), limit}, true
	}

	return e, false
}

// usableKept returns how much of what is held for its pods the queue may use with more of a card.
// With cards that it borrows, it may not use what was reclaimed for others of its pods.
func (q *queueLedger) usableKept(name card.Name, more int64) int64 {
	if !isCompute(name) && !q.deservesAny(name) && !q.staysWithinDeserved(name, more) {
		return 0
	}
	return q.tree.held[name]
}

// checkDeserved checks that the queue borrows nothing that could not be reclaimed, and nothing
// that was just reclaimed from it. leaf is the queue that requests.
func (q *queueLedger) checkDeserved(leaf *queueLedger, name card.Name, used, count int64, isUnreclaimable bool, released *Released) (e exceededLimit, isExceeded bool) {
	deserved := q.limits.deserved(name)
	if isUnreclaimable {
		unreclaimable := AddSaturating(q.tree.unreclaimableUsed(name), count) - released.unreclaimableAmount(name)
		if unreclaimable > deserved {
			return exceededLimit{NotReclaimable, q, unreclaimable, deserved}, true
		}
	}
	if q.tree.stopped[name] && used > deserved && count > 0 && !leaf.staysWithinDeserved(name, count-released.amount(name)) {
		return exceededLimit{RecentlyReclaimed, q, used, deserved}, true
	}
	return e, false
}

// staysWithinDeserved reports whether the queue uses at most what it deserves with more of a name.
// Then it takes back what siblings have borrowed, so no ancestor stops it.
func (q *queueLedger) staysWithinDeserved(name card.Name, more int64) bool {
	return !q.deservesAny(name) && AddSaturating(q.used(name), more) <= q.limits.deserved(name)
}

// isUnlimited reports whether the queue does not limit a name.
func (q *queueLedger) isUnlimited(name card.Name) bool {
	switch name {
	case CPUName:
		return q.limits.MilliCPU == Unlimited
	case MemoryName:
		return q.limits.Memory == Unlimited
	}
	return q.limits.AnyCard
}

// lacksQuota reports whether a queue of a tree has no quota for cards. It may use any, but deserves
// none: no administrator gave it cards that it could take back.
func (q *queueLedger) lacksQuota(name card.Name) bool {
	return q.tree != nil && q.limits.AnyCard && !isCompute(name)
}

// deservesAny reports whether the queue deserves any amount of a name, or uses cards without a
// quota, see lacksQuota. A queue without a limit may deserve less than everything.
func (q *queueLedger) deservesAny(name card.Name) bool {
	if name == CPUName || name == MemoryName {
		return q.limits.deserved(name) == Unlimited
	}
	return q.limits.AnyCard
}

func (t *treeSums) unreclaimableUsed(name card.Name) int64 {
	if sum, ok := t.unreclaimable[name]; ok {
		return sum.clampedInt64()
	}
	return 0
}

// checkTerminating returns the first queue on the path in which terminating pods hold more of a
// card than its quota.
func (q *queueLedger) checkTerminating(name card.Name, released *Released) (e exceededLimit, isExceeded bool) {
	for at := q; at != nil && !at.isRoot(); at = at.parent {
		if at.limits.AnyCard {
			continue
		}
		total := int64(at.terminating[name].count)
		if released.Evicted {
			total += int64(released.Cards[name])
		}

		if limit := int64(at.limits.Cards[name]); total > limit {
			return exceededLimit{Terminating, at, total, limit}, true
		}
	}
	return e, false
}

// freeOnPath returns how much more of a name the quotas on the path allow, negative after a
// quota was lowered.
func (q *queueLedger) freeOnPath(name card.Name) int64 {
	free := Unlimited
	for at := q; at != nil && !at.isRoot(); at = at.parent {
		if !at.isUnlimited(name) {
			free = min(free, at.limits.quota(name)-at.used(name))
		}
	}
	return free
}

// limitOnPath returns the smallest quota of a name on the path.
func (q *queueLedger) limitOnPath(name card.Name) int64 {
	limit := Unlimited
	for at := q; at != nil && !at.isRoot(); at = at.parent {
		if !at.isUnlimited(name) {
			limit = min(limit, at.limits.quota(name))
		}
	}
	return limit
}

// PathLimits returns the smallest limits on the path of a queue: what it may use if no other
// queue uses anything.
func (l *Ledger) PathLimits(queue string) Limits {
	q := l.readQueue(queue)
	if q.tree == nil {
		return q.limits
	}

	limits := Limits{AnyCard: q.limits.AnyCard, MilliCPU: q.limitOnPath(CPUName), Memory: q.limitOnPath(MemoryName), Cards: card.Quota{}}
	cards := q.limits.Cards
	for at := q.parent; limits.AnyCard && at != nil && !at.isRoot(); at = at.parent {
		limits.AnyCard = at.limits.AnyCard
		cards = at.limits.Cards
	}

	for name := range cards {
		limits.Cards[name] = card.Count(q.limitOnPath(name))
	}

	return limits
}

// limitAlone returns how much of a name the queue may use if no other queue uses anything. For
// pods from which others cannot reclaim, that is at most what the queues of the path deserve.
func (q *queueLedger) limitAlone(name card.Name, isUnreclaimable bool) int64 {
	limit := q.limitOnPath(name)
	for at := q; isUnreclaimable && at.tree != nil && !at.isRoot(); at = at.parent {
		limit = min(limit, at.limits.deserved(name))
	}
	return limit
}

// deservedOnPath returns limits that are also at most what the queue and its ancestors deserve.
func (q *queueLedger) deservedOnPath(limits Limits) Limits {
	limits.Cards = maps.Clone(limits.Cards)
	for name := range limits.Cards {
		limits.Cards[name] = card.Count(min(q.limitAlone(name, true), int64(card.MaxCount)))
	}
	limits.MilliCPU = q.limitAlone(CPUName, true)
	limits.Memory = q.limitAlone(MemoryName, true)
	return limits
}
