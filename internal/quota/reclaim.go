package quota

// MayUse is how much more of a resource a queue may use while it reclaims, at one level of its path.
type MayUse struct {
	// Quota is what the quota allows, or root's inventory, beside unused guarantees of others. It is
	// negative if use and guarantees are beyond it already.
	Quota int64
	// Covered is what the queue's own unused guarantees cover. A request within that fits whatever is
	// guaranteed to others.
	Covered int64
	// Coverable is what the unused guarantees of the path up to this level will cover once its children
	// use less. Evictions below the level add to it. It is negative as far as siblings use the
	// guarantee. It counts for the levels above, so the last level has none.
	Coverable int64
	// BesideKept is what the quota alone allows, beside what is kept for others. It is Unlimited for
	// root.
	BesideKept int64
	// Deserved is what the queue of the level deserves beyond its use, at least 0. It is Unlimited for
	// root.
	Deserved int64
}

// Levels have what a queue may use of a resource at each level from the queue itself up to root. Evictions
// below a level add to that level. A flat queue is its only level.
type Levels []MayUse

// Limit returns how much the queue may use at a level for a request of the given amount, while
// victims below the queue of level victimLevel may be evicted. What they release adds to it. A guarantee that
// siblings use covers the request once they are evicted.
func (l Levels) Limit(level int, requested int64, victimLevel int) int64 {
	at := &l[level]
	limit := at.Quota
	if requested <= at.Covered {
		limit = max(limit, at.Covered)
	}
	for i := victimLevel; i < level; i++ { // the evictions free what these levels are guaranteed
		limit = max(limit, min(l[i].Coverable, at.BesideKept))
	}
	return limit
}

// MayUseByLevel returns how much more of a resource a queue may use at each level of its path, from itself to
// root. A plan of evictions adds to these amounts what victims release. Check does not have them: it says
// only whether a request fits now.
func (l *Ledger) MayUseByLevel(queue string, resource Resource) (levels Levels) {
	q := l.readQueue(queue)
	own := int64(0) // what the unused guarantees of the path below this level cover, see ownUnused
	for at := q; at != nil; at = at.parent {
		may := at.mayUse(q, own, resource)
		may.Deserved = at.freeDeserved(resource)
		if at.parent != nil {
			may.Coverable = at.guaranteeBalance(own, resource)
		}
		levels = append(levels, may)
		own = at.ownUnused(own, resource)
	}

	// A queue with too many terminating cards gets no more of them, so evictions for it would be in vain.
	if resource.IsCard() {
		if _, isExceeded := q.checkTerminating(resource, &noRelease); isExceeded {
			levels[0].Quota = 0
		}
	}

	return levels
}

// mayUse returns Quota, Covered and BesideKept of the level of the queue for a leaf below it. own is what the
// unused guarantees of the path below the queue cover.
func (q *queueLedger) mayUse(leaf *queueLedger, own int64, resource Resource) MayUse {
	if q.limits.isUnlimited(resource) {
		return MayUse{Quota: Unlimited, BesideKept: Unlimited}
	}

	// What others are guaranteed stays free. unusedBelow includes what the path itself is guaranteed.
	left := q.freeBesideKept(leaf, resource)
	besideGuarantees := own + left - q.unusedBelow[resource]
	switch {
	case q == leaf: // only ancestors have queues below them that are guaranteed something
		return MayUse{Quota: left, BesideKept: Unlimited}
	case q.isRoot: // physical cards are checked node by node
		return MayUse{Quota: besideGuarantees, Covered: own, BesideKept: Unlimited}
	}

	return MayUse{Quota: min(left, besideGuarantees), Covered: min(left, own), BesideKept: left}
}

// freeDeserved returns how much of what the queue deserves it does not use, Unlimited for root, which
// deserves anything.
func (q *queueLedger) freeDeserved(resource Resource) int64 {
	if q.isRoot || q.limits.deservesAny(resource) {
		return Unlimited
	}
	return max(0, q.limits.deserved(resource)-q.used.amountOf(resource))
}

// freeBesideKept returns how much of a resource the limits of the queue itself leave for a leaf below it,
// beside what is kept for pods of other leaves.
func (q *queueLedger) freeBesideKept(leaf *queueLedger, resource Resource) int64 {
	kept := max(0, q.kept[resource]-leaf.kept[resource])
	return q.limits.Quota(resource) - q.used.amountOf(resource) - kept
}
