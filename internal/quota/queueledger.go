package quota

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

// queueLedger has the sums of one queue, and of all queues below it in a tree.
type queueLedger struct {
	name string
	usage
	// parent is nil for a flat queue, and for the root of a tree.
	parent *queueLedger
	isRoot bool
	treeSums
	queueOrder
	// listedCards are the cards of used as Snapshot returned it, nil after a change.
	listedCards []card.Amount
	// hasLimits reports whether the tree has the queue.
	hasLimits bool
	// pods is how many pods are charged to the queue.
	pods        int
	terminating terminatingSums
}

// treeSums are the sums of one queue that only a tree needs: by them its queues leave each other what they
// deserve, what they are guaranteed, and what was reclaimed for them.
type treeSums struct {
	// unreclaimable is what pods use that cannot be reclaimed.
	unreclaimable sums
	// unused is the unused guarantee of the queue and all queues below it, unusedBelow the sum
	// of its children's.
	unused, unusedBelow Amounts
	// kept is what Keep keeps for pods of the queue and all queues below it.
	kept Amounts
	// stopped are the resources that the queue may not borrow for now.
	stopped map[Resource]bool
}

func newTreeSums() treeSums {
	return treeSums{unreclaimable: newSums(), unused: Amounts{}, unusedBelow: Amounts{}, kept: Amounts{}}
}

// queueOrder is what decides when a queue gets cards before its siblings, beside its usage and limits.
type queueOrder struct {
	position position
	// averages is what the queue borrowed of each card, see ObserveBorrowing.
	averages map[card.Name]float64
	// share is as computed last, while isShareKnown. Each comparison would visit all cards.
	share        treeShare
	isShareKnown bool
}

// position is where a queue is in a tree, and what decides its order among its siblings.
type position struct {
	// parent is the parent queue, "" directly under root.
	parent string
	// weight divides borrowed cards; at least 1.
	weight int32
	// created is when the queue was created.
	created time.Time
}

// treeShare is by what CompareShares orders a queue.
type treeShare struct {
	// ofDeserved is the dominant used ÷ deserved, at least 1 if the queue deserves no card.
	ofDeserved float64
	// borrowed is the largest borrowed amount of one card, divided by the weight of the queue. For a
	// queue without card quotas it is cores.
	borrowed float64
}

// newRoot returns a root without an inventory, so without limits.
func newRoot() *queueLedger {
	return &queueLedger{isRoot: true, usage: usage{limits: Limits{AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited}, used: newSums()}, treeSums: newTreeSums()}
}

// isInUse reports whether pods are charged to the queue, terminating ones included.
func (q *queueLedger) isInUse() bool { return q.pods > 0 || len(q.terminating) > 0 }

// countedPart returns the part of a charge that the sums of the queue include, nil for none. The limits of
// root are the inventory, so root counts only what is part of it.
func (q *queueLedger) countedPart(c *Charge) *Charge {
	switch {
	case !q.isRoot:
		return c
	case c.IsOffInventory:
		return nil
	}
	return c.inInventory()
}

// add adds a charge to the sums of the queue alone.
func (q *queueLedger) add(c *Charge) {
	q.used.add(c)
	if c.IsUnreclaimable {
		q.unreclaimable.add(c)
	}
	q.forgetDerived(c)
}

// subtract removes a charge that was added.
func (q *queueLedger) subtract(c *Charge) {
	q.used.subtract(c)
	if c.IsUnreclaimable {
		q.unreclaimable.subtract(c)
	}
	q.forgetDerived(c)
}

// forgetDerived forgets what was computed from the sums before a charge changed them.
func (q *queueLedger) forgetDerived(c *Charge) {
	q.isShareKnown = false
	if len(c.Cards) > 0 {
		q.listedCards = nil
	}
}

// exceededLimit is the first limit on the path to root that a request would exceed.
type exceededLimit struct {
	kind         LimitKind
	at           *queueLedger
	total, limit int64
}

// checkQuota checks that so much usage fits the quota of the queue alone. Root has none.
func (q *queueLedger) checkQuota(resource Resource, used int64) (e exceededLimit, isExceeded bool) {
	limit := q.limits.Quota(resource)
	if limit < used && !q.isRoot && !q.limits.isUnlimited(resource) {
		return exceededLimit{HardLimit, q, used, limit}, true
	}
	return e, false
}

// kindOfQuota returns the kind of the limit that the quota of a queue, or the inventory, is.
func (q *queueLedger) kindOfQuota() LimitKind {
	if q.isRoot {
		return Inventory
	}
	return HardLimit
}

// checkTerminating returns the first queue on the path in which terminating pods use more of a
// card than its quota.
func (q *queueLedger) checkTerminating(resource Resource, released *Released) (e exceededLimit, isExceeded bool) {
	for at := q; at != nil && !at.isRoot; at = at.parent {
		if at.limits.AnyCard || (len(at.terminating) == 0 && !released.Evicted) {
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

// addTerminating adds the cards of a terminating pod to the sums of the queue and all ancestors.
func (q *queueLedger) addTerminating(c *Charge, gracePeriod time.Duration) {
	for at := q; at != nil; at = at.parent {
		at.terminating.add(c, gracePeriod)
	}
}

// addKept adds a charge, multiplied by sign, to what is kept for pods of the queue, and in its ancestors.
func (q *queueLedger) addKept(c *Charge, sign int64) {
	for at := q; at != nil; at = at.parent {
		for resource, amount := range c.Amounts() {
			at.kept[resource] += sign * min(amount, maxKept)
		}
	}
}

// maxKept bounds what is kept for one pod, so that no sum overflows.
const maxKept = 1 << 50

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

// limitsCards reports whether a queue of the path has a quota for cards.
func (q *queueLedger) limitsCards() bool {
	return q.limitOnPath("") != Unlimited // no quota lists a card without a name
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

// updateUnusedGuarantees updates the unused guarantees of all that a charge has, after it was added or
// removed.
func (q *queueLedger) updateUnusedGuarantees(c *Charge) {
	for _, amount := range c.Cards {
		q.updateUnusedGuarantee(Resource(amount.Name))
	}
	for _, resource := range Compute {
		q.updateUnusedGuarantee(resource)
	}
}

// updateUnusedGuarantee updates the unused guarantee of a resource in the queue and its ancestors.
func (q *queueLedger) updateUnusedGuarantee(resource Resource) {
	for at := q; at.parent != nil; at = at.parent {
		before := at.unused[resource]
		now := at.unusedAfter(resource, 0, 0)
		if now == before {
			continue // an ancestor may have a guarantee of its own
		}
		at.unused[resource] = now
		at.parent.unusedBelow[resource] += now - before
	}
}

// unusedAfter returns the unused guarantee of a resource once the queue uses so much more of it than now, and the
// sum of its children's unused guarantees has changed by so much.
func (q *queueLedger) unusedAfter(resource Resource, more, change int64) int64 {
	if q.limits.IsHeld { // no queue could use what is left free for a held one
		return 0
	}
	below := q.unusedBelow[resource] + change
	guarantee, guaranteed := q.limits.Guarantee[resource]
	if !guaranteed {
		return max(below, 0)
	}

	// The guarantees of children are parts of the queue's own, so the larger one counts.
	return min(maxUnused, max(below, guarantee-AddSaturating(q.used.amountOf(resource), more), 0))
}

// maxUnused bounds the unused guarantee of one queue, so that no sum overflows.
const maxUnused = 1 << 53

// ownUnused returns how much a leaf may use at this queue without using guarantees of other queues. below is the
// same for the queue's child on the path to the leaf, 0 for the leaf itself. To it comes what the queue itself has
// of unused guarantee beyond those of its children. What is guaranteed to a held queue covers nothing.
func (q *queueLedger) ownUnused(below int64, resource Resource) int64 {
	if q.limits.IsHeld {
		return 0
	}
	return max(below, q.guaranteeBalance(below, resource))
}

// guaranteeBalance is ownUnused, but negative as far as the queue uses more than its guarantee. Cards
// that victims below the queue release add to it.
func (q *queueLedger) guaranteeBalance(below int64, resource Resource) int64 {
	if q.limits.IsHeld { // its guarantee covers nothing, however much victims release
		return -Unlimited
	}
	return below + min(q.limits.Guarantee[resource], maxUnused) - min(q.used.amountOf(resource), maxUnused) - q.unusedBelow[resource]
}

// ownUnusedBelow returns ownUnused of the ancestor's child on the path from q, and so of the whole path
// below the ancestor.
func (q *queueLedger) ownUnusedBelow(ancestor *queueLedger, resource Resource) (own int64) {
	for at := q; at != ancestor; at = at.parent {
		own = at.ownUnused(own, resource)
	}
	return own
}

// releasedOf returns how much of a resource is released in the queue. Root never counted what is not part
// of the inventory, so less is released there.
func (q *queueLedger) releasedOf(resource Resource, released *Released) int64 {
	if q.isRoot {
		return released.amount(resource) - released.offInventory[resource]
	}
	return released.amount(resource)
}
