package quota

import (
	"cmp"
	"math/bits"
	"slices"

	"cardquota.dev/operator/internal/card"
)

// DropUngranted removes from a request the cards that the queue has no quota for. It can get
// none of them, not even from elastic jobs.
func (l *Ledger) DropUngranted(queue string, request JobRequest) JobRequest {
	return l.readQueue(queue).mapNames(request, func(q *queueLedger, names []card.Name) []card.Name {
		return removeNames(names, q.hasNoQuota)
	})
}

// dropUngranted removes from a request the cards that the queue has no quota for, except where it
// has none for all of them. So a refusal names only cards of which more quota would help.
func (q *queueLedger) dropUngranted(request JobRequest) JobRequest {
	return q.mapNames(request, (*queueLedger).grantedNames)
}

// grantedNames returns the cards that the queue has quota for, all if it has none for any.
func (q *queueLedger) grantedNames(names []card.Name) []card.Name {
	if granted := removeNames(names, q.hasNoQuota); len(granted) > 0 {
		return granted
	}
	return names
}

// hasNoQuota reports whether the queue, or one above it, has no quota for a card.
func (q *queueLedger) hasNoQuota(name card.Name) bool { return q.limitOnPath(Resource(name)) == 0 }

// mapNames returns a request whose names are replaced by those that choose returns. It copies nothing if
// the queue has quota for all names.
func (q *queueLedger) mapNames(request JobRequest, choose func(*queueLedger, []card.Name) []card.Name) JobRequest {
	hasUngranted := func(wanted CardRequest) bool { return slices.ContainsFunc(wanted.Names, q.hasNoQuota) }
	if !slices.ContainsFunc(request.Cards, hasUngranted) {
		return request
	}
	cards := make([]CardRequest, len(request.Cards))
	for i, wanted := range request.Cards {
		cards[i] = CardRequest{Names: choose(q, wanted.Names), Count: wanted.Count}
	}
	request.Cards = cards
	return request
}

// CheckEnqueue is the check of Volcano's enqueue. It returns nil if all reservations and the
// request fit together into ⌊quota × overCommit⌋ − used, and CPU and memory fit likewise.
// overCommit is at least 1. reservations returns those of a queue and all queues below it, "" for all queues.
//
// With alternatives a sum per card is wrong in both directions, so this is a matching: a
// maximum flow from requests to card names. It is exact up to maxChoices different choices.
//
// In a tree the request must fit the quota of its own queue. If it also fits what the queue
// deserves, cards may be reclaimed for it, so usage of other queues does not count. Otherwise
// it must fit the quota of every ancestor, and the inventory, beside what others are guaranteed:
// borrowed cards come from there. And no queue of the path may have stopped borrowing (see
// StopBorrowing). Each queue of the path has a matching of its own.
func (l *Ledger) CheckEnqueue(queue string, reservations func(queue string) *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	q := l.readQueue(queue)
	// A card without quota never becomes free for the queue, so a refusal must not name it. A flat queue has
	// no parent, and borrows nothing.
	c := enqueueCheck{q, q.dropUngranted(request), reservations, overCommit}
	if insufficient := c.levelOf(q, q.limits.Quota).firstExceeded(c.request); insufficient != nil || q.parent == nil {
		return insufficient
	}

	// Others could never reclaim what is borrowed for such pods, so all of them together must stay within
	// what the queues of the path deserve.
	if request.IsUnreclaimable {
		if insufficient := c.checkUnreclaimable(); insufficient != nil {
			return insufficient
		}
	}

	// What others use of what this queue deserves can be reclaimed. Only a request that borrows must fit
	// beside it.
	if !c.borrows(c.request) {
		return nil
	}
	if insufficient := c.checkStopped(); insufficient != nil {
		return insufficient
	}

	for at := q.parent; at != nil; at = at.parent {
		if insufficient := c.checkBorrowed(at); insufficient != nil {
			return c.refusedBy(at, insufficient.Kind, insufficient)
		}
	}

	return nil
}

// enqueueCheck is the check of one job at enqueue: what its queue may reserve, and borrow, for a request
// beside all reservations.
type enqueueCheck struct {
	queue        *queueLedger
	request      JobRequest
	reservations func(queue string) *Reservations
	overCommit   float64
}

// levelOf returns what the check compares at one queue of the path, with the given limit of each resource.
func (c *enqueueCheck) levelOf(at *queueLedger, limit func(Resource) int64) *enqueueLevel {
	return &enqueueLevel{at.name, at.limits.AnyCard, &at.used, limit, c.reservations(at.name), c.overCommit}
}

// refusedBy completes a refusal by the limit of a queue of the path: its kind, and for an ancestor which
// queue requested.
func (c *enqueueCheck) refusedBy(at *queueLedger, kind LimitKind, insufficient *InsufficientQuota) *InsufficientQuota {
	insufficient.Kind = kind
	insufficient.Ancestor = at != c.queue
	if insufficient.Ancestor {
		insufficient.Requester = c.queue.name
	}
	return insufficient
}

// borrows reports whether the queue would use more than it deserves with a request, or a part of it,
// beside its usage and reservations. A queue without a quota for cards deserves none.
func (c *enqueueCheck) borrows(request JobRequest) bool {
	hasCards := slices.ContainsFunc(request.Cards, func(wanted CardRequest) bool { return wanted.Count > 0 })
	if hasCards && c.queue.limits.AnyCard {
		return true
	}
	return c.levelOf(c.queue, c.queue.limits.deserved).firstExceeded(request) != nil
}

// checkStopped returns which queue of the path would use more than it deserves of what it may not borrow
// for now. If the requesting queue deserves that part of its request, no ancestor stops it: it takes back
// what siblings have borrowed.
func (c *enqueueCheck) checkStopped() *InsufficientQuota {
	for at := c.queue; !at.isRoot; at = at.parent {
		// What was reclaimed a moment ago would be reclaimed again, and the pods would lose their
		// work twice.
		part := c.request.stoppedPart(at.stopped)
		if part.IsEmpty() || !c.borrows(part) {
			continue
		}

		if insufficient := c.levelOf(at, at.limits.deserved).firstExceeded(part); insufficient != nil {
			return c.refusedBy(at, RecentlyReclaimed, insufficient)
		}
	}
	return nil
}

// checkBorrowed returns the first limit of an ancestor, or of the inventory for root, that usage,
// reservations and the request exceed beside what other queues are guaranteed. It returns nil if all fit.
func (c *enqueueCheck) checkBorrowed(at *queueLedger) *InsufficientQuota {
	queue := c.queue // a closure that captured c would move the check to the heap
	// available is the limit less the unused guarantees of other queues. What the path of the queue itself is
	// guaranteed need not stay free.
	available := func(resource Resource) int64 {
		if at.limits.isUnlimited(resource) {
			return at.limits.Quota(resource)
		}
		return max(0, at.limits.Quota(resource)-max(0, at.unusedBelow[resource]-queue.ownUnusedBelow(at, resource)))
	}

	guaranteed := c.levelOf(at, available).firstExceeded(c.request)
	if guaranteed == nil {
		return nil
	}

	// Where the quota itself is exhausted, guarantees are not the reason: freeing them would not
	// help.
	if exhausted := c.levelOf(at, at.limits.Quota).firstExceeded(c.request); exhausted != nil {
		exhausted.Kind = at.kindOfQuota()
		return exhausted
	}

	// The refusal should name the quota that the user wrote. So the guarantees of others are added to the
	// limit, which lacks them, and as much to the total.
	for _, resource := range guaranteed.resources() {
		unused := scaleLimit(at.limits.Quota(resource), c.overCommit) - scaleLimit(available(resource), c.overCommit)
		guaranteed.Total = AddSaturating(guaranteed.Total, unused)
		guaranteed.Limit = AddSaturating(guaranteed.Limit, unused)
	}

	guaranteed.Kind = Guaranteed
	return guaranteed
}

// checkUnreclaimable returns why a request from which others cannot reclaim is more than a queue of the
// path deserves, beside what it uses and has reserved in that way. Other usage does not count, because
// pods from which others can reclaim may be above it.
func (c *enqueueCheck) checkUnreclaimable() *InsufficientQuota {
	for at := c.queue; !at.isRoot; at = at.parent {
		inqueue := cmp.Or(c.reservations(at.name).unreclaimable, &Reservations{})
		level := enqueueLevel{at.name, at.limits.AnyCard, &at.unreclaimable, at.limits.deserved, inqueue, c.overCommit}
		if insufficient := level.firstExceeded(c.request); insufficient != nil {
			return c.refusedBy(at, NotReclaimable, insufficient)
		}
	}
	return nil
}

// FitsAlone reports whether the quotas on the path of the queue would let a job be enqueued if the queue had
// only the charges own, and no other queue used, or was guaranteed, anything. Unlike Check, which checks one
// pod, it checks the pods of a job together. The inventory does not count.
func (l *Ledger) FitsAlone(queue string, own []*Charge, request JobRequest, overCommit float64) bool {
	q := l.readQueue(queue)
	total := card.Count(0)
	fitsPlainly := len(own) == 0 // with charges, their use must be added to the sums

	for _, wanted := range request.Cards {
		total = total.Add(wanted.Count)
	}

	// A matching costs more than comparing sums, and the scheduler asks this for every enqueued job. Usually
	// each request of the job names a card whose quota suffices for all cards of the job, even without
	// overcommitment.
	for _, wanted := range request.Cards {
		fitsPlainly = fitsPlainly && slices.ContainsFunc(wanted.Names, func(name card.Name) bool {
			return int64(total) <= q.limitAlone(Resource(name), request.IsUnreclaimable)
		})
	}

	if fitsPlainly && request.MilliCPU <= q.limitAlone(CPU, request.IsUnreclaimable) && request.Memory <= q.limitAlone(Memory, request.IsUnreclaimable) {
		return true
	}

	used := newSums()
	for _, c := range own {
		used.add(c)
	}

	limit := func(of Resource) int64 { return q.limitAlone(of, request.IsUnreclaimable) }
	alone := enqueueLevel{queue, !q.limitsCards(), &used, limit, &Reservations{}, overCommit}
	return alone.firstExceeded(request) == nil
}

// enqueueLevel is one queue of a path with what counts at enqueue: used, inqueue and a request together must
// be within limit × overCommit.
type enqueueLevel struct {
	queue      string
	anyCard    bool // cards are not limited
	used       *sums
	limit      func(Resource) int64
	inqueue    *Reservations
	overCommit float64
}

// scaledLimit returns the limit of a resource with overcommitment.
func (e *enqueueLevel) scaledLimit(of Resource) int64 { return scaleLimit(e.limit(of), e.overCommit) }

// cardLimit is scaledLimit of a card.
func (e *enqueueLevel) cardLimit(name card.Name) int64 { return e.scaledLimit(Resource(name)) }

// firstExceeded returns the first limit that usage, reservations and a request exceed together, of cards, CPU
// or memory. It returns nil if all fit.
func (e *enqueueLevel) firstExceeded(request JobRequest) *InsufficientQuota {
	// Usage above a lowered quota must not refuse a job that requests no cards.
	if !e.anyCard && slices.ContainsFunc(request.Cards, func(wanted CardRequest) bool { return wanted.Count > 0 }) {
		if _, insufficient := e.matchCards(request); insufficient != nil {
			return insufficient
		}
	}

	for _, resource := range Compute {
		requested := resource.selectAmount(request.MilliCPU, request.Memory, 0)
		reserved := resource.selectAmount(e.inqueue.MilliCPU, e.inqueue.Memory, 0)

		// A job may be enqueued to wait for what elastic pods use, because these are evicted first.
		used := max(0, e.used.amountOf(resource)-resource.selectAmount(e.inqueue.elasticCPU, e.inqueue.elasticMemory, 0))
		total := AddSaturating(AddSaturating(used, reserved), requested)

		limit := e.scaledLimit(resource)
		if requested > 0 && limit != Unlimited && total > limit {
			return &InsufficientQuota{Of: resource, Queue: e.queue, Requested: requested, Total: total, Limit: limit}
		}
	}

	return nil
}

// matchCards adds the card requests of a job to a matching one by one, and returns the first that does
// not fit, nil if all do. Usage and reservations above a lowered quota block only requests for the same
// cards. The matching is returned for tests of what the check cost.
func (e *enqueueLevel) matchCards(request JobRequest) (*matching, *InsufficientQuota) {
	// Usage and reservations come first: the matching never takes a card from an earlier request. Its
	// capacity is the free quota, and what elastic pods can give. Usage beyond a lowered quota needs what
	// these give before the job does.
	m := newMatching(e.inqueue.Elastic, func(name card.Name) int64 { return max(0, e.cardLimit(name)-int64(e.used.cards[name])) })
	for _, name := range e.cardsOverLimit() {
		m.addRequest(CardRequest{Names: []card.Name{name}, Count: e.used.cards[name] - card.Count(e.cardLimit(name))})
	}

	for _, wanted := range e.inqueue.Cards {
		m.addRequest(wanted)
	}

	for i, wanted := range request.Cards {
		if got := m.addRequest(wanted); got < wanted.Count {
			// The refusal counts what uses, has reserved, or requests any of the same cards.
			insufficient := &InsufficientQuota{Queue: e.queue, Names: wanted.Names, Requested: int64(wanted.Count)}
			insufficient.Total = insufficient.Requested + int64(sumCompeting(e.inqueue.Cards, wanted).Add(sumCompeting(request.Cards[:i], wanted)))
			for _, name := range wanted.Names {
				insufficient.Total += int64(e.used.cards[name])
				insufficient.Limit += e.cardLimit(name)
			}

			// With alternatives the sums can look sufficient, so report at least what the
			// matching could not give.
			insufficient.Total = max(insufficient.Total, insufficient.Limit+int64(wanted.Count-got))
			return m, insufficient
		}
	}

	return m, nil
}

// cardsOverLimit lists the cards that are used beyond the limit, sorted, so that each run builds the same
// matching.
func (e *enqueueLevel) cardsOverLimit() []card.Name {
	var over []card.Name
	for name, used := range e.used.cards {
		if int64(used) > e.cardLimit(name) {
			over = append(over, name)
		}
	}
	slices.Sort(over)
	return over
}

// sumCompeting sums the requests that share a card name with the wanted cards.
func sumCompeting(requests []CardRequest, wanted CardRequest) card.Count {
	var total card.Count
	for _, other := range requests {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(wanted.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// factorUnits is the unit of a factor: 1.15 is no binary fraction, and 100 times it would be
// less than 115.
const factorUnits = 1_000_000

// scaleLimit multiplies a limit by a factor of at least 1 and rounds down, at most to Unlimited.
func scaleLimit(limit int64, factor float64) int64 {
	if limit == Unlimited || factor == 1 {
		return limit
	}

	// The product of 128 bits is exact. The 0.001 makes up for what a binary fraction lacks.
	high, low := bits.Mul64(uint64(limit), uint64(factor*factorUnits+0.001))
	if high >= factorUnits { // the quotient does not fit into 64 bits
		return Unlimited
	}
	scaled, _ := bits.Div64(high, low, factorUnits)
	return int64(min(scaled, uint64(Unlimited)))
}
