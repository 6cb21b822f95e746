// The texts of a refusal for users, "Queue <q> has insufficient <card> quota", are in
// internal/workload/refusalwording.go. Here are only the limit that is exceeded and its numbers.

package quota

import (
	"cmp"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// Check returns why a request does not fit, nil if it does: the first limit that each of its
// cards, CPU and memory exceed, in this order. A request with alternatives fits if one of its cards
// does. If none fits, the result names one, see cardToReport. Goroutines may call Check in
// parallel while none writes.
func (l *Ledger) Check(queue string, request Request, within Within) (all []InsufficientQuota) {
	q := l.readQueue(queue)
	if !q.fitsSomeCard(&request, &within) {
		name, others := q.cardToReport(&request, &within.Released)
		e, _ := q.firstExceeded(Resource(name), &request, &within)
		insufficient := q.insufficientQuota(e, Resource(name), int64(request.Count))
		insufficient.OtherCards = others
		all = append(all, insufficient)
	}

	for _, resource := range Compute {
		if e, isExceeded := q.firstExceeded(resource, &request, &within); isExceeded {
			all = append(all, q.insufficientQuota(e, resource, request.Amount(resource)))
		}
	}

	return all
}

// Fits reports whether Check returns nil. It allocates no memory, as the scheduler calls it for
// each pod and node.
func (l *Ledger) Fits(queue string, request Request, within Within) bool {
	q := l.readQueue(queue)
	if !q.fitsSomeCard(&request, &within) {
		return false
	}

	for _, resource := range Compute {
		if _, isExceeded := q.firstExceeded(resource, &request, &within); isExceeded {
			return false
		}
	}

	return true
}

// fitsSomeCard reports whether the cards of a request fit with one of its names. Cards without a
// name are none that a quota lists, so they fit only a queue that may use any.
func (q *queueLedger) fitsSomeCard(request *Request, within *Within) bool {
	if len(request.Names) == 0 {
		_, isExceeded := q.firstExceeded("", request, within)
		return !isExceeded
	}

	for _, name := range request.Names {
		if _, isExceeded := q.firstExceeded(Resource(name), request, within); !isExceeded {
			return true
		}
	}

	return false
}

// firstExceeded returns the first limit that a request exceeds with one resource: CPU, memory or one of
// its cards. What is not requested exceeds none.
func (q *queueLedger) firstExceeded(resource Resource, request *Request, within *Within) (e exceededLimit, isExceeded bool) {
	count := request.Amount(resource)
	if count <= 0 {
		return e, false
	}
	c := &resourceCheck{q, resource, count, request.IsUnreclaimable, &within.Released}
	return c.firstExceeded(within.Bound)
}

// cardToReport returns the card that a refusal names, and how many other cards with quota do not fit
// either. Cards without quota are none of those that the request waits for. First comes a card of which
// the quotas have enough left: it needs no more quota, only that pods terminate or others release it.
// Otherwise it is the card with the most free quota, and among equals the one with the largest quota.
func (q *queueLedger) cardToReport(request *Request, released *Released) (name card.Name, others int) {
	if len(request.Names) == 0 {
		return "", 0
	}

	names := q.grantedNames(request.Names)
	isLeft := func(name card.Name) bool { return q.freeOnPath(Resource(name), released) >= int64(request.Count) }
	if index := slices.IndexFunc(names, isLeft); index >= 0 {
		return names[index], len(names) - 1
	}

	return slices.MaxFunc(names, func(x, y card.Name) int {
		return cmp.Or(
			cmp.Compare(q.freeOnPath(Resource(x), released), q.freeOnPath(Resource(y), released)),
			cmp.Compare(q.limitOnPath(Resource(x)), q.limitOnPath(Resource(y))),
		)
	}), len(names) - 1
}

// insufficientQuota returns an exceeded limit of a resource as callers of the ledger see it.
func (q *queueLedger) insufficientQuota(e exceededLimit, of Resource, requested int64) InsufficientQuota {
	insufficient := InsufficientQuota{Kind: e.kind, Queue: e.at.name, Ancestor: e.at != q, Requested: requested, Total: e.total, Limit: e.limit}
	if insufficient.Ancestor {
		insufficient.Requester = q.name
	}

	switch {
	case !of.IsCard():
		insufficient.Of = of
	case of != "": // else the request names no card
		insufficient.Names = []card.Name{of.Card()}
	}

	if e.kind == Terminating {
		insufficient.GracePeriod = e.at.terminating[of.Card()].longestGracePeriod
	}

	return insufficient
}

// resourceCheck is the check of one resource of a request: whether the queues on the path of its queue have
// so much of it, once released is released.
type resourceCheck struct {
	queue           *queueLedger
	resource        Resource
	count           int64 // above 0
	isUnreclaimable bool
	released        *Released
}

// firstExceeded returns the first limit that the request would exceed within a bound. QuotaIfIdle and DeservedLeft do
// not ask what is free now, so terminating cards do not count in them.
func (c *resourceCheck) firstExceeded(bound Bound) (e exceededLimit, isExceeded bool) {
	switch bound {
	case QuotaIfIdle:
		return c.checkIfIdle()
	case DeservedLeft:
		return c.checkDeserved()
	case ReclaimableCards, ReclaimableAll:
		e, isExceeded = c.checkReclaimable(bound)
	case TerminatingLeft: // is only what follows
	default:
		e, isExceeded = c.checkPath()
	}

	// A queue with too many terminating cards gets no more, and evictions for it would be in vain.
	if !isExceeded && c.resource.IsCard() {
		e, isExceeded = c.queue.checkTerminating(c.resource, c.released)
	}
	return e, isExceeded
}

// addedUse returns how much more the queue would use.
func (c *resourceCheck) addedUse() int64 { return c.count - c.released.amount(c.resource) }

// checkReclaimable checks that the request fits the quota of the queue itself, and that the queue need not
// borrow, so that no queue evicts in order to borrow. Within ReclaimableCards only cards are reclaimed, so
// CPU and memory may be borrowed.
func (c *resourceCheck) checkReclaimable(bound Bound) (e exceededLimit, isExceeded bool) {
	e, isExceeded = c.queue.checkQuota(c.resource, c.queue.usedWith(c.resource, c.addedUse()))
	if isExceeded || (bound == ReclaimableCards && !c.resource.IsCard()) {
		return e, isExceeded
	}
	return c.checkDeserved()
}

// checkDeserved checks that the queue deserves all that it would use. A queue of a tree without a quota for cards
// may use any, but deserves none.
func (c *resourceCheck) checkDeserved() (e exceededLimit, isExceeded bool) {
	q := c.queue
	used := q.usedWith(c.resource, c.addedUse())
	switch deserved := q.limits.deserved(c.resource); {
	case q.limits.lacksQuota(c.resource):
		return exceededLimit{Deserved, q, used, 0}, true
	case !q.limits.deservesAny(c.resource) && used > deserved:
		return exceededLimit{Deserved, q, used, deserved}, true
	}
	return e, false
}

// checkIfIdle returns the first limit on the path that the request would exceed even if no queue used more
// than its guarantee. Evicting what queues use beyond that would not help such a request. What the queue
// itself uses now does not count.
func (c *resourceCheck) checkIfIdle() (e exceededLimit, isExceeded bool) {
	// guaranteed is the most that the guarantee of one queue of the path so far leaves to the requesting queue.
	guaranteed := int64(0)
	for at := c.queue; at != nil; at = at.parent {
		limit := at.limits.Quota(c.resource)
		isLimited := !at.limits.isUnlimited(c.resource)
		if isLimited && c.count > limit {
			return exceededLimit{at.kindOfQuota(), at, c.count, limit}, true
		}

		// Others keep their unused guarantees, which never become free for the queue. It may use those of its
		// own path below this level.
		others := max(0, at.unusedBelow[c.resource]-c.queue.ownUnusedBelow(at, c.resource))
		if isLimited && c.count > max(limit-others, guaranteed) {
			return exceededLimit{Guaranteed, at, AddSaturating(c.count, others), limit}, true
		}

		// The queue may use the guarantee of this level, less what other queues below the level use.
		guaranteed = max(guaranteed, at.limits.Guarantee[c.resource]-(at.used.amountOf(c.resource)-c.queue.used.amountOf(c.resource)))
	}

	return e, false
}

// checkPath returns the first limit on the path that the request would exceed now. The limits are those of
// the queue, then those of its ancestors, and at last the inventory.
//
// A request may use the guarantee of its own queue and ancestors that is unused after the release.
// Otherwise it must leave all unused guarantees free.
func (c *resourceCheck) checkPath() (e exceededLimit, isExceeded bool) {
	change := int64(0)          // by how much the unused guarantees below a level change with request and release
	changeByRelease := int64(0) // by how much they change with the release alone
	for at := c.queue; at != nil; at = at.parent {
		released := at.releasedOf(c.resource, c.released)
		more := c.count - released // negative if more is released than requested

		// An exceeded quota is the plainest reason, so it is reported before what others deserve
		// or are guaranteed.
		used := at.usedWith(c.resource, more)
		if e, isExceeded := at.checkQuota(c.resource, used); isExceeded {
			return e, true
		}
		if at.parent == nil && !at.isRoot { // a flat queue takes nothing from others
			return e, false
		}

		if e, isExceeded := c.checkBorrowed(at, used); isExceeded {
			return e, true
		}
		// The request takes from others what it adds to the sum of use and unused guarantees. What the
		// release alone changes in that sum is not taken.
		if e, isExceeded := c.checkForOthers(at, used, change, c.count+change-changeByRelease); isExceeded {
			return e, true
		}

		if at.parent == nil {
			return e, false
		}

		// The request uses its own guarantee first, so the parent has that much less to leave
		// free.
		change = at.unusedAfter(c.resource, more, change) - at.unused[c.resource]
		if released != 0 || changeByRelease != 0 { // else the release changes no unused guarantee
			changeByRelease = at.unusedAfter(c.resource, -released, changeByRelease) - at.unused[c.resource]
		}
	}

	return e, false
}

// checkBorrowed checks what a queue of the path would borrow: nothing for pods from which it could not be
// reclaimed, and nothing that was just reclaimed from the queue. used is what that queue would use with the
// request. Root deserves anything.
func (c *resourceCheck) checkBorrowed(at *queueLedger, used int64) (e exceededLimit, isExceeded bool) {
	// Most pods can be reclaimed, and most queues may borrow.
	if (!c.isUnreclaimable && len(at.stopped) == 0) || at.isRoot || at.limits.deservesAny(c.resource) {
		return e, false
	}

	// Other pods of the queue do not count here, because others can reclaim what they use.
	deserved := at.limits.deserved(c.resource)
	if c.isUnreclaimable {
		unreclaimable := AddSaturating(at.unreclaimable.amountOf(c.resource), c.count) - c.released.unreclaimable[c.resource]
		if unreclaimable > deserved {
			return exceededLimit{NotReclaimable, at, unreclaimable, deserved}, true
		}
	}

	// A queue that stays within what it deserves takes back what others borrowed, so no ancestor stops it.
	if used > deserved && at.stopped[c.resource] && !c.queue.staysWithinDeserved(c.resource, c.addedUse()) {
		return exceededLimit{RecentlyReclaimed, at, used, deserved}, true
	}
	return e, false
}

// checkForOthers checks that a queue of the path leaves free what is kept for other pods and what other
// queues are guaranteed. With the request, used is what that queue would use, and change by how much the
// unused guarantees below it change. grown is by how much the request adds to use and unused guarantees
// together.
func (c *resourceCheck) checkForOthers(at *queueLedger, used, change, grown int64) (e exceededLimit, isExceeded bool) {
	kept := c.keptForOthers(at)
	unused := at.unusedBelow[c.resource] + change
	if (kept <= 0 && unused <= 0) || at.limits.isUnlimited(c.resource) {
		return e, false
	}

	// The limit of root is the inventory. What is kept refuses nothing there: nodes are checked one by one.
	limit := at.limits.Quota(c.resource)
	total := AddSaturating(used, kept)
	if kept > 0 && total > limit && !at.isRoot {
		return exceededLimit{KeptForOthers, at, total, limit}, true
	}

	// The sum may be too large already, as after a node was lost. A request within its own guarantee, or for
	// what it releases, adds nothing to the sum. So it takes nothing from others, and is not refused.
	if unused > 0 && grown > 0 && AddSaturating(total, unused) > limit {
		return exceededLimit{Guaranteed, at, AddSaturating(total, unused), limit}, true
	}

	return e, false
}

// keptForOthers returns what is kept at a queue of the path for pods of others.
func (c *resourceCheck) keptForOthers(at *queueLedger) int64 {
	kept := at.kept[c.resource]
	if kept <= 0 { // as in most sessions
		return 0
	}
	return max(kept-c.usableKept(), 0)
}

// usableKept returns how much of what is kept for its pods the queue may use with the request. With cards
// that it borrows, it may not use what was reclaimed for others of its pods.
func (c *resourceCheck) usableKept() int64 {
	q := c.queue
	if c.resource.IsCard() && !q.limits.deservesAny(c.resource) && !q.staysWithinDeserved(c.resource, c.addedUse()) {
		return 0
	}
	return q.kept[c.resource]
}

// FitTogether reports whether the requests of some pods fit a queue together, beside what it uses now, and
// whether the queue would borrow with them. Each pod gets the first of its cards that the queue deserves,
// else the first one within its quota. The bound of reclaimable is ReclaimableCards or ReclaimableAll: what
// fits it is not borrowed.
func (l *Ledger) FitTogether(queue string, requests []Request, reclaimable Within) (fits, borrows bool) {
	sums := map[card.Name]card.Count{} // the cards that the pods so far get
	var compute Request                // the CPU and memory of all pods
	for _, r := range requests {
		compute.MilliCPU = AddSaturating(compute.MilliCPU, r.MilliCPU)
		compute.Memory = AddSaturating(compute.Memory, r.Memory)
		compute.IsUnreclaimable = compute.IsUnreclaimable || r.IsUnreclaimable
		if r.Count == 0 {
			continue
		}

		// Pods that fit one by one may exceed the quota together, so each sees the cards of those
		// before it.
		name, isDeserved := l.chooseCard(queue, r, sums, reclaimable)
		if name == "" {
			return false, false
		}
		sums[name] = sums[name].Add(r.Count)
		borrows = borrows || !isDeserved
	}

	return l.Fits(queue, compute, Within{}), borrows || !l.Fits(queue, compute, reclaimable)
}

// chooseCard returns the card that a pod gets beside the cards of earlier pods: the first that the queue deserves,
// else the first within its quota, else "".
func (l *Ledger) chooseCard(queue string, r Request, sums map[card.Name]card.Count, reclaimable Within) (chosen card.Name, isDeserved bool) {
	for _, name := range r.Names {
		together := r.On(name).OnlyCards()
		together.Count = sums[name].Add(r.Count)

		switch {
		case !l.Fits(queue, together, Within{}): // try the next card
		case l.Fits(queue, together, reclaimable):
			return name, true
		case chosen == "": // the first within quota, unless a later one is deserved
			chosen = name
		}
	}
	return chosen, false
}
