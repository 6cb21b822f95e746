package quota

import (
	"cmp"

	"cardquota.dev/operator/internal/card"
)

// FitsDeserved reports whether the queue may reclaim for a request: with it, the queue uses at
// most what it deserves, on some requested card. The result is nil, or the first limit that is
// exceeded. Without a tree a queue deserves its quota. A queue of a tree without a quota for cards
// deserves none.
//
// CPU and memory must fit the limits of the queue itself. Evictions may free those of its
// ancestors. If reclaimsCPU is set, they must fit what the queue deserves instead.
func (l *Ledger) FitsDeserved(queue string, request Request, reclaimsCPU bool) *InsufficientQuota {
	// A flat queue deserves its quota, so its usual check decides.
	q := l.readQueue(queue)
	if q.isFlat() {
		if all := l.Check(queue, request, Within{}); len(all) > 0 {
			return &all[0]
		}
		return nil
	}

	var first *InsufficientQuota
	for _, name := range request.Names {
		s := q.beyondDeserved(Resource(name), int64(request.Count))
		if s == nil {
			first = nil
			break
		}

		if first == nil {
			first = s
		}
	}

	if first != nil {
		return first
	}

	// Victims of other queues give back CPU of the ancestors, but none of the queue's own limits.
	beyond := q.beyondQuota
	if reclaimsCPU {
		beyond = q.beyondDeserved
	}

	return cmp.Or(beyond(CPU, request.MilliCPU), beyond(Memory, request.Memory))
}

// beyondQuota returns why a request is more than the quota of the queue itself, nil if it is
// not.
func (q *queueLedger) beyondQuota(resource Resource, count int64) *InsufficientQuota {
	total := AddSaturating(q.used.amountOf(resource), count)
	limit := q.limits.Quota(resource)
	if count <= 0 || q.isUnlimited(resource) || total <= limit {
		return nil
	}

	s := q.describeInsufficient(exceededLimit{HardLimit, q, total, limit}, resource, count)
	return &s
}

// beyondDeserved returns why a request is more than the queue deserves, nil if it is not.
func (q *queueLedger) beyondDeserved(resource Resource, count int64) *InsufficientQuota {
	lacksQuota := q.lacksQuota(resource)
	if count <= 0 || (!lacksQuota && q.deservesAny(resource)) {
		return nil
	}

	e := exceededLimit{at: q, total: AddSaturating(q.used.amountOf(resource), count)}
	switch {
	case lacksQuota:
		e.kind = Deserved
	case e.total > q.limits.Quota(resource):
		e.kind = HardLimit
		e.limit = q.limits.Quota(resource)
	case e.total > q.limits.deserved(resource):
		e.kind = Deserved
		e.limit = q.limits.deserved(resource)
	default:
		if !resource.IsCard() {
			return nil
		}

		// Cards reclaimed now would stay unused while terminating pods bar the queue from them.
		var isExceeded bool
		e, isExceeded = q.checkTerminating(resource, &noRelease)
		if !isExceeded {
			return nil
		}
	}

	s := q.describeInsufficient(e, resource, count)
	return &s
}

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
	own := int64(0) // unused guarantee of the path below
	for at := q; at != nil; at = at.parent {
		free := at.freeQuota(resource)
		covered := int64(0)
		besideKept := Unlimited

		// What others are guaranteed stays free. The unused guarantee of the own path is part of
		// that sum.
		if !at.isUnlimited(resource) {
			left := at.freeBesideKept(q, resource)
			free = min(free, left)
			if at != q {
				besideKept = free
				covered = min(free, own)
				free = min(free, own+left-at.unusedBelow[resource])
			}

			if at.isRoot { // physical cards are checked node by node
				free = own + left - at.unusedBelow[resource]
				covered = own
				besideKept = Unlimited
			}
		}

		coverable := int64(0)
		if !at.isFlat() { // no sibling of a flat queue uses its guarantee
			coverable = at.guaranteeBalance(own, resource)
		}

		own = at.ownUnused(own, resource)

		// The predicate refuses the queue any more of the card, so an eviction for it would be in
		// vain.
		if at == q && at.isStoppedByTerminating(resource) {
			free = 0
		}
		m.addLevel(free, covered, at.freeDeserved(resource), besideKept, coverable)
	}

	if q.isFlat() {
		m.addLevel(Unlimited, 0, Unlimited, Unlimited, 0)
	}

	return m
}

func (m *MayUse) addLevel(quota, covered, deserved, besideKept, coverable int64) {
	m.Quota = append(m.Quota, quota)
	m.Covered = append(m.Covered, covered)
	m.Deserved = append(m.Deserved, deserved)
	m.BesideKept = append(m.BesideKept, besideKept)
	m.Coverable = append(m.Coverable, coverable)
}

// freeQuota returns how much more of a resource the quota of the queue itself allows. Root has none.
func (q *queueLedger) freeQuota(resource Resource) int64 {
	if q.isRoot || q.isUnlimited(resource) {
		return Unlimited
	}
	return q.limits.Quota(resource) - q.used.amountOf(resource)
}

// freeDeserved returns how much of what the queue deserves it does not use. Root deserves anything.
func (q *queueLedger) freeDeserved(resource Resource) int64 {
	if q.isRoot || q.deservesAny(resource) {
		return Unlimited
	}
	return max(0, q.limits.deserved(resource)-q.used.amountOf(resource))
}

func (q *queueLedger) isStoppedByTerminating(resource Resource) bool {
	return resource.IsCard() && q.isTerminatingOverQuota(resource.Card())
}

// freeBesideKept returns how much of a resource is left for a queue beside what is kept for other
// queues.
func (q *queueLedger) freeBesideKept(leaf *queueLedger, resource Resource) int64 {
	kept := max(0, q.kept[resource]-leaf.kept[resource])
	return q.limits.Quota(resource) - q.used.amountOf(resource) - kept
}

// ownUnused adds what the queue itself has of unused guarantee, beyond those of its children, to
// what its path below has. A leaf may use that much without using guarantees of other queues.
func (q *queueLedger) ownUnused(below int64, resource Resource) int64 {
	if q.limits.IsHeld {
		return 0
	}
	return max(below, q.guaranteeBalance(below, resource))
}

// guaranteeBalance is ownUnused, but negative as far as the queue uses more than its guarantee. Cards
// that victims below the queue release add to it.
func (q *queueLedger) guaranteeBalance(below int64, resource Resource) int64 {
	if q.limits.IsHeld {
		return -Unlimited
	}
	return below + min(q.limits.Guarantee[resource], maxUnused) - min(q.used.amountOf(resource), maxUnused) - q.unusedBelow[resource]
}

// ownUnusedBelow returns ownUnused of the path from q to the child of an ancestor.
func (q *queueLedger) ownUnusedBelow(ancestor *queueLedger, resource Resource) (own int64) {
	for at := q; at != ancestor; at = at.parent {
		own = at.ownUnused(own, resource)
	}
	return own
}

// Deserves reports whether a queue deserves so many more of a resource than it uses. Without a tree a
// queue deserves its quota. A queue of a tree without a quota for cards deserves none.
func (l *Ledger) Deserves(queue string, resource Resource, count int64) bool {
	q := l.readQueue(queue)
	if q.lacksQuota(resource) {
		return count <= 0
	}
	return count == 0 || q.deservesAny(resource) || AddSaturating(q.used.amountOf(resource), count) <= q.limits.deserved(resource)
}

// CouldFit reports whether so many of a card fit the quotas of a queue and its ancestors, and
// beside what is guaranteed to others, if no queue used more than its guarantee. Within its own
// guarantee, and within those of its ancestors that others do not use, the queue leaves others theirs.
func (l *Ledger) CouldFit(queue string, name card.Name, count card.Count) bool {
	q := l.readQueue(queue)
	guaranteed := int64(0) // by the queues below
	resource := Resource(name)
	for at := q; at != nil; at = at.parent {
		limit := at.limits.Quota(resource)
		if int64(count) > limit && !at.isUnlimited(resource) {
			return false
		}

		// Others keep their unused guarantees, so these cards do not become free for the queue.
		others := max(0, at.unusedBelow[resource]-q.ownUnusedBelow(at, resource))
		if int64(count) > max(limit-others, guaranteed) && !at.isUnlimited(resource) {
			return false
		}
		guaranteed = max(guaranteed, at.limits.Guarantee[resource]-(at.used.amountOf(resource)-q.used.amountOf(resource)))
	}

	return true
}

// AboveDeserved and AboveGuarantee return how much of a resource a queue and all queues below it
// use beyond what it deserves, and beyond its guarantee. Both are negative below it.
func (l *Ledger) AboveDeserved(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	if q.deservesAny(resource) {
		return 0
	}
	return q.used.amountOf(resource) - q.limits.deserved(resource)
}

// AboveGuarantee is documented at AboveDeserved.
func (l *Ledger) AboveGuarantee(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	return q.used.amountOf(resource) - q.limits.Guarantee[resource]
}
