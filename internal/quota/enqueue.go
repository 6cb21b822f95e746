package quota

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"cardquota.dev/operator/internal/card"
)

// JobRequest is what one job requests at enqueue.
type JobRequest struct {
	Cards            []CardRequest
	MilliCPU, Memory int64
	// IsUnreclaimable reports whether other queues could not reclaim from its pods, see Charge.
	IsUnreclaimable bool
}

// IsEmpty reports whether nothing is requested.
func (r JobRequest) IsEmpty() bool { return len(r.Cards) == 0 && r.MilliCPU == 0 && r.Memory == 0 }

// Key returns a text that is the same for equal requests only.
func (r JobRequest) Key() string {
	key := make([]byte, 0, 64)
	key = strconv.AppendInt(key, r.MilliCPU, 10)
	key = strconv.AppendInt(append(key, ' '), r.Memory, 10)
	key = strconv.AppendBool(append(key, ' '), r.IsUnreclaimable)
	for _, d := range r.Cards {
		key = strconv.AppendInt(append(key, ' '), int64(d.Count), 10)
		for _, name := range d.Names {
			key = append(append(key, '|'), name...)
		}
	}
	return string(key)
}

// Excess returns the part of another request that this one does not cover: its cards, all or
// none, and the rest of its CPU and memory.
func (r JobRequest) Excess(other JobRequest) JobRequest {
	excess := JobRequest{IsUnreclaimable: other.IsUnreclaimable, MilliCPU: max(0, other.MilliCPU-r.MilliCPU), Memory: max(0, other.Memory-r.Memory)}
	if !r.coversCards(other.Cards) {
		excess.Cards = other.Cards
	}
	return excess
}

// Without returns this request without an excess that Excess returned.
func (r JobRequest) Without(excess JobRequest) JobRequest {
	if len(excess.Cards) > 0 {
		r.Cards = nil
	}
	r.MilliCPU -= excess.MilliCPU
	r.Memory -= excess.Memory
	return r
}

// coversCards reports whether this request covers requests of another job. A request for A is
// covered by one for A, and one for A or B by one for A.
func (r JobRequest) coversCards(requests []CardRequest) bool {
	// Most jobs of a queue request the same cards, so compare those with equal names first.
	var own cardRequestIndex
	if !slices.ContainsFunc(requests, func(d CardRequest) bool {
		i := own.find(r.Cards, d.Names)
		return i < 0 || r.Cards[i].Count < d.Count
	}) {
		return true
	}

	// A request of fewer alternatives is harder to meet, so it covers one that accepts all of
	// them.
	remaining := slices.Clone(r.Cards)
	for _, d := range requests {
		for i := range remaining {
			if len(remaining[i].Names) > 0 && len(removeNames(remaining[i].Names, func(name card.Name) bool { return slices.Contains(d.Names, name) })) == 0 {
				met := min(d.Count, remaining[i].Count)
				d.Count -= met
				remaining[i].Count = remaining[i].Count - met
			}
		}

		if d.Count > 0 {
			return false
		}
	}

	return true
}

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

// mapNames returns a request with other names. It copies nothing if the queue has quota for all.
func (q *queueLedger) mapNames(request JobRequest, names func(*queueLedger, []card.Name) []card.Name) JobRequest {
	hasUngranted := func(d CardRequest) bool { return slices.ContainsFunc(d.Names, q.hasNoQuota) }
	if !slices.ContainsFunc(request.Cards, hasUngranted) {
		return request
	}
	cards := make([]CardRequest, len(request.Cards))
	for i, d := range request.Cards {
		cards[i] = CardRequest{Names: names(q, d.Names), Count: d.Count}
	}
	request.Cards = cards
	return request
}

// removeNames returns names without some. It copies only if it removes any.
func removeNames(names []card.Name, some func(card.Name) bool) []card.Name {
	if !slices.ContainsFunc(names, some) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), some)
}

// CheckEnqueue is the check of Volcano's enqueue. It returns nil if all reservations and the
// request fit together into ⌊quota × overCommit⌋ − used, and CPU and memory fit likewise.
// overCommit is at least 1. reservations returns those of a queue and all queues below it.
//
// With alternatives a sum per card is wrong in both directions, so this is a matching: a
// maximum flow from requests to card names. It is exact up to maxChoices different choices.
//
// In a tree the request must fit the quota of its own queue. If it also fits what the queue
// deserves, cards may be reclaimed for it, so usage of other queues does not count. Otherwise
// it must fit the quota of every ancestor beside what others are guaranteed, and the inventory:
// what is borrowed is lent out of that. No queue of the path may be kept from borrowing it for
// now. Each level is matched on its own. reservations("") are those of all queues.
func (l *Ledger) CheckEnqueue(queue string, reservations func(queue string) *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	q := l.readQueue(queue)
	own := reservations(queue)
	// A card without quota never becomes free for the queue, so a refusal must not name it.
	request = q.dropUngranted(request)
	if s := q.checkEnqueue(q.limits.Quota, own, request, overCommit); s != nil || q.isFlat() {
		return s
	}

	// Others could never take back what is borrowed for such pods, so they must stay within
	// deserved.
	if request.IsUnreclaimable {
		if s := q.checkEnqueueUnreclaimable(reservations, request, overCommit); s != nil {
			return s
		}
	}

	// What others use of a deserved part can be reclaimed, so only borrowing must fit beside
	// their usage.
	if !q.wouldBorrow(own, request, overCommit) {
		return nil
	}
	if s := q.checkEnqueueStopped(reservations, request, overCommit); s != nil {
		return s
	}

	for at := q.parent; at != nil; at = at.parent {
		if s := q.checkEnqueueAt(at, reservations(at.name), request, overCommit); s != nil {
			s.Ancestor = true
			s.Requester = queue
			return s
		}
	}

	return nil
}

// wouldBorrow reports whether the queue would use more than it deserves with a request beside
// reservations. A queue without a quota for cards deserves none.
func (q *queueLedger) wouldBorrow(inqueue *Reservations, request JobRequest, overCommit float64) bool {
	hasCards := slices.ContainsFunc(request.Cards, func(d CardRequest) bool { return d.Count > 0 })
	if hasCards && q.limits.AnyCard {
		return true
	}
	return q.checkEnqueue(q.limits.deserved, inqueue, request, overCommit) != nil
}

// checkEnqueueStopped returns which queue of the path would use more than it deserves of what it may
// not borrow for now. If the requesting queue deserves that part of its request, no ancestor stops
// it: it takes back what siblings have borrowed.
func (q *queueLedger) checkEnqueueStopped(reservations func(string) *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	for at := q; !at.isRoot; at = at.parent {
		// What was reclaimed a moment ago would be reclaimed again, and the pods would lose their
		// work twice.
		stopped := at.stoppedPart(request)
		if stopped.IsEmpty() || !q.wouldBorrow(reservations(q.name), stopped, overCommit) {
			continue
		}

		if s := at.checkEnqueue(at.limits.deserved, reservations(at.name), stopped, overCommit); s != nil {
			s.Kind = RecentlyReclaimed
			s.Ancestor = at != q
			if s.Ancestor {
				s.Requester = q.name
			}
			return s
		}
	}
	return nil
}

// checkEnqueueAt returns the first limit of an ancestor, or of the inventory for root, that
// reservations and a request exceed beside what other queues are guaranteed. A quota that is large
// enough without the guarantees is not exhausted.
func (q *queueLedger) checkEnqueueAt(at *queueLedger, inqueue *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	available := func(resource Resource) int64 {
		if at.limits.isUnlimited(resource) {
			return at.limits.Quota(resource)
		}
		return max(0, at.limits.Quota(resource)-max(0, at.unusedBelow[resource]-q.ownUnusedBelow(at, resource)))
	}

	guaranteed := at.checkEnqueue(available, inqueue, request, overCommit)
	if guaranteed == nil {
		return nil
	}

	// Where the quota itself is exhausted, guarantees are not the reason: freeing them would not
	// help.
	if exhausted := at.checkEnqueue(at.limits.Quota, inqueue, request, overCommit); exhausted != nil {
		if at.isRoot {
			exhausted.Kind = Inventory
		}
		return exhausted
	}

	// The refusal names the quota that the user wrote. What is guaranteed to others counts as
	// used of it.
	for _, resource := range guaranteed.resources() {
		unused := scaleLimit(at.limits.Quota(resource), overCommit) - scaleLimit(available(resource), overCommit)
		guaranteed.Total = AddSaturating(guaranteed.Total, unused)
		guaranteed.Limit = AddSaturating(guaranteed.Limit, unused)
	}

	guaranteed.Kind = Guaranteed
	return guaranteed
}

// checkEnqueueUnreclaimable returns why a request from which others cannot reclaim is more than a queue
// of the path deserves, beside what it uses and has reserved in that way. Other usage does not
// count, because pods from which others can reclaim may be above it.
func (q *queueLedger) checkEnqueueUnreclaimable(reservations func(string) *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	for at := q; !at.isRoot; at = at.parent {
		// A ledger of the unreclaimable part alone lets the same check decide about it.
		unreclaimable := &queueLedger{name: at.name, limits: at.limits, used: at.unreclaimable}
		inqueue := cmp.Or(reservations(at.name).unreclaimable, &Reservations{})
		if s := unreclaimable.checkEnqueue(at.limits.deserved, inqueue, request, overCommit); s != nil {
			s.Kind = NotReclaimable
			s.Ancestor = at != q
			if s.Ancestor {
				s.Requester = q.name
			}
			return s
		}
	}

	return nil
}

// stoppedPart returns the part of a request that the queue may not borrow for now.
func (q *queueLedger) stoppedPart(request JobRequest) (stopped JobRequest) {
	isFree := func(name card.Name) bool { return !q.stopped[Resource(name)] }

	// A request with a free alternative borrows that one, so it is not stopped.
	for _, d := range request.Cards {
		if d.Count > 0 && len(d.Names) > 0 && !slices.ContainsFunc(d.Names, isFree) {
			stopped.Cards = append(stopped.Cards, d)
		}
	}

	if q.stopped[CPU] {
		stopped.MilliCPU = request.MilliCPU
	}
	if q.stopped[Memory] {
		stopped.Memory = request.Memory
	}

	return stopped
}

// checkEnqueue returns the first limit of one queue that reservations and a request exceed.
func (q *queueLedger) checkEnqueue(limit func(Resource) int64, inqueue *Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	// Usage above a lowered quota must not refuse a job that requests no cards.
	if !q.limits.AnyCard && slices.ContainsFunc(request.Cards, func(d CardRequest) bool { return d.Count > 0 }) {
		scaled := func(name card.Name) int64 { return scaleLimit(limit(Resource(name)), overCommit) }
		if _, s := q.matchCards(scaled, inqueue, request); s != nil {
			return s
		}
	}

	for _, resource := range Compute {
		asked := resource.selectAmount(request.MilliCPU, request.Memory, 0)
		reserved := resource.selectAmount(inqueue.MilliCPU, inqueue.Memory, 0)

		// Elastic pods are evicted first, so a job may wait for what they use.
		used := max(0, q.used.amountOf(resource)-resource.selectAmount(inqueue.elasticCPU, inqueue.elasticMemory, 0))
		total := AddSaturating(AddSaturating(used, reserved), asked)

		most := scaleLimit(limit(resource), overCommit)
		if asked > 0 && most != Unlimited && total > most {
			return &InsufficientQuota{Of: resource, Queue: q.name, Requested: asked, Total: total, Limit: most}
		}
	}

	return nil
}

// FitsAlone reports whether CheckEnqueue would accept the request if the queue had only these
// charges, and no other queue had any.
func (l *Ledger) FitsAlone(queue string, own []*Charge, request JobRequest, overCommit float64) bool {
	q := l.readQueue(queue)
	total := card.Count(0)
	one := len(own) == 0

	for _, d := range request.Cards {
		total = total.Add(d.Count)
	}

	// Building a ledger costs more than comparing sums, and the scheduler asks this for every
	// enqueued job.
	for _, d := range request.Cards { // usually one card has quota for the whole request
		one = one && slices.ContainsFunc(d.Names, func(name card.Name) bool {
			return int64(total) <= q.limitAlone(Resource(name), request.IsUnreclaimable)
		})
	}

	if one && request.MilliCPU <= q.limitAlone(CPU, request.IsUnreclaimable) && request.Memory <= q.limitAlone(Memory, request.IsUnreclaimable) {
		return true
	}

	// Without a tree the ledger of one queue has no ancestors, so it takes the smallest limits of
	// the path.
	alone := New(len(own))
	limits := l.PathLimits(queue)
	if request.IsUnreclaimable {
		limits = q.deservedOnPath(limits)
	}

	alone.SetLimits(queue, limits)
	for i, c := range own {
		alone.Charge(strconv.Itoa(i), c)
	}

	none := func(string) *Reservations { return &Reservations{} }
	return alone.CheckEnqueue(queue, none, request, overCommit) == nil
}

// matchCards adds the requests of the request one by one, so the result names the first that
// does not fit. Usage and reservations above a lowered quota block only requests for the same
// cards.
func (q *queueLedger) matchCards(limit func(card.Name) int64, inqueue *Reservations, request JobRequest) (*matching, *InsufficientQuota) {
	// Usage and reservations come first: the matching never takes a card from an earlier request.
	m := newMatching(inqueue.Elastic, func(name card.Name) int64 { return max(0, limit(name)-int64(q.used.cards[name])) })
	for _, name := range q.cardsOverLimit(limit) {
		m.addRequest(CardRequest{Names: []card.Name{name}, Count: q.used.cards[name] - card.Count(limit(name))})
	}

	for _, d := range inqueue.Cards {
		m.addRequest(d)
	}

	for i, d := range request.Cards {
		if got := m.addRequest(d); got < d.Count {
			s := &InsufficientQuota{Queue: q.name, Names: d.Names, Requested: int64(d.Count)}
			s.Total = s.Requested + int64(sumCompeting(inqueue.Cards, d).Add(sumCompeting(request.Cards[:i], d)))
			for _, name := range d.Names {
				s.Total += int64(q.used.cards[name])
				s.Limit += limit(name)
			}

			// With alternatives the sums can look sufficient, so report at least what the
			// matching could not give.
			s.Total = max(s.Total, s.Limit+int64(d.Count-got))
			return m, s
		}
	}

	return m, nil
}

// cardsOverLimit lists the cards that the queue uses beyond the limit, sorted.
func (q *queueLedger) cardsOverLimit(limit func(card.Name) int64) []card.Name {
	var over []card.Name
	for name, used := range q.used.cards {
		if int64(used) > limit(name) {
			over = append(over, name)
		}
	}
	slices.Sort(over)
	return over
}

// sumCompeting sums the requests that share a card name with d.
func sumCompeting(requests []CardRequest, d CardRequest) card.Count {
	var total card.Count
	for _, other := range requests {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(d.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// factorUnits is the unit of a factor: 1.15 is no binary fraction, and 100 times it would be
// less than 115.
const factorUnits = 1_000_000

// scaleLimit multiplies a limit and rounds down.
func scaleLimit(limit int64, factor float64) int64 {
	if limit == Unlimited || factor == 1 {
		return limit
	}
	high, low := bits.Mul64(uint64(limit), uint64(factor*factorUnits+0.001))
	if high >= factorUnits {
		return Unlimited
	}
	scaled, _ := bits.Div64(high, low, factorUnits)
	return int64(min(scaled, uint64(Unlimited)))
}
