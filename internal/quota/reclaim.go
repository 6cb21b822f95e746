package quota

// MayUse is how much more of a resource a queue may use while it reclaims, at each level from the
// queue itself up to root. Evictions below a level add to that level.
type MayUse struct {
	// Quota has what the quotas allow, and root's inventory, beside unused guarantees of others.
	// It is negative if use and guarantees are beyond them already.
	Quota []int64
	// Covered has what the queue's own unused guarantees cover. A request within that fits
	// whatever is guaranteed to others.
	Covered []int64
	// Coverable has what the unused guarantees of the path up to each queue will cover once its
	// children use less. Evictions below that level add to it. It is negative as far as siblings
	// use the guarantee.
	Coverable []int64
	// BesideKept has what the quotas alone allow, beside what is kept for others. It is Unlimited
	// for root.
	BesideKept []int64
	// Deserved has what each queue deserves beyond its use, at least 0. The last one, for root,
	// is Unlimited.
	Deserved []int64
}

// Limit returns how much the queue may use at a level for a request of the given amount, while
// victims up to another level may be evicted. What victims release adds to it. A guarantee that
// siblings use covers the request once they are evicted.
func (m *MayUse) Limit(level int, requested int64, victims int) int64 {
	limit := m.Quota[level]
	if requested <= m.Covered[level] {
		limit = max(limit, m.Covered[level])
	}
	for i := victims; i < level; i++ {
		limit = max(limit, min(m.Coverable[i], m.BesideKept[level]))
	}
	return limit
}

// MayUseByLevel returns what a queue may use of a resource by level. Without a tree it has one level
// for the queue itself and one without limits for root.
func (l *Ledger) MayUseByLevel(queue string, resource Resource) (m MayUse) {
	q := l.readQueue(queue)
	own := int64(0) // what the unused guarantees of the path below at cover, see ownUnused
	for at := q; at != nil; at = at.parent {
		free, covered, besideKept := mayUseAt(at, q, own, resource)
		coverable := int64(0)
		if l.root != nil { // else no sibling uses the guarantee
			coverable = at.guaranteeBalance(own, resource)
		}

		own = at.ownUnused(own, resource)

		// The predicate refuses the queue any more of the card, so an eviction for it would be in
		// vain.
		if at == q && resource.IsCard() {
			if _, isExceeded := q.checkTerminating(resource, &noRelease); isExceeded {
				free = 0
			}
		}
		m.addLevel(free, covered, at.freeDeserved(resource), besideKept, coverable)
	}

	if l.root == nil {
		m.addLevel(Unlimited, 0, Unlimited, Unlimited, 0)
	}

	return m
}

// mayUseAt returns Quota, Covered and BesideKept of the level of a queue for a leaf below it. own is what the
// unused guarantees of the path below that queue cover.
func mayUseAt(at, leaf *queueLedger, own int64, resource Resource) (free, covered, besideKept int64) {
	if at.limits.isUnlimited(resource) {
		return Unlimited, 0, Unlimited
	}

	// What others are guaranteed stays free. unusedBelow includes what the path itself is guaranteed.
	left := at.freeBesideKept(leaf, resource)
	besideGuarantees := own + left - at.unusedBelow[resource]
	switch {
	case at == leaf:
		return left, 0, Unlimited
	case at.isRoot: // physical cards are checked node by node
		return besideGuarantees, own, Unlimited
	}

	return min(left, besideGuarantees), min(left, own), left
}

// addLevel adds the level above the last one.
func (m *MayUse) addLevel(quota, covered, deserved, besideKept, coverable int64) {
	m.Quota = append(m.Quota, quota)
	m.Covered = append(m.Covered, covered)
	m.Deserved = append(m.Deserved, deserved)
	m.BesideKept = append(m.BesideKept, besideKept)
	m.Coverable = append(m.Coverable, coverable)
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
