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
	q := l.readQueue(queue)
	if q.tree == nil {
		return l.FitsAnyCard(queue, request)
	}

	var first *InsufficientQuota
	for _, name := range request.Names {
		s := q.beyondDeserved(name, int64(request.Count))
		if s == nil {
			first = nil
			break
		}

		if first == nil {
			first = s
		}
	}

	switch {
	case first != nil:
		return first
	case !reclaimsCPU:
		return cmp.Or(q.beyondQuota(CPUName, request.MilliCPU), q.beyondQuota(MemoryName, request.Memory))
	}

	return cmp.Or(q.beyondDeserved(CPUName, request.MilliCPU), q.beyondDeserved(MemoryName, request.Memory))
}

// beyondQuota returns why a request is more than the quota of the queue itself, nil if it is
// not.
func (q *queueLedger) beyondQuota(name card.Name, count int64) *InsufficientQuota {
	total := AddSaturating(q.used(name), count)
	limit := q.limits.quota(name)
	if count <= 0 || q.isUnlimited(name) || total <= limit {
		return nil
	}
	s := q.insufficient(exceededLimit{Cards, q, total, limit}, name, count)
	return &s
}

// beyondDeserved returns why a request is more than the queue deserves, nil if it is not.
func (q *queueLedger) beyondDeserved(name card.Name, count int64) *InsufficientQuota {
	lacksQuota := q.lacksQuota(name)
	if count <= 0 || (!lacksQuota && q.deservesAny(name)) {
		return nil
	}

	e := exceededLimit{at: q, total: AddSaturating(q.used(name), count)}
	switch {
	case lacksQuota:
		e.kind = Deserved
	case e.total > q.limits.quota(name):
		e.kind = Cards
		e.limit = q.limits.quota(name)
	case e.total > q.limits.deserved(name):
		e.kind = Deserved
		e.limit = q.limits.deserved(name)
	default:
		if name == CPUName || name == MemoryName {
			return nil
		}
		var isExceeded bool
		e, isExceeded = q.checkTerminating(name, &noRelease)
		if !isExceeded {
			return nil
		}
	}

	s := q.insufficient(e, name, count)
	return &s
}

// MayUse is how much more of a name a queue may use while it reclaims, at each level from the
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
	// BesideKept has what the quotas alone allow, beside what is held for others. It is Unlimited
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

// MayUseByLevel returns what a queue may use of a name by level. Without a tree it has one level
// for the queue itself and one without limits for root.
func (l *Ledger) MayUseByLevel(queue string, name card.Name) (m MayUse) {
	q := l.readQueue(queue)
	own := int64(0) // unused guarantee of the path below
	for at := q; at != nil; at = at.parent {
		free := at.freeQuota(name)
		covered := int64(0)
		besideKept := Unlimited
		coverable := int64(0)

		if at.tree != nil && !at.isUnlimited(name) {
			left := at.freeBesideKept(q, name)
			free = min(free, left)
			if at != q {
				besideKept = free
				covered = min(free, own)
				free = min(free, own+left-at.tree.unusedBelow[name])
			}

			if at.isRoot() { // physical cards are checked node by node
				free = own + left - at.tree.unusedBelow[name]
				covered = own
				besideKept = Unlimited
			}
		}

		if at.tree != nil {
			coverable = at.guaranteeBalance(own, name)
			own = at.ownUnused(own, name)
		}

		if at == q && at.isStoppedByTerminating(name) {
			free = 0
		}
		m.addLevel(free, covered, at.freeDeserved(name), besideKept, coverable)
	}

	if q.tree == nil {
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

// freeQuota returns how much more of a name the quota of the queue itself allows. Root has none.
func (q *queueLedger) freeQuota(name card.Name) int64 {
	if q.isRoot() || q.isUnlimited(name) {
		return Unlimited
	}
	return q.limits.quota(name) - q.used(name)
}

// freeDeserved returns how much of what the queue deserves it does not use. Root deserves anything.
func (q *queueLedger) freeDeserved(name card.Name) int64 {
	if q.isRoot() || q.deservesAny(name) {
		return Unlimited
	}
	return max(0, q.limits.deserved(name)-q.used(name))
}

func (q *queueLedger) isStoppedByTerminating(name card.Name) bool {
	return name != CPUName && name != MemoryName && q.isTerminatingOverQuota(name)
}

// freeBesideKept returns how much of a name is left for a queue beside what is held for other
// queues.
func (q *queueLedger) freeBesideKept(leaf *queueLedger, name card.Name) int64 {
	held := max(0, q.tree.held[name]-leaf.tree.held[name])
	return q.limits.quota(name) - q.used(name) - held
}

// ownUnused adds what the queue itself has of unused guarantee, beyond those of its children, to
// what its path below has. A leaf may use that much without using guarantees of other queues.
func (q *queueLedger) ownUnused(below int64, name card.Name) int64 {
	if q.limits.IsHeld {
		return 0
	}
	return max(below, q.guaranteeBalance(below, name))
}

// guaranteeBalance is ownUnused, but negative as far as the queue uses more than its guarantee. Cards
// that victims below the queue release add to it.
func (q *queueLedger) guaranteeBalance(below int64, name card.Name) int64 {
	if q.limits.IsHeld {
		return -Unlimited
	}
	return below + min(q.limits.Guarantee[name], maxUnused) - min(q.used(name), maxUnused) - q.tree.unusedBelow[name]
}

// ownUnusedBelow returns ownUnused of the path from q to the child of an ancestor.
func (q *queueLedger) ownUnusedBelow(ancestor *queueLedger, name card.Name) (own int64) {
	for at := q; at != ancestor; at = at.parent {
		own = at.ownUnused(own, name)
	}
	return own
}

// Deserves reports whether a queue deserves so many more of a name than it uses. Without a tree a
// queue deserves its quota. A queue of a tree without a quota for cards deserves none.
func (l *Ledger) Deserves(queue string, name card.Name, count int64) bool {
	q := l.readQueue(queue)
	if q.lacksQuota(name) {
		return count <= 0
	}
	return count == 0 || q.deservesAny(name) || AddSaturating(q.used(name), count) <= q.limits.deserved(name)
}

// CouldFit reports whether so many of a card fit the quotas of a queue and its ancestors, and
// beside what is guaranteed to others, if no queue used more than its guarantee. Within its own
// guarantee, and within those of its ancestors that others do not use, the queue leaves others theirs.
func (l *Ledger) CouldFit(queue string, name card.Name, count card.Count) bool {
	q := l.readQueue(queue)
	guaranteed := int64(0) // by the queues below
	for at := q; at != nil; at = at.parent {
		limit := at.limits.quota(name)
		if int64(count) > limit && !at.isUnlimited(name) {
			return false
		}
		if at.tree == nil {
			continue
		}

		others := max(0, at.tree.unusedBelow[name]-q.ownUnusedBelow(at, name))
		if int64(count) > max(limit-others, guaranteed) && !at.isUnlimited(name) {
			return false
		}
		guaranteed = max(guaranteed, at.limits.Guarantee[name]-(at.used(name)-q.used(name)))
	}

	return true
}

// AboveDeserved and AboveGuarantee return how much of a name a queue and all queues below it
// use beyond what it deserves, and beyond its guarantee. Both are negative below it.
func (l *Ledger) AboveDeserved(queue string, name card.Name) int64 {
	q := l.readQueue(queue)
	if q.deservesAny(name) {
		return 0
	}
	return q.used(name) - q.limits.deserved(name)
}

// AboveGuarantee is documented at AboveDeserved.
func (l *Ledger) AboveGuarantee(queue string, name card.Name) int64 {
	q := l.readQueue(queue)
	return q.used(name) - q.limits.Guarantee[name]
}
